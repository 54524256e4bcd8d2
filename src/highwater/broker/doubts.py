"""Leaders that may just have died. Requests for their metadata wait for the short time until that is known.

A client that loses its leader asks for metadata within a millisecond, before another leader can be elected. If the
response named the old leader, the client would ask again a second later. If the response comes some milliseconds later
and names the new leader, the client continues at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from highwater.model import NodeId
from highwater.world import Clock

HINT_SECONDS = 0.01
"""A dying process closes its connections one after the other, ours perhaps after the client's."""
ACQUAINTED_SECONDS = 0.2
"""A client that has been connected for this long and asks again may have lost its leader; a new client has not."""
DOUBT_SECONDS = 0.3
"""Longer than a fencing by proof and an election take, and too short for a client to notice."""
PATIENCE_SECONDS = 1.0
"""The longest time that a request waits, and that a doubt lasts. If hints follow each other for longer than this and
the broker is not fenced, they mean nothing new."""


class _Question(NamedTuple):
    leaders: Callable[[], Collection[NodeId]]
    asked_at: float
    answer: Callable[[], None]


class Doubts:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._casts = 0
        self._doubted: dict[NodeId, int] = {}
        """Doubted brokers with the number of the last doubt: the timer of that doubt ends it. The clock is not used,
        because a timer may fire a little too early."""
        self._hinted: dict[NodeId, tuple[float, float]] = {}
        """The times of the first and the last of a series of hints."""
        self._waiting: list[_Question] = []

    def cast(self, broker: NodeId) -> None:
        """A connection to this broker was lost or refused, which is a hint."""
        now = self._clock.monotonic()
        first, last = self._hinted.get(broker, (now, now))
        if now - last >= DOUBT_SECONDS:
            first = now
        self._hinted[broker] = (first, now)
        if now - first >= PATIENCE_SECONDS:
            return
        self._casts += 1
        self._doubted[broker] = self._casts
        self._clock.call_later(DOUBT_SECONDS, self._expire, broker, self._casts)

    def ask(
        self, leaders: Callable[[], Collection[NodeId]], connected_at: float | None, answer: Callable[[], None]
    ) -> None:
        """Calls `answer` as soon as there is no doubt about any of the `leaders` at that time."""
        question = _Question(leaders, self._clock.monotonic(), answer)
        if connected_at is None or question.asked_at - connected_at < ACQUAINTED_SECONDS or not leaders():
            self._look(question)
        else:
            self._clock.call_later(HINT_SECONDS, self._look, question)

    def _look(self, question: _Question) -> None:
        is_late = self._clock.monotonic() >= question.asked_at + PATIENCE_SECONDS
        if not is_late and self._is_about(question.leaders()):
            self._waiting.append(question)
        else:
            question.answer()

    def settle(self) -> None:
        """Newer metadata is applied. It may end the wait of some requests."""
        waiting, self._waiting = self._waiting, []
        for question in waiting:
            self._look(question)

    def clear(self, broker: NodeId) -> None:
        """The state of the broker is known again: it was fenced, or it registered."""
        self._doubted.pop(broker, None)
        self._hinted.pop(broker, None)

    def _is_about(self, leaders: Collection[NodeId]) -> bool:
        return any(leader in self._doubted for leader in leaders)

    def _expire(self, broker: NodeId, cast: int) -> None:
        if self._doubted.get(broker) == cast:
            del self._doubted[broker]
        self.settle()
