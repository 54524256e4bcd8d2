"""The active controller: decides on `head`, which has what is not committed yet; answers when it is.

Two CreateTopics of one name must not both succeed, so the second sees the first before it is committed. On
resignation `head` is forgotten, and whoever waits is told that this is not the controller any more.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from highwater.config import BROKER_SESSION_TIMEOUT_MS, METADATA_MAX_IDLE_INTERVAL_MS, NodeConfig
from highwater.controller.brokers import fence_broker
from highwater.controller.decision import Decision
from highwater.controller.features import activation_records
from highwater.controller.leaders import elect_unclean, rebalance, rebalance_interval, unclean_interval
from highwater.controller.liveness import Liveness
from highwater.controller.settings import in_force
from highwater.controller.suspicion import Suspicion, was_stalled
from highwater.errors import KafkaError
from highwater.metadata.brokers import BrokerRegistration
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.replay import apply
from highwater.model import Endpoint, Epoch, NodeId, Offset
from highwater.net.context import Connected
from highwater.net.deadlines import DeadlineQueue
from highwater.net.probe import Probe
from highwater.quorum import Leadership
from highwater.raft_node.raft_node import RaftNode
from highwater.wire.codec import Message
from highwater.wire.messages.no_op_record import NoOpRecord
from highwater.world import Timer, World

R = TypeVar("R")
_log = logging.getLogger(__name__)


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
        self._gained: Leadership | None = None
        self._timer: Timer | None = None
        self._due = 0.0
        self._last_append = 0.0
        self._suspicion = Suspicion()
        self._rebalance_at = 0.0
        self._unclean_at = 0.0
        self._watched: dict[Connected, tuple[NodeId, int]] = {}
        """Connections that brokers send their heartbeats on: one that closes is a hint."""

    @property
    def is_active(self) -> bool:
        return self._head is not None

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
        self._config = in_force(self._config, self.head)
        return self._config

    def decide(self, decision: Callable[[], Decision[R]], answer: Callable[[R | None], None]) -> None:
        """Decide now, answer once everything the decision rests on is committed. None: not the controller."""
        if self._head is None:
            answer(None)
            return
        decided = decision()
        if decided.records and not self._append(list(decided.records)):
            answer(None)
            return
        self._answer_later(answer, decided.response)

    def _answer_later(self, answer: Callable[[Any], None], response: Any) -> None:
        if self._waiting or self.raft.committed.offset < self.head.offset:
            self._waiting.append((self.head.offset, answer, response))
        else:
            answer(response)

    def _append(self, records: list[Message]) -> bool:
        """False where the disk is full: nothing was decided, and whoever asked may ask again."""
        assert self._epoch is not None
        try:
            last = self.raft.append(records, self._epoch)
        except KafkaError as failed:
            _log.error("a decision could not be written: %s", failed)
            return False
        self._head, _ = apply(self.head, records, last, self._epoch)
        self._last_append = self.world.clock.monotonic()
        return True

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
            answer(response)

    def _activate(self, epoch: Epoch) -> None:
        """Everything of earlier epochs is applied: from here on decisions are ours."""
        _log.info("active controller of epoch %d", epoch)
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
        records = activation_records(self.head, self._bootstrap, self._config)
        if records and not self._append(records):
            self.raft.fail(OSError("the first records of the cluster could not be written"))
        self._last_append = now
        self._rebalance_at = now + rebalance_interval(self._config)
        self._unclean_at = now + unclean_interval(self._config)
        self._schedule()

    def _resign(self) -> None:
        if self._head is None:
            return
        _log.info("no longer the active controller")
        self._head = self._epoch = None
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, deque()
        for _, answer, _ in waiting:
            answer(None)

    # Noticing death

    def watch(self, connection: Connected | None, broker: NodeId, epoch: int) -> None:
        """A heartbeat came on this connection: its end is a hint that the broker is dead."""
        if connection is None:
            return
        if connection not in self._watched:
            connection.on_close(lambda: self._hint(*self._watched.pop(connection, (broker, epoch))))
        self._watched[connection] = (broker, epoch)
        self._suspicion.heard(broker, epoch)

    def _hint(self, broker: NodeId, epoch: int) -> None:
        if self._unfenced(broker, epoch) and self._suspicion.hint(broker, epoch, self.world.clock.monotonic()):
            self._probe(broker, epoch)

    def _probe(self, broker: NodeId, epoch: int) -> None:
        registration = self._unfenced(broker, epoch)
        if registration is not None and registration.listeners:
            at = Endpoint(registration.listeners[0].host, registration.listeners[0].port)
            Probe(self.world, at, self.deadlines, lambda dead: self._judge(broker, epoch, dead))

    def _judge(self, broker: NodeId, epoch: int, dead: bool) -> None:
        if self._unfenced(broker, epoch) is None:
            return
        if not dead:
            _log.info("broker %d of epoch %d lost its connection, but its address is taken", broker, epoch)
            return
        unfenced = sum(1 for each in self.head.brokers.by_id.values() if not each.fenced)
        if self._suspicion.proven(broker, epoch, self.world.clock.monotonic(), unfenced):
            self._fence(broker, epoch, "nothing listens at its address any more")
        else:
            _log.warning("broker %d of epoch %d seems dead; its session decides", broker, epoch)

    def _unfenced(self, broker: NodeId, epoch: int) -> BrokerRegistration | None:
        registration = None if self._head is None else self._head.brokers.get(broker)
        known = registration is not None and registration.epoch == epoch and not registration.fenced
        return registration if known else None

    def _fence(self, broker: NodeId, epoch: int, why: str) -> None:
        if self._head is None:
            return
        records = fence_broker(self.head, self.config, broker, epoch)
        if records and not self._append(records):
            return
        self.liveness.forget(broker, epoch)
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
        now = self.world.clock.monotonic()
        if was_stalled(self._due, now):
            self.liveness.extend(now)
        for broker, epoch in self.liveness.expired(now):
            self._fence(broker, epoch, "not heard of in its session")
        self._elect_by_the_clock(now)
        if self._config.get(METADATA_MAX_IDLE_INTERVAL_MS) and now - self._last_append >= self._idle_interval() * 0.9:
            self._append([NoOpRecord()])
        self._schedule()

    def _elect_by_the_clock(self, now: float) -> None:
        """Leadership goes back to preferred replicas, and where that is allowed to unclean ones, now and then."""
        if now >= self._rebalance_at:
            self._rebalance_at = now + rebalance_interval(self._config)
            self._append_some(rebalance(self.head, self.config))
        if now >= self._unclean_at:
            self._unclean_at = now + unclean_interval(self._config)
            self._append_some(elect_unclean(self.head, self.config))

    def _append_some(self, records: Sequence[Message]) -> None:
        if records:
            self._append(list(records))

    @property
    def brokers_leaving(self) -> bool:
        """Whether a broker still needs this controller to agree to its shutdown."""
        head = self._head
        return head is not None and any(
            broker.in_controlled_shutdown and not broker.fenced for broker in head.brokers.by_id.values()
        )

    def close(self) -> None:
        self._resign()
