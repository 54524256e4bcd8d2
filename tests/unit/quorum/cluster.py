"""A cluster of quorum machines on a seeded event queue: a small driver, a network and disks that fail.

The driver does with a `Ready` what a node has to do, in its order, and may crash between any two steps.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from highwater.errors import Code
from highwater.model import NodeId, Uuid
from highwater.quorum import (
    Caller,
    ElectionState,
    FetchAnswer,
    FollowerFetch,
    Identity,
    Listener,
    LogPosition,
    LogView,
    Quorum,
    Ready,
    ReplicaKey,
    Request,
    Role,
    Timing,
    VoterNode,
    VoterSet,
)
from highwater.quorum.log_view import durable_position
from highwater.wire.codec import Message
from highwater.wire.messages.vote_request import VoteRequest
from highwater.wire.messages.vote_response import VoteResponse
from tests.unit.quorum.invariants import Watch
from tests.unit.quorum.memory_log import Entry, MemoryLog

CLUSTER_ID = "a-cluster"
CONTROLLER = "CONTROLLER"
FETCH_MAX_WAIT = 0.5
CRASH_POINTS = 6
"""Steps of the driver between which a crash may fall."""


def voter_node(node_id: int, disk: int = 1) -> VoterNode:
    key = ReplicaKey(NodeId(node_id), Uuid(bytes([disk]) * 15 + bytes([node_id % 256])))
    return VoterNode(key, (Listener(CONTROLLER, "localhost", 9000 + node_id),))


def voter_set(*ids: int) -> VoterSet:
    return VoterSet.of(voter_node(node_id) for node_id in ids)


def identity(node_id: int) -> Identity:
    return Identity(CLUSTER_ID, voter_node(node_id), CONTROLLER)


class Crash(Exception):
    """The process is gone; what it has not synced is, too."""


@dataclass(frozen=True)
class SnapshotFetch:
    """A FetchSnapshot, whole, as the driver sends it besides the machine."""

    replica: ReplicaKey
    epoch: int
    snapshot: LogPosition


@dataclass(frozen=True)
class SnapshotData:
    error: Code
    leader_id: NodeId | None
    epoch: int
    entries: tuple[Entry, ...] = ()


@dataclass
class Parked:
    fetch: FollowerFetch
    reply: Callable[[object], None]


class Node:
    """A process that comes and goes on a disk that stays."""

    def __init__(self, world: World, node_id: int, voters: VoterSet) -> None:
        self.world = world
        self.id = node_id
        self.voters = voters
        self.memory_log = world.new_log()
        self.stored: ElectionState | None = None
        self.quorum: Quorum | None = None
        self.life = 0
        self.is_paused = False
        self.crash_in: int | None = None
        self._held: list[Callable[[], None]] = []
        self._parked: list[Parked] = []
        self._syncing = False
        self._flush_due = False

    # As the invariants see it

    @property
    def is_up(self) -> bool:
        return self.quorum is not None

    @property
    def running(self) -> Quorum:
        assert self.quorum is not None
        return self.quorum

    @property
    def role(self) -> Role:
        return self.running.role

    @property
    def epoch(self) -> int:
        return self.running.epoch

    @property
    def high_watermark(self) -> int | None:
        return self.running.high_watermark

    @property
    def log(self) -> list[Entry]:
        return self.memory_log.written

    @property
    def disk(self) -> list[Entry]:
        return self.memory_log.synced

    # Life and death

    def start(self) -> None:
        self.life += 1
        world = self.world
        self.quorum = Quorum(
            identity(self.id),
            self.voters,
            world.view_of(self.memory_log),
            Random(world.random.random()),
            self.stored,
            world.now,
            voters_offset=0,
            timing=world.timing,
        )
        self.feed(lambda quorum: quorum.start(world.now))

    def crash(self) -> None:
        self.quorum = None
        self.is_paused, self.crash_in = False, None
        self._held, self._parked, self._syncing, self._flush_due = [], [], False, False
        self.memory_log = self.memory_log.after_crash(self.world.random)

    def at_step(self) -> None:
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                raise Crash

    def pause(self) -> None:
        self.is_paused = self.is_up

    def resume(self) -> None:
        self.is_paused = False
        held, self._held = self._held, []
        for fn in held:
            self.world.later(0, fn)

    def guarded(self, fn: Callable[[], None]) -> Callable[[], None]:
        """An event of this life: dropped after a crash, held while paused."""
        life = self.life

        def run() -> None:
            if not self.is_up or self.life != life:
                return
            if self.is_paused:
                self._held.append(run)
                return
            try:
                fn()
            except Crash:
                self.crash()
            self.world.changed(self)

        return run

    # The driver

    def feed(self, give: Callable[[Quorum], Ready], reply: Callable[[object], None] | None = None) -> None:
        ready = give(self.running)
        self.carry_out(ready, reply)
        deadline = self.running.next_deadline()
        if deadline is not None:
            self.world.timer(self, deadline)

    def tick(self) -> None:
        self.feed(lambda quorum: quorum.tick(self.world.now))

    def to_store(self, election: ElectionState) -> ElectionState:
        return election

    def carry_out(self, ready: Ready, reply: Callable[[object], None] | None) -> None:
        self.at_step()
        if ready.election is not None:
            self.stored = self.to_store(ready.election)
        self.at_step()
        if ready.truncate_to is not None:
            self.memory_log.truncate(ready.truncate_to)
        if ready.append is not None:
            self._append_fetched(bytes(ready.append))
        if ready.epoch_start is not None:
            assert ready.epoch_start.offset == self.memory_log.written_end
            self._write(Entry(ready.epoch_start.epoch, f"epoch of {ready.epoch_start.leader_change.leader_id}"))
        if ready.touches_log:
            self._flush_due = True
            self.sync()
        if ready.fetch_snapshot is not None:
            self._ask_snapshot(ready.fetch_snapshot)
        self.at_step()
        if ready.answer is not None and reply is not None:
            reply(ready.answer)
        for request in ready.requests:
            self.world.send(self, request)
        self.at_step()
        if ready.wake_fetches:
            parked, self._parked = self._parked, []
            for one in parked:
                self.serve(one.fetch, one.reply)

    def _write(self, entry: Entry) -> None:
        self.world.watch.log_matching.written(self.memory_log.written_end, entry)
        self.memory_log.append(entry)

    def _append_fetched(self, records: bytes) -> None:
        for line in records.decode().splitlines():
            epoch, value = line.split("\t")
            self._write(Entry(int(epoch), value))

    def sync(self) -> None:
        """One sync at a time; what is written meanwhile needs another one."""
        if not self._syncing:
            self._syncing, self._flush_due = True, False
            content = list(self.memory_log.written)
            self.world.later(self.world.sync_time(), self.guarded(lambda: self._synced(content)))

    def _synced(self, content: list[Entry]) -> None:
        self.at_step()
        self._syncing = False
        self.memory_log.sync(content)
        if self._flush_due:
            self.sync()
        self.at_step()
        self.feed(lambda quorum: quorum.log_flushed(self.world.now))

    def write_as_client(self, value: str) -> None:
        if self.role == Role.LEADER:
            self._write(Entry(self.epoch, value))
            self._flush_due = True
            self.sync()

    def take_snapshot(self) -> None:
        if self.high_watermark is not None:
            self.memory_log.take_snapshot(self.high_watermark)

    def request(self, message: object, reply: Callable[[object], None]) -> None:
        if isinstance(message, FollowerFetch):
            self.serve(message, reply)
        elif isinstance(message, SnapshotFetch):
            self._serve_snapshot(message, reply)
        elif isinstance(message, Message):
            caller = Caller(message.VERSIONS[1], CONTROLLER)
            self.feed(lambda quorum: quorum.requested(message, caller, self.world.now), reply)

    def serve(self, fetch: FollowerFetch, reply: Callable[[object], None]) -> None:
        self.feed(
            lambda quorum: quorum.requested(fetch, Caller(17, CONTROLLER), self.world.now),
            lambda answer: self._reply_or_park(fetch, answer, reply),
        )

    def _reply_or_park(self, fetch: FollowerFetch, answer: object, reply: Callable[[object], None]) -> None:
        assert isinstance(answer, FetchAnswer)
        if answer.can_wait:
            parked = Parked(fetch, reply)
            self._parked.append(parked)
            self.world.later(FETCH_MAX_WAIT, self.guarded(partial(self._expire, parked, answer)))
            return
        if answer.serves_records:
            end = min(self.world.view_of(self.memory_log).durable_end, fetch.offset + self.world.fetch_max_entries)
            lines = [f"{entry.epoch}\t{entry.value}\n" for entry in self.memory_log.written[fetch.offset : end]]
            answer = replace(answer, records="".join(lines).encode())
        reply(answer)

    def _expire(self, parked: Parked, answer: FetchAnswer) -> None:
        if parked in self._parked:
            self._parked.remove(parked)
            parked.reply(answer)

    # Snapshots, which the driver fetches by itself

    def _ask_snapshot(self, snapshot: LogPosition) -> None:
        leader = self.running.leader_id
        assert leader is not None
        fetch = SnapshotFetch(voter_node(self.id).key, self.epoch, snapshot)
        self.world.exchange(
            self, leader, fetch, lambda data: self._install(snapshot, data), lambda: self._end_snapshot(snapshot)
        )

    def _serve_snapshot(self, fetch: SnapshotFetch, reply: Callable[[object], None]) -> None:
        quorum = self.running
        error = quorum.snapshot_requested(fetch.replica, fetch.epoch, self.world.now)
        held = error == Code.NONE and self.memory_log.start_offset >= fetch.snapshot.offset
        entries = tuple(self.memory_log.written[: fetch.snapshot.offset]) if held else ()
        reply(SnapshotData(error, quorum.leader_id, quorum.epoch, entries))

    def _install(self, snapshot: LogPosition, data: object) -> None:
        assert isinstance(data, SnapshotData)
        now = self.world.now
        listeners = self.voters.listeners(data.leader_id) if data.leader_id is not None else ()
        self.feed(lambda quorum: quorum.snapshot_answered(data.error, data.leader_id, data.epoch, listeners, now))
        if data.entries and self.running.fetching_snapshot == snapshot > durable_position(self.memory_log):
            self.memory_log.install(list(data.entries))
        self._end_snapshot(snapshot)

    def _end_snapshot(self, snapshot: LogPosition) -> None:
        if self.running.fetching_snapshot == snapshot:
            self.feed(lambda quorum: quorum.snapshot_done(self.world.now))


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
            asked, told = request.topics[0].partitions[0], answer.topics[0].partitions[0]
            if told.vote_granted and not asked.pre_vote:
                candidate = ReplicaKey(NodeId(asked.replica_id), Uuid(bytes(asked.replica_directory_id)))
                self.watch.one_vote.voted(voter.id, asked.replica_epoch, candidate)


def through_the_wire(message: Message) -> Message:
    """As the peer reads it."""
    version = message.VERSIONS[1]
    return type(message).decode(message.encode(version), version)
