"""When the active controller considers a broker dead. This is soft state: it is in no log.

Fencing only decides about availability, and epochs keep it safe. So it may be quick where the evidence is good. There
are three kinds of evidence:

- `Liveness`: the broker sent no heartbeat for a whole session. This needs no other evidence. A broker sends its next
  heartbeat when the last one is answered. So while the controller owes it an answer, it is not silent.
- `Suspicion`: the broker's connection closed, which is a hint. Then its port refused two connections, a little apart,
  and the same incarnation sent no heartbeat meanwhile, which is the proof. A port that accepts a connection proves
  nothing: the port of a stopped process accepts, too, and another process may have taken the port.
- `Succession`: the broker starts again. A broker holds the lock of its directory from before it registers until its
  process ends. So if two incarnations name the same directory, one of them is dead. But a registration of the dead one
  may still be on its way, and it must not replace the living one. An incarnation that is refused and registers again on
  the same connection has read the refusal. So it lived and held the lock after the other one had registered, and the
  other one is dead.

`highwater.active_controller.broker_watch` collects the evidence and writes the fencing; `highwater.controller.brokers`
decides what a fencing changes. `highwater.broker` describes how brokers and their clients react.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from highwater.controller.states import BrokerState
from highwater.metadata.brokers import BrokerRegistration, BrokersImage
from highwater.model import Endpoint, NodeId, Uuid

FENCINGS: Final = 3
FENCINGS_WITHIN: Final = 60.0
"""An incarnation that was fenced by proof `FENCINGS` times within this many seconds is fenced only by its session."""
AT_ONCE: Final = 1.0
"""Brokers that vanish within this many seconds of each other vanish together."""
LATE: Final = 0.5
"""If a timer fires this many seconds late, the controller itself was stalled, and the brokers may not have been
silent."""


def was_stalled(due: float, now: float) -> bool:
    """Whether a timer that was due at `due` fired so late that all sessions must be extended before any of them
    ends."""
    return now - due > LATE


@dataclass(slots=True)
class _Session:
    epoch: int
    last_contact: float
    metadata_offset: int = -1
    shutdown_offset: int | None = None
    unanswered: object = None
    """Its last heartbeat, if that is not answered yet, because something is not decided or not committed."""
    is_of_the_dead: bool = False
    """The process is dead. The session does not prevent a registration, and it ends like any other."""


class Liveness:
    """`now` is the caller's monotonic clock, in seconds."""

    __slots__ = ("_sessions", "_timeout")

    def __init__(self, session_timeout: float) -> None:
        self._timeout = session_timeout
        self._sessions: dict[NodeId, _Session] = {}

    def activate(self, brokers: BrokersImage, now: float) -> None:
        """Every unfenced broker gets a whole session to send a heartbeat to the new controller."""
        self._sessions = {
            broker.id: _Session(broker.epoch, now) for broker in brokers.by_id.values() if not broker.fenced
        }

    def begin_missing(self, brokers: BrokersImage, now: float) -> None:
        """Begin a session for every unfenced broker that has none; otherwise it would never expire. For example, a
        heartbeat that is decided right after the fencing of its broker unfences the broker without a session."""
        for broker in brokers.by_id.values():
            session = self._sessions.get(broker.id)
            if not broker.fenced and (session is None or session.epoch != broker.epoch):
                self._sessions[broker.id] = _Session(broker.epoch, now)

    def registered(self, broker: NodeId, epoch: int, now: float) -> None:
        """The broker registered, and its registration is in the log. Its session begins before its first heartbeat:
        otherwise a late registration of an earlier incarnation would replace it in between, for good."""
        session = self._sessions.get(broker)
        if session is None or session.epoch < epoch:
            self._sessions[broker] = _Session(epoch, now)

    def presume_dead(self, broker: NodeId, epoch: int) -> None:
        """The process of this broker epoch is known to be dead."""
        session = self._sessions.get(broker)
        if session is not None and session.epoch == epoch:
            session.is_of_the_dead = True

    def heard(self, broker: NodeId, epoch: int, now: float, metadata_offset: int) -> None:
        """A heartbeat came. It counts even if its records cannot be written."""
        session = self._sessions.get(broker)
        if session is None or session.epoch < epoch:
            session = self._sessions[broker] = _Session(epoch, now)
        elif session.epoch > epoch:
            return
        session.last_contact = now
        session.metadata_offset = metadata_offset
        session.is_of_the_dead = False

    def waits(self, broker: NodeId, epoch: int, heartbeat: object) -> None:
        """The heartbeat that was heard last is answered later."""
        session = self._sessions.get(broker)
        if session is not None and session.epoch == epoch:
            session.unanswered = heartbeat

    def answered(self, broker: NodeId, epoch: int, heartbeat: object, now: float) -> None:
        """A heartbeat that waited is answered. From now on the broker can send the next one, if it has not done so."""
        session = self._sessions.get(broker)
        if session is not None and session.epoch == epoch and session.unanswered is heartbeat:
            session.unanswered = None
            session.last_contact = now

    def entered(self, broker: NodeId, epoch: int, state: BrokerState, end_offset: int) -> None:
        """A heartbeat led to `state`. Its records are in the log, and `end_offset` is the log's last offset."""
        session = self._sessions.get(broker)
        if session is None or session.epoch != epoch:
            return
        if state is BrokerState.SHUTDOWN:
            del self._sessions[broker]
        elif state is BrokerState.CONTROLLED_SHUTDOWN:
            if session.shutdown_offset is None:
                session.shutdown_offset = end_offset
        elif state is BrokerState.FENCED:
            session.shutdown_offset = None

    def has_session(self, broker: NodeId, epoch: int, now: float) -> bool:
        session = self._sessions.get(broker)
        if session is None or session.epoch != epoch or session.is_of_the_dead:
            return False
        return not self._is_over(session, now)

    def expired(self, now: float) -> list[tuple[NodeId, int]]:
        """Brokers, with their epochs, whose session is over. The one that was silent for longest comes first."""
        over = [(s.last_contact, broker, s.epoch) for broker, s in self._sessions.items() if self._is_over(s, now)]
        return [(broker, epoch) for _, broker, epoch in sorted(over)]

    def silent_for(self, broker: NodeId, now: float) -> float:
        """Seconds since the last heartbeat; 0 for a broker without a session."""
        session = self._sessions.get(broker)
        return 0.0 if session is None else now - session.last_contact

    def extend(self, now: float) -> None:
        """Every session begins anew: the controller itself was stalled, so silence proves nothing."""
        for session in self._sessions.values():
            session.last_contact = now

    def forget(self, broker: NodeId, epoch: int) -> None:
        """The broker of this epoch was fenced, so its session ends."""
        session = self._sessions.get(broker)
        if session is not None and session.epoch == epoch:
            del self._sessions[broker]

    def shutdown_offset(self, broker: NodeId, epoch: int) -> int | None:
        """The offset at which the controlled shutdown began; None if there is none."""
        session = self._sessions.get(broker)
        return session.shutdown_offset if session is not None and session.epoch == epoch else None

    def lowest_active_offset(self, brokers: BrokersImage) -> int | None:
        """The metadata offset that every active broker has applied; None if no broker is active."""
        return min(
            (session.metadata_offset for broker, session in self._sessions.items() if brokers.is_active(broker)),
            default=None,
        )

    def _is_over(self, session: _Session, now: float) -> bool:
        return session.unanswered is None and session.last_contact + self._timeout < now


def address_to_probe(broker: BrokerRegistration, listener: str | None) -> Endpoint | None:
    """The broker's address for other brokers; `listener` is the listener's name, if known. None if it is unknown.

    Every other address is meant for clients elsewhere, and a port that refuses there proves nothing. For example,
    `localhost` may be the broker outside of a container, but inside it is the node that connects.
    """
    found = broker.listener(listener) if listener is not None else None
    if listener is None and len(broker.listeners) == 1:
        found = broker.listeners[0]
    return None if found is None else Endpoint(found.host, found.port)


@dataclass(slots=True)
class _Record:
    epoch: int
    probed: bool = False
    """It is being probed, and has sent no heartbeat since."""
    vanished_at: float | None = None
    fenced_at: deque[float] = field(default_factory=deque)


class Suspicion:
    """Decides whether a broker is fenced before its session is over. `now` is the monotonic clock, in seconds."""

    __slots__ = ("_records",)

    def __init__(self) -> None:
        self._records: dict[NodeId, _Record] = {}

    def hint(self, broker: NodeId, epoch: int, now: float) -> bool:
        """The broker's connection closed. Returns whether to probe it."""
        record = self._of(broker, epoch)
        record.vanished_at = now
        return not _is_damped(record, now)

    def probing(self, broker: NodeId, epoch: int) -> None:
        """A probe begins, after a hint. A new controller also probes without one, because it had no connections."""
        self._of(broker, epoch).probed = True

    def proven(self, broker: NodeId, epoch: int, now: float, unfenced: int) -> bool:
        """The broker refused two connections. Returns whether to fence it now. `unfenced` is the number of unfenced
        brokers, including this one.

        A broker that sent a heartbeat during the probe was alive, even if its port refused. If it has died since, its
        connection has closed, and another probe is under way.
        """
        record = self._of(broker, epoch)
        if not record.probed:
            return False
        if record.vanished_at is None:
            record.vanished_at = now
        return not _is_damped(record, now) and not self._doubts_itself(now, unfenced)

    def fenced(self, broker: NodeId, epoch: int, now: float) -> None:
        """The broker was fenced by proof, and the fencing is in the log."""
        self._of(broker, epoch).fenced_at.append(now)

    def heard(self, broker: NodeId, epoch: int) -> None:
        """The broker sent a heartbeat, so it has not vanished."""
        record = self._of(broker, epoch)
        record.vanished_at = None
        record.probed = False

    def _of(self, broker: NodeId, epoch: int) -> _Record:
        """The record of this epoch. A new incarnation proves that the last one was dead, so it gets a new record."""
        record = self._records.get(broker)
        if record is None or record.epoch != epoch:
            record = self._records[broker] = _Record(epoch)
        return record

    def _doubts_itself(self, now: float, unfenced: int) -> bool:
        """Whether this controller is probably cut off itself: half of the brokers, and at least two, vanished together.

        Brokers that were fenced a moment ago are counted, too.
        """
        records = self._records.values()
        vanished = sum(each.vanished_at is not None and now - each.vanished_at <= AT_ONCE for each in records)
        fenced = sum(bool(each.fenced_at) and now - each.fenced_at[-1] <= AT_ONCE for each in records)
        return vanished > 1 and 2 * vanished >= unfenced + fenced


def _is_damped(record: _Record, now: float) -> bool:
    """Whether the broker was proven dead too often: it was alive each time."""
    while record.fenced_at and record.fenced_at[0] <= now - FENCINGS_WITHIN:
        record.fenced_at.popleft()
    return len(record.fenced_at) >= FENCINGS


class _Claim(NamedTuple):
    incarnation: Uuid
    against: tuple[int, Uuid, int]
    """The broker, the incarnation and the epoch that prevented the registration."""


def _claim(incarnation: Uuid, existing: BrokerRegistration) -> _Claim:
    return _Claim(incarnation, (existing.id, existing.incarnation, existing.epoch))


class Succession:
    """The registrations that were refused, by connection."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[object, tuple[_Claim, float]] = {}

    def outlives(self, connection: object, incarnation: Uuid, existing: BrokerRegistration, received: float) -> bool:
        """Whether this incarnation was refused on this connection because of `existing`, and so has outlived it. A
        request that was `received` before the refusal was sent proves nothing: its sender may be dead."""
        claim, since = self._refused.get(connection, (None, 0.0))
        return claim == _claim(incarnation, existing) and received > since

    def refused(self, connection: object, incarnation: Uuid, existing: BrokerRegistration, now: float) -> None:
        """The refusal is being sent now. A request that comes later on this connection can prove that `existing`
        died."""
        self._refused[connection] = _claim(incarnation, existing), now

    def has_refused(self, connection: object) -> bool:
        return connection in self._refused

    def closed(self, connection: object) -> None:
        self._refused.pop(connection, None)
