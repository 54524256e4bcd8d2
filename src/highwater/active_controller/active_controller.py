"""The active controller: decides on `head`, which has what is not committed yet; answers when it is.

Two CreateTopics of one name must not both succeed, so the second sees the first before it is committed. On
resignation `head` is forgotten, and whoever waits is told that this is not the controller any more.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from highwater.active_controller.docket import Case, Docket
from highwater.config import BROKER_SESSION_TIMEOUT_MS, METADATA_MAX_IDLE_INTERVAL_MS, NodeConfig
from highwater.controller.batches import cut
from highwater.controller.brokers import fence_broker
from highwater.controller.decision import Deciding, Decision
from highwater.controller.features import activation_records
from highwater.controller.leaders import (
    MAX_ELECTIONS,
    elect_unclean,
    rebalance,
    rebalance_interval,
    unclean_interval,
)
from highwater.controller.liveness import Liveness
from highwater.controller.settings import in_force
from highwater.controller.state_changes import state_changes, unclean_elections
from highwater.controller.succession import Succession
from highwater.controller.suspicion import Suspicion, address_to_probe, was_stalled
from highwater.errors import KafkaError
from highwater.metadata.brokers import BrokerRegistration
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.pieces import Pieces
from highwater.metadata.records import encoding
from highwater.metadata.replay import applying
from highwater.model import Epoch, NodeId, Offset, Uuid
from highwater.net.context import Connected
from highwater.net.deadlines import DeadlineQueue
from highwater.net.probe import Probe
from highwater.quorum import Leadership
from highwater.raft_node.raft_node import RaftNode
from highwater.wire.codec import Message
from highwater.wire.messages.no_op_record import NoOpRecord
from highwater.world import Timer, World

R = TypeVar("R")
REMEMBERED = 100
TOLD_AT_ONCE = 20
"""Changes of state between two turns of the loop: what was decided for a thousand partitions waits for no words."""
_log = logging.getLogger(__name__)
_state_change_log = logging.getLogger("highwater.state_change")


class ActiveController:
    def __init__(
        self,
        world: World,
        config: NodeConfig,
        raft: RaftNode,
        bootstrap: Sequence[Message],
        deadlines: DeadlineQueue,
    ) -> None:
        self.world = world
        self._config = config
        self.raft = raft
        self._bootstrap = bootstrap
        self.deadlines = deadlines
        self.random = world.random("controller")
        self.liveness = Liveness(config.get(BROKER_SESSION_TIMEOUT_MS) / 1000)
        self._epoch: Epoch | None = None
        self._head: MetadataImage | None = None
        self._waiting: deque[tuple[Offset, Callable[[Any], None], Any]] = deque()
        self._docket = Docket(world)
        self._gained: Leadership | None = None
        self._timer: Timer | None = None
        self._due = 0.0
        self._last_append = 0.0
        self._suspicion = Suspicion()
        self._rebalance_at = 0.0
        self._unclean_at = 0.0
        self._watched: dict[Connected, tuple[NodeId, int]] = {}
        """Connections that brokers send their heartbeats on: one that closes is a hint."""
        self._succession = Succession()
        self.changes: deque[tuple[float, str]] = deque(maxlen=REMEMBERED)
        """The last ones that were decided here, with the time of each."""
        self._untold: deque[Iterator[str]] = deque()
        self.unclean_elections = 0

    @property
    def is_active(self) -> bool:
        return self._head is not None

    @property
    def is_deliberating(self) -> bool:
        """Whether something is under way, or waits, that is not decided yet."""
        return not self._docket.is_free

    @property
    def epoch(self) -> Epoch | None:
        """The quorum epoch that its decisions are written in."""
        return self._epoch

    @property
    def head(self) -> MetadataImage:
        assert self._head is not None, "not the active controller"
        return self._head

    @property
    def config(self) -> NodeConfig:
        """With the dynamic settings of the head image."""
        before, self._config = self._config, in_force(self._config, self.head)
        for why in () if self._config.is_broker else self._config.ignored:  # a broker of this node says it itself
            if why not in before.ignored:
                _log.error("controller %d leaves out settings that do not suit it: %s", self._config.node_id, why)
        return self._config

    def decide(
        self,
        decision: Callable[[], Decision[R]],
        answer: Callable[[R | None], None],
        written: Callable[[Any], None] = lambda decided: None,
        takes_long: bool = False,
    ) -> None:
        """Decide now, or once what is under way is decided; answer when everything that the decision rests on is
        committed. None: not the controller.

        `decision` changes nothing. What is to be remembered of it is for `written`, which is called once its records
        are in the log."""
        case = Case(partial(self._deciding, partial(_at_once, decision), answer, written), partial(answer, None))
        self._docket.add(case, takes_long)

    def deliberate(self, decision: Callable[[], Deciding[R]], answer: Callable[[R | None], None]) -> None:
        """The same, by pieces."""
        self._docket.add(Case(partial(self._deciding, decision, answer), partial(answer, None)), takes_long=True)

    def _deciding(
        self,
        decision: Callable[[], Deciding[R]],
        answer: Callable[[R | None], None],
        written: Callable[[Any], None] = lambda decided: None,
    ) -> Pieces[None]:
        if self._head is None:
            answer(None)
            return
        decided = yield from decision()
        if decided.records and not (yield from self._append(list(decided.records), decided.why)):
            answer(None)
            return
        written(decided)
        self._answer_later(answer, decided.response)

    def _decide_alone(self, decide: Callable[[], Pieces[None]]) -> None:
        """What nobody asked for: nobody is told where it is given up."""
        self._docket.add(Case(decide, lambda: None))

    def _answer_later(self, answer: Callable[[Any], None], response: Any) -> None:
        if self._waiting or self.raft.committed.offset < self.head.offset:
            self._waiting.append((self.head.offset, answer, response))
        else:
            answer(response)

    def _answer(self, answer: Callable[[Any], None], response: Any) -> None:
        """One of many that wait: what becomes of it is no concern of the others."""
        with self.world.failures.boundary("connection", "an answer of the controller"):
            answer(response)

    def _append(self, records: list[Message], why: str) -> Pieces[bool]:
        """Batch by batch: what must stay together was checked where it was decided. False where one could not be
        written: whoever asked may ask again."""
        try:
            for batch in (yield from cut(records)):
                if not (yield from self._append_batch(list(batch), why)):
                    return False
        except KafkaError as too_large:
            _log.error("a decision is refused: %s", too_large)
            return False
        return True

    def _append_batch(self, records: list[Message], why: str) -> Pieces[bool]:
        """False where the disk is full, or another leads the quorum by now: nothing of it was decided."""
        assert self._epoch is not None
        before, epoch, end = self.head, self._epoch, self.raft.log.written_end
        # Applied before it is written: every node would fail on a record that cannot be, again and again.
        head, _ = yield from applying(before, records, end + len(records) - 1, epoch)
        encoded = yield from encoding(records)
        if self._epoch != epoch or self.raft.epoch != epoch or self.raft.log.written_end != end:
            return False
        written = False
        with self.world.failures.boundary("node", "the metadata log", self.raft.fail):  # who knows what it holds now
            try:
                self.raft.append(records, encoded, epoch)
                written = True
            except KafkaError as failed:
                if self.world.failures.is_news(line := f"a decision could not be written: {failed}"):
                    _log.error("%s", line)
        if not written:
            return False
        self._head = head
        self._last_append = self.world.clock.monotonic()
        self.unclean_elections += unclean_elections(records)
        self._untold.append(state_changes(before, records, why))
        if len(self._untold) == 1:
            self._tell_some()
        return True

    def _tell_some(self) -> None:
        for _ in range(TOLD_AT_ONCE):
            change = None
            with self.world.failures.boundary("callback", "the log of state changes"):
                change = next(self._untold[0], None)
            if change is not None:
                self._tell(change)
                continue
            self._untold.popleft()
            if not self._untold:
                return
        self.world.clock.call_soon(self._tell_some)

    def _tell(self, change: str) -> None:
        self.changes.append((self.world.clock.monotonic(), change))
        _state_change_log.info("%s", change)

    # What the quorum tells

    def leadership_changed(self, leadership: Leadership) -> None:
        if leadership.epoch_start is None:
            self._resign()
        self._gained = leadership if leadership.epoch_start is not None else None
        self.committed(self.raft.committed)

    def committed(self, image: MetadataImage) -> None:
        gained = self._gained
        if gained is not None and gained.epoch_start is not None:
            if self.raft.log.log.high_watermark > gained.epoch_start:
                self._gained = None
                self._activate(gained.epoch)
            return
        while self._waiting and self._waiting[0][0] <= image.offset:
            _, answer, response = self._waiting.popleft()
            self._answer(answer, response)

    def _activate(self, epoch: Epoch) -> None:
        """Everything of earlier epochs is applied: from here on decisions are ours."""
        _log.info("active controller of epoch %d", epoch)
        self._tell(f"controller {self._config.node_id} is active in epoch {epoch}: the quorum elected it")
        self._epoch = epoch
        self._head = self.raft.committed
        now = self.world.clock.monotonic()
        self.liveness.activate(self.head.brokers, now)
        own = self.head.brokers.get(self._config.node_id)
        if own is not None and self._config.is_broker:
            # This process is that broker: whatever ran under its id before it took the directory's lock is dead.
            self.liveness.forget(own.id, own.epoch)
        for broker in self.head.brokers.by_id.values():
            # A new controller has no connections to lose: it asks at once.
            if not broker.fenced and broker.id != self._config.node_id:
                self._probe(broker.id, broker.epoch)
        self._decide_alone(partial(self._begin_epoch, epoch))
        self._last_append = now
        self._rebalance_at = now + rebalance_interval(self._config)
        self._unclean_at = now + unclean_interval(self._config)
        self._schedule()

    def _begin_epoch(self, epoch: Epoch) -> Pieces[None]:
        records = activation_records(self.head, self._bootstrap, self._config)
        if records and not (yield from self._append(records, "a cluster's first records")):
            self.raft.resign(epoch)  # whoever is elected next writes them, once there is room

    def _resign(self) -> None:
        if self._head is None:
            return
        _log.info("no longer the active controller")
        self._tell(f"controller {self._config.node_id} is active no longer: it lost epoch {self._epoch} of the quorum")
        self._head = self._epoch = None
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, deque()
        for _, answer, _ in waiting:
            self._answer(answer, None)
        self._docket.give_up()

    # Noticing death

    def heard(self, connection: Connected, broker: NodeId, epoch: int, metadata_offset: int) -> None:
        """A heartbeat came on this connection, whose end is a hint that the broker is dead. It counts whether or not
        what it leads to can be written, and however long that has to wait."""
        registration = None if self._head is None else self._head.brokers.get(broker)
        if registration is None or registration.epoch != epoch:
            return
        self.liveness.heard(broker, epoch, self.world.clock.monotonic(), metadata_offset)
        if connection not in self._watched:
            connection.on_close(lambda: self._hint(*self._watched.pop(connection, (broker, epoch))))
        self._watched[connection] = (broker, epoch)
        self._suspicion.heard(broker, epoch)

    def outlives(self, connection: Connected, incarnation: Uuid, existing: BrokerRegistration) -> bool:
        """Whether a broker that wants to register has proven that the incarnation in its way is dead."""
        return self._succession.outlives(connection, incarnation, existing)

    def refused(self, connection: Connected, incarnation: Uuid, broker: int) -> None:
        """Its registration is refused on this connection, since another incarnation is in its way."""
        existing = None if self._head is None else self._head.brokers.get(broker)
        if existing is None:
            return
        if not self._succession.has_refused(connection):
            connection.on_close(lambda: self._succession.closed(connection))
        self._succession.refused(connection, incarnation, existing)

    def _hint(self, broker: NodeId, epoch: int) -> None:
        if self._unfenced(broker, epoch) and self._suspicion.hint(broker, epoch, self.world.clock.monotonic()):
            self._probe(broker, epoch)

    def _probe(self, broker: NodeId, epoch: int) -> None:
        registration = self._unfenced(broker, epoch)
        listener = self._config.inter_broker_listener_of_all
        at = None if registration is None else address_to_probe(registration, listener)
        if at is not None:
            self._suspicion.probing(broker, epoch)
            Probe(self.world, at, self.deadlines, lambda dead: self._judge(broker, epoch, dead))

    def _judge(self, broker: NodeId, epoch: int, dead: bool) -> None:
        if self._unfenced(broker, epoch) is None:
            return
        if not dead:
            _log.info("broker %d of epoch %d lost its connection, but its address is taken", broker, epoch)
            return
        unfenced = sum(1 for each in self.head.brokers.by_id.values() if not each.fenced)
        if self._suspicion.proven(broker, epoch, self.world.clock.monotonic(), unfenced):
            self._fence(broker, epoch, "it refused two connections", by_proof=True)
        else:
            _log.warning("broker %d of epoch %d seems dead; its session decides", broker, epoch)

    def _unfenced(self, broker: NodeId, epoch: int) -> BrokerRegistration | None:
        registration = None if self._head is None else self._head.brokers.get(broker)
        known = registration is not None and registration.epoch == epoch and not registration.fenced
        return registration if known else None

    def _fence(
        self, broker: NodeId, epoch: int, why: str, silent: Sequence[NodeId] = (), by_proof: bool = False
    ) -> None:
        self._decide_alone(partial(self._fencing, broker, epoch, why, silent, by_proof))

    def _fencing(self, broker: NodeId, epoch: int, why: str, silent: Sequence[NodeId], by_proof: bool) -> Pieces[None]:
        """In slices: a broker may have thousands of replicas, and heartbeats of the others wait for their turn."""
        if self._head is None:
            return
        records = fence_broker(self.head, self.config, broker, epoch, MAX_ELECTIONS, silent)
        if records and not (yield from self._append(records, why)):
            return
        if self._unfenced(broker, epoch) is not None:
            self.world.clock.call_soon(self._fence, broker, epoch, why, silent, by_proof)
            return
        self.liveness.forget(broker, epoch)
        if records and by_proof:
            self._suspicion.fenced(broker, epoch, self.world.clock.monotonic())
        if records:
            _log.warning("broker %d of epoch %d is fenced: %s", broker, epoch, why)

    # What happens by itself

    def _schedule(self) -> None:
        interval = self._idle_interval()
        self._due = self.world.clock.monotonic() + interval
        self._timer = self.world.clock.call_later(interval, self._on_timer)

    def _idle_interval(self) -> float:
        return (self._config.get(METADATA_MAX_IDLE_INTERVAL_MS) or 500) / 1000

    def _on_timer(self) -> None:
        with self.world.failures.boundary("periodic", "the controller's sessions and elections"):
            self._act_by_the_clock()
        self._schedule()

    def _act_by_the_clock(self) -> None:
        now = self.world.clock.monotonic()
        if was_stalled(self._due, now):
            self.liveness.extend(now)
        expired = self.liveness.expired(now)
        for broker, epoch in expired:
            why = f"no heartbeat for {self.liveness.silent_for(broker, now):.1f} s"
            with self.world.failures.boundary("periodic", f"the fencing of broker {broker}"):
                self._fence(broker, epoch, why, [other for other, _ in expired])
        self._elect_by_the_clock(now)
        if self._config.get(METADATA_MAX_IDLE_INTERVAL_MS) and now - self._last_append >= self._idle_interval() * 0.9:
            self._decide_alone(self._say_nothing)

    def _say_nothing(self) -> Pieces[None]:
        if self._head is not None:
            yield from self._append([NoOpRecord()], "")

    def _elect_by_the_clock(self, now: float) -> None:
        """Leadership goes back to preferred replicas, and where that is allowed to unclean ones, now and then."""
        if now >= self._rebalance_at:
            self._rebalance_at = now + rebalance_interval(self._config)
            self._elect_some(rebalance, "leadership goes back to preferred replicas")
        if now >= self._unclean_at:
            self._unclean_at = now + unclean_interval(self._config)
            self._elect_some(elect_unclean, "unclean.leader.election.enable allows it")

    def _elect_some(self, elect: Callable[[MetadataImage, NodeConfig], list[Message]], why: str) -> None:
        self._decide_alone(partial(self._electing, elect, why))

    def _electing(self, elect: Callable[[MetadataImage, NodeConfig], list[Message]], why: str) -> Pieces[None]:
        """And the rest, if there is any, in the next turn: not all at once, and not an interval later."""
        records = [] if self._head is None else elect(self.head, self.config)
        if records and (yield from self._append(records, why)) and len(records) == MAX_ELECTIONS:
            self.world.clock.call_soon(self._elect_some, elect, why)

    @property
    def brokers_leaving(self) -> bool:
        """Whether a broker still needs this controller to agree to its shutdown."""
        head = self._head
        return head is not None and any(
            broker.in_controlled_shutdown and not broker.fenced for broker in head.brokers.by_id.values()
        )

    def close(self) -> None:
        self._resign()


def _at_once(decision: Callable[[], Decision[R]]) -> Deciding[R]:
    return decision()
    yield
