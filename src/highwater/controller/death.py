"""When the active controller takes a broker for dead: soft state, which is in no log.

Fencing is only an availability decision, epochs keep it safe, so it may be quick where the evidence is good. There are
three ways to know:

- `Liveness`: nothing was heard for a whole session. It needs no other evidence.
- `Suspicion`: its connection closed, which is a hint, and its port refused twice, a little apart, for the same
  incarnation, while nothing was heard of it, which is the proof. A port that accepts proves nothing: a stopped process
  accepts too, and so does a stranger who took the port.
- `Succession`: it starts again. Whoever registers with a directory has its lock, from before it asks until its process
  ends. So of two incarnations that name one directory one is gone; but a registration of the dead one may still be on
  its way, and must not put out the living one. Whoever is refused and asks again on the same connection has read the
  refusal: it lived, and held the lock, after the other had registered. So the other is the dead one.

`highwater.active_controller.broker_watch` brings the evidence and writes the fencing; `highwater.controller.brokers`
says what a fencing changes. What brokers and their clients make of it: see `highwater.broker`.
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
"""Fenced by proof so often within so many seconds, an incarnation is fenced by the timer alone."""
AT_ONCE: Final = 1.0
"""Brokers that vanish within so many seconds of each other vanish together."""
LATE: Final = 0.5
"""A timer that fires so many seconds late proves that we were stalled, not that the brokers were silent."""


def was_stalled(due: float, now: float) -> bool:
    """Of a timer that should have fired at `due`: then input is drained and sessions are extended before any ends."""
    return now - due > LATE


@dataclass(slots=True)
class _Session:
    epoch: int
    last_contact: float
    metadata_offset: int = -1
    shutdown_offset: int | None = None
    is_of_the_dead: bool = False
    """It keeps nobody from registering, and ends like any other."""


class Liveness:
    """`now` is the caller's monotonic clock, in seconds."""

    __slots__ = ("_sessions", "_timeout")

    def __init__(self, session_timeout: float) -> None:
        self._timeout = session_timeout
        self._sessions: dict[NodeId, _Session] = {}

    def activate(self, brokers: BrokersImage, now: float) -> None:
        """Whoever is unfenced gets a whole session to make itself heard by the new controller."""
        self._sessions = {
            broker.id: _Session(broker.epoch, now) for broker in brokers.by_id.values() if not broker.fenced
        }

    def begin_missing(self, brokers: BrokersImage, now: float) -> None:
        """Whoever is unfenced has a session, or is never found silent. A heartbeat that was decided right behind the
        fencing of its broker, say, has unfenced one whose session had ended."""
        for broker in brokers.by_id.values():
            session = self._sessions.get(broker.id)
            if not broker.fenced and (session is None or session.epoch != broker.epoch):
                self._sessions[broker.id] = _Session(broker.epoch, now)

    def presume_dead(self, broker: NodeId, epoch: int) -> None:
        """The process of this epoch is known to be gone."""
        session = self._sessions.get(broker)
        if session is not None and session.epoch == epoch:
            session.is_of_the_dead = True

    def heard(self, broker: NodeId, epoch: int, now: float, metadata_offset: int) -> None:
        """A heartbeat came, whatever becomes of it."""
        session = self._sessions.get(broker)
        if session is None or session.epoch < epoch:
            session = self._sessions[broker] = _Session(epoch, now)
        elif session.epoch > epoch:
            return
        session.last_contact = now
        session.metadata_offset = metadata_offset
        session.is_of_the_dead = False

    def entered(self, broker: NodeId, epoch: int, state: BrokerState, end_offset: int) -> None:
        """A heartbeat led to `state`, and its records are in the log, which ends with `end_offset`."""
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
        """Brokers, with their epochs, that were silent for too long; the longest silent first."""
        over = [(s.last_contact, broker, s.epoch) for broker, s in self._sessions.items() if self._is_over(s, now)]
        return [(broker, epoch) for _, broker, epoch in sorted(over)]

    def silent_for(self, broker: NodeId, now: float) -> float:
        """Seconds since it was last heard of; 0 of one that has no session."""
        session = self._sessions.get(broker)
        return 0.0 if session is None else now - session.last_contact

    def extend(self, now: float) -> None:
        """The caller was stalled itself, so silence proves nothing: every session begins anew."""
        for session in self._sessions.values():
            session.last_contact = now

    def forget(self, broker: NodeId, epoch: int) -> None:
        """The broker of this epoch was fenced."""
        session = self._sessions.get(broker)
        if session is not None and session.epoch == epoch:
            del self._sessions[broker]

    def shutdown_offset(self, broker: NodeId, epoch: int) -> int | None:
        """Where its controlled shutdown began; None if it is in none."""
        session = self._sessions.get(broker)
        return session.shutdown_offset if session is not None and session.epoch == epoch else None

    def lowest_active_offset(self, brokers: BrokersImage) -> int | None:
        """What every active broker has applied of the metadata log; None where no broker is active."""
        return min(
            (session.metadata_offset for broker, session in self._sessions.items() if brokers.is_active(broker)),
            default=None,
        )

    def _is_over(self, session: _Session, now: float) -> bool:
        return session.last_contact + self._timeout < now


def address_to_probe(broker: BrokerRegistration, listener: str | None) -> Endpoint | None:
    """The address by which brokers reach it; `listener` is the name, if it is known. None: there is no telling.

    Any other is meant for clients elsewhere: outside of a container `localhost` is the broker, inside it is whoever
    dials, and a port that refuses there proves nothing.
    """
    found = broker.listener(listener) if listener is not None else None
    if listener is None and len(broker.listeners) == 1:
        found = broker.listeners[0]
    return None if found is None else Endpoint(found.host, found.port)


@dataclass(slots=True)
class _Record:
    epoch: int
    probed: bool = False
    """And not heard of since."""
    vanished_at: float | None = None
    fenced_at: deque[float] = field(default_factory=deque)


class Suspicion:
    """Whether a broker is fenced before its session is over. `now` is the caller's monotonic clock, in seconds."""

    __slots__ = ("_records",)

    def __init__(self) -> None:
        self._records: dict[NodeId, _Record] = {}

    def hint(self, broker: NodeId, epoch: int, now: float) -> bool:
        """Its connection closed: is a probe worth while?"""
        record = self._of(broker, epoch)
        record.vanished_at = now
        return not _is_damped(record, now)

    def probing(self, broker: NodeId, epoch: int) -> None:
        """By a hint; or without, by a new controller, which had no connections."""
        self._of(broker, epoch).probed = True

    def proven(self, broker: NodeId, epoch: int, now: float, unfenced: int) -> bool:
        """It refused twice: is it to be fenced now? `unfenced` counts the brokers that are, this one among them.

        Who sent a heartbeat while it was probed lives, whatever the port says; if it has died since, then its
        connection closed, and another probe is under way.
        """
        record = self._of(broker, epoch)
        if not record.probed:
            return False
        if record.vanished_at is None:
            record.vanished_at = now
        return not _is_damped(record, now) and not self._doubts_itself(now, unfenced)

    def fenced(self, broker: NodeId, epoch: int, now: float) -> None:
        """By proof, and the fencing is in the log."""
        self._of(broker, epoch).fenced_at.append(now)

    def heard(self, broker: NodeId, epoch: int) -> None:
        """It sent a heartbeat, and has not vanished."""
        record = self._of(broker, epoch)
        record.vanished_at = None
        record.probed = False

    def _of(self, broker: NodeId, epoch: int) -> _Record:
        """Another incarnation shows that the one before was dead: nothing is held against it."""
        record = self._records.get(broker)
        if record is None or record.epoch != epoch:
            record = self._records[broker] = _Record(epoch)
        return record

    def _doubts_itself(self, now: float, unfenced: int) -> bool:
        """One broker may die; when half of them vanish together, it is rather we who are cut off.

        Those that were fenced a moment ago were there to vanish, too.
        """
        records = self._records.values()
        vanished = sum(each.vanished_at is not None and now - each.vanished_at <= AT_ONCE for each in records)
        fenced = sum(bool(each.fenced_at) and now - each.fenced_at[-1] <= AT_ONCE for each in records)
        return vanished > 1 and 2 * vanished >= unfenced + fenced


def _is_damped(record: _Record, now: float) -> bool:
    """Proven dead again and again, and alive each time."""
    while record.fenced_at and record.fenced_at[0] <= now - FENCINGS_WITHIN:
        record.fenced_at.popleft()
    return len(record.fenced_at) >= FENCINGS


class _Claim(NamedTuple):
    incarnation: Uuid
    against: tuple[int, Uuid, int]
    """The broker, the incarnation and the epoch that stood in its way."""


def _claim(incarnation: Uuid, existing: BrokerRegistration) -> _Claim:
    return _Claim(incarnation, (existing.id, existing.incarnation, existing.epoch))


class Succession:
    """What it has refused, by connection."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[object, _Claim] = {}

    def outlives(self, connection: object, incarnation: Uuid, existing: BrokerRegistration) -> bool:
        """Whether this incarnation was refused on this connection for the same reason, and so has outlived it."""
        return self._refused.get(connection) == _claim(incarnation, existing)

    def refused(self, connection: object, incarnation: Uuid, existing: BrokerRegistration) -> None:
        """The refusal is on its way: what comes after it on this connection may prove something."""
        self._refused[connection] = _claim(incarnation, existing)

    def has_refused(self, connection: object) -> bool:
        return connection in self._refused

    def closed(self, connection: object) -> None:
        self._refused.pop(connection, None)
