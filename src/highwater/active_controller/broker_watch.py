"""How the active controller watches brokers: it notes heartbeats, probes brokers that may be dead, and fences dead
ones.

`highwater.controller.death` judges the evidence: sessions that end (`Liveness`), connections that close and ports that
refuse (`Suspicion`), and brokers that start again with the lock of the same directory (`Succession`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from highwater.controller.brokers import fence_broker
from highwater.controller.death import Liveness, Succession, Suspicion, address_to_probe, was_stalled
from highwater.controller.leaders import MAX_ELECTIONS
from highwater.controller.states import BrokerState
from highwater.metadata.brokers import BrokerRegistration
from highwater.metadata.pieces import Pieces
from highwater.model import NodeId, Uuid
from highwater.net.context import Connected
from highwater.net.probe import Probe

if TYPE_CHECKING:
    from highwater.active_controller.active_controller import ActiveController

_log = logging.getLogger(__name__)


class BrokerWatch:
    def __init__(self, controller: ActiveController, session_seconds: float, inter_broker_listener: str | None) -> None:
        self._controller = controller
        self._world = controller.world
        self._listener = inter_broker_listener
        self.liveness = Liveness(session_seconds)
        self._suspicion = Suspicion()
        self._succession = Succession()
        self._watched: dict[Connected, tuple[NodeId, int]] = {}
        """The connections on which brokers send their heartbeats. If one closes, that is a hint."""
        self._fencings: set[tuple[NodeId, int]] = set()

    def activate(self, own: NodeId, own_broker: Uuid | None) -> None:
        """The controller is active from now on. `own` is the node that it runs on, and `own_broker` is the incarnation
        of the broker in this process, if there is one."""
        self._fencings.clear()
        brokers = self._controller.head.brokers
        self.liveness.activate(brokers, self._world.clock.monotonic())
        before = brokers.get(own)
        if before is not None and own_broker not in (None, before.incarnation):
            # This process is that broker and holds the lock of its directory, so the incarnation before it is dead. But
            # this broker may take long to open its logs and register. So the session of the dead one still ends in
            # time, and others lead its partitions then.
            self.liveness.presume_dead(before.id, before.epoch)
        for broker in brokers.by_id.values():
            # A new controller has no connections whose end would be a hint, so it probes at once.
            if not broker.fenced and broker.id != own:
                self._probe(broker.id, broker.epoch)

    def heard(self, connection: Connected, broker: NodeId, epoch: int, metadata_offset: int) -> None:
        """A heartbeat came on this connection; if the connection closes later, that is a hint that the broker is dead.
        The heartbeat counts at once, even if its records have to wait or cannot be written."""
        registration = self._registration(broker)
        if registration is None or registration.epoch != epoch:
            return
        self.liveness.heard(broker, epoch, self._world.clock.monotonic(), metadata_offset)
        if connection not in self._watched:
            connection.on_close(lambda: self._hint(*self._watched.pop(connection, (broker, epoch))))
        self._watched[connection] = (broker, epoch)
        self._suspicion.heard(broker, epoch)

    def waits(self, broker: NodeId, epoch: int, heartbeat: object) -> None:
        """The heartbeat that was heard is answered later."""
        self.liveness.waits(broker, epoch, heartbeat)

    def answered(self, broker: NodeId, epoch: int, heartbeat: object) -> None:
        self.liveness.answered(broker, epoch, heartbeat, self._world.clock.monotonic())

    @property
    def leaving(self) -> frozenset[NodeId]:
        """The brokers that are being fenced: no ISR takes them in."""
        return frozenset(broker for broker, _ in self._fencings)

    @property
    def is_fencing(self) -> bool:
        """Whether a broker is being fenced. That takes several turns, and until the last one the broker counts as
        active. An election in between could elect it again, and the fencing would never end."""
        return bool(self._fencings)

    def entered(self, broker: NodeId, epoch: int, state: BrokerState) -> None:
        """The records of a heartbeat are in the log."""
        self.liveness.entered(broker, epoch, state, self._controller.log_end - 1)

    def registered(self, broker: NodeId, epoch: int) -> None:
        """The records of a registration are in the log."""
        self.liveness.registered(broker, epoch, self._world.clock.monotonic())

    def outlives(self, connection: Connected, incarnation: Uuid, existing: BrokerRegistration, received: float) -> bool:
        """Whether a broker that registers has proven that the registered incarnation is dead."""
        return self._succession.outlives(connection, incarnation, existing, received)

    def refused(self, connection: Connected, incarnation: Uuid, existing: BrokerRegistration) -> None:
        """A registration is refused on this connection because of the incarnation `existing`."""
        if not self._succession.has_refused(connection):
            connection.on_close(lambda: self._succession.closed(connection))
        self._succession.refused(connection, incarnation, existing, self._world.clock.monotonic())

    def fence_silent(self, due: float, now: float) -> None:
        """Fences brokers whose session is over. Called by a timer that was due at `due`."""
        if was_stalled(due, now):
            self.liveness.extend(now)
        self.liveness.begin_missing(self._controller.head.brokers, now)
        expired = self.liveness.expired(now)
        for broker, epoch in expired:
            why = f"no heartbeat for {self.liveness.silent_for(broker, now):.1f} s"
            with self._world.failures.boundary("periodic", f"the fencing of broker {broker}"):
                self._fence(broker, epoch, why, [other for other, _ in expired])

    def _hint(self, broker: NodeId, epoch: int) -> None:
        if self._unfenced(broker, epoch) and self._suspicion.hint(broker, epoch, self._world.clock.monotonic()):
            self._probe(broker, epoch)

    def _probe(self, broker: NodeId, epoch: int) -> None:
        registration = self._unfenced(broker, epoch)
        at = None if registration is None else address_to_probe(registration, self._listener)
        if at is not None:
            self._suspicion.probing(broker, epoch)
            Probe(self._world, at, self._controller.deadlines, lambda dead: self._judge(broker, epoch, dead))

    def _judge(self, broker: NodeId, epoch: int, dead: bool) -> None:
        if self._unfenced(broker, epoch) is None:
            return
        if not dead:
            _log.info("broker %d of epoch %d lost its connection, but its address still answers", broker, epoch)
            return
        unfenced = sum(1 for each in self._controller.head.brokers.by_id.values() if not each.fenced)
        if self._suspicion.proven(broker, epoch, self._world.clock.monotonic(), unfenced):
            self._fence(broker, epoch, "it refused two connections", by_proof=True)
        else:
            _log.warning("broker %d of epoch %d seems dead; its session decides", broker, epoch)

    def _registration(self, broker: int) -> BrokerRegistration | None:
        return self._controller.head.brokers.get(broker) if self._controller.is_active else None

    def _unfenced(self, broker: NodeId, epoch: int) -> BrokerRegistration | None:
        registration = self._registration(broker)
        known = registration is not None and registration.epoch == epoch and not registration.fenced
        return registration if known else None

    def _fence(
        self, broker: NodeId, epoch: int, why: str, silent: Sequence[NodeId] = (), by_proof: bool = False
    ) -> None:
        self._fencings.add((broker, epoch))
        self._controller.decide_alone(partial(self._fencing, broker, epoch, why, silent, by_proof))

    def _fencing(self, broker: NodeId, epoch: int, why: str, silent: Sequence[NodeId], by_proof: bool) -> Pieces[None]:
        """Fences the broker in slices: it may have thousands of replicas, and heartbeats of other brokers wait."""
        controller = self._controller
        self._fencings.discard((broker, epoch))
        if not controller.is_active:
            return
        records = fence_broker(controller.head, controller.config, broker, epoch, MAX_ELECTIONS, silent)
        if records and not (yield from controller.append(records, why)):
            controller.owes_elections = True  # earlier slices may have left partitions without a leader
            return
        if self._unfenced(broker, epoch) is not None:
            self._fencings.add((broker, epoch))
            self._world.clock.call_soon(self._fence, broker, epoch, why, silent, by_proof)
            return
        self.liveness.forget(broker, epoch)
        if silent:  # one of them may have been heard again since
            controller.owes_elections = True
        if records and by_proof:
            self._suspicion.fenced(broker, epoch, self._world.clock.monotonic())
        if records:
            _log.warning("broker %d of epoch %d is fenced: %s", broker, epoch, why)
