"""When each broker was last heard of. Soft state of the active controller: a new one starts it afresh."""

from __future__ import annotations

from dataclasses import dataclass

from highwater.controller.states import BrokerState
from highwater.metadata.brokers import BrokersImage
from highwater.model import NodeId


@dataclass(slots=True)
class _Session:
    epoch: int
    last_contact: float
    metadata_offset: int = -1
    shutdown_offset: int | None = None


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

    def heard(self, broker: NodeId, epoch: int, now: float, metadata_offset: int) -> None:
        """A heartbeat came, whatever becomes of it."""
        session = self._sessions.get(broker)
        if session is None or session.epoch < epoch:
            session = self._sessions[broker] = _Session(epoch, now)
        elif session.epoch > epoch:
            return
        session.last_contact = now
        session.metadata_offset = metadata_offset

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
        return session is not None and session.epoch == epoch and not self._is_over(session, now)

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
        """The broker of this epoch was fenced, or is known to be dead."""
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
