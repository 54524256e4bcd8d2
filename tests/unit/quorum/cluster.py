"""A cluster of quorum machines on a seeded event queue, with a network and disks that fail."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

from highwater.model import NodeId, Uuid
from highwater.quorum import FetchAnswer, LogView, ReplicaKey, Request, Timing
from highwater.wire.codec import Message
from highwater.wire.messages.vote_request import VoteRequest
from highwater.wire.messages.vote_response import VoteResponse
from tests.unit.quorum.invariants import Watch
from tests.unit.quorum.memory_log import MemoryLog
from tests.unit.quorum.node import Crash, Node
from tests.unit.quorum.replicas import voter_node, voter_set


class World:
    """Time, chance, the network and the nodes."""

    def __init__(self, seed: int, size: int, timing: Timing | None = None, node: type[Node] = Node) -> None:
        self.random = Random(seed)
        self.timing = timing or Timing()
        self.now = 0.0
        self.watch = Watch()
        self.loss = 0.0
        self.is_calm = False
        """A network and disks without stalls."""
        self.fetch_max_entries = self.random.choice((1, 2, 8))
        self.cuts: set[tuple[int, int]] = set()
        self.events = 0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._last_arrival: dict[tuple[int, int], float] = {}
        self._timers: dict[int, tuple[float, int]] = {}
        ids = range(1, size + 1)
        self.nodes = {node_id: node(self, node_id, voter_set(*ids)) for node_id in ids}

    def new_log(self) -> MemoryLog:
        return MemoryLog()

    def view_of(self, log: MemoryLog) -> LogView:
        return log

    def node_list(self) -> list[Node]:
        return list(self.nodes.values())

    # Time

    def later(self, seconds: float, fn: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now + seconds, self._count, fn))

    def timer(self, node: Node, deadline: float) -> None:
        """One timer per node: the earliest one asked for."""
        pending = self._timers.get(node.id)
        if pending is not None and pending[1] == node.life and self.now < pending[0] <= deadline:
            return
        self._timers[node.id] = (deadline, node.life)

        def fire() -> None:
            if self._timers.get(node.id) == (deadline, node.life):
                del self._timers[node.id]
            node.tick()

        self.later(max(0.0, deadline - self.now), node.guarded(fire))

    def run_until(self, time: float, stop: Callable[[], bool] = lambda: False) -> bool:
        while self._queue and self._queue[0][0] <= time:
            self.now, _, fn = heapq.heappop(self._queue)
            self.events += 1
            fn()
            if stop():
                return True
        self.now = time
        return stop()

    def changed(self, node: Node) -> None:
        self.watch.check(node, self.node_list())

    # Nodes

    def start(self, node: Node) -> None:
        if not node.is_up:
            try:
                node.start()
            except Crash:
                node.crash()
            self.changed(node)

    def start_all(self) -> None:
        for node in self.node_list():
            self.start(node)

    def start_soon(self, node: Node, seconds: float) -> None:
        self.later(seconds, lambda: self.start(node))

    def crash(self, node: Node) -> None:
        if node.is_up:
            node.crash()
            self.changed(node)

    def crash_soon(self, node: Node, before: float) -> None:
        seconds = self.random.uniform(0, 0.05)
        if self.now + seconds < before:
            self.later(seconds, lambda: self.crash(node))

    # Network

    def send(self, sender: Node, request: Request) -> None:
        message: object = request.message
        if isinstance(message, Message):
            message = through_the_wire(message)
        if isinstance(message, VoteRequest):
            partition = message.topics[0].partitions[0]
            if not partition.pre_vote:
                self.watch.one_vote.voted(sender.id, partition.replica_epoch, voter_node(sender.id).key)

        def answered(answer: object) -> None:
            assert isinstance(answer, Message | FetchAnswer)
            sender.feed(lambda quorum: quorum.answered(request.correlation, answer, self.now))

        def failed() -> None:
            sender.feed(lambda quorum: quorum.failed(request.correlation, self.now))

        self.exchange(sender, request.peer.id, message, answered, failed)

    def exchange(
        self,
        sender: Node,
        to: int,
        message: object,
        answered: Callable[[object], None],
        failed: Callable[[], None],
    ) -> None:
        """A request and its answer over one connection. Either may be lost; then the sender may or may not notice."""
        receiver = self.nodes[to]

        def lost() -> None:
            if self.random.random() < 0.5:
                self.later(self.delay(), sender.guarded(failed))

        def reply(answer: object) -> None:
            if isinstance(answer, Message):
                answer = through_the_wire(answer)
            self._note_vote(receiver, message, answer)
            if self.is_lost(receiver.id, sender.id):
                lost()
            else:
                self.deliver(receiver.id, sender.id, sender.guarded(lambda: answered(answer)))

        def arrive() -> None:
            if not receiver.is_up:
                self.later(self.delay(), sender.guarded(failed))  # refused
            else:
                receiver.guarded(lambda: receiver.request(message, reply))()

        if self.is_lost(sender.id, receiver.id):
            lost()
        else:
            self.deliver(sender.id, receiver.id, arrive)

    def sync_time(self) -> float:
        if self.is_calm:
            return self.random.uniform(0.0005, 0.005)
        return self.random.uniform(0.0005, 0.01) if self.random.random() < 0.95 else self.random.uniform(0.01, 0.3)

    def delay(self) -> float:
        if self.is_calm:
            return self.random.uniform(0.0005, 0.002)
        return self.random.uniform(0.001, 0.02) if self.random.random() < 0.95 else self.random.uniform(0.02, 0.5)

    def is_lost(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) in self.cuts or self.random.random() < self.loss

    def deliver(self, sender: int, receiver: int, fn: Callable[[], None]) -> None:
        """In order on each connection, in any order between them."""
        key = (sender, receiver)
        arrival = max(self.now + self.delay(), self._last_arrival.get(key, 0.0) + 1e-6)
        self._last_arrival[key] = arrival
        self.later(arrival - self.now, fn)

    def _note_vote(self, voter: Node, request: object, answer: object) -> None:
        if isinstance(request, VoteRequest) and isinstance(answer, VoteResponse) and answer.topics:
            asked, vote = request.topics[0].partitions[0], answer.topics[0].partitions[0]
            if vote.vote_granted and not asked.pre_vote:
                candidate = ReplicaKey(NodeId(asked.replica_id), Uuid(bytes(asked.replica_directory_id)))
                self.watch.one_vote.voted(voter.id, asked.replica_epoch, candidate)


def through_the_wire(message: Message) -> Message:
    """As the peer reads it."""
    version = message.VERSIONS[1]
    return type(message).decode(message.encode(version), version)
