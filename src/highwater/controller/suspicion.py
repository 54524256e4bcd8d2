"""Whether a broker is fenced before its session is over.

Fencing is only an availability decision, epochs keep it safe, so it may be quick where the evidence is good. A closed
connection is a hint; the proof is a port that refuses twice, a little apart, for the same incarnation, while nothing
is heard of it. A port that accepts proves nothing: a stopped process accepts too, and so does a stranger who took the
port. All else waits for the session timer.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from highwater.metadata.brokers import BrokerRegistration
from highwater.model import Endpoint, NodeId

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
    """Soft state of the active controller; `now` is its monotonic clock, in seconds."""

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
