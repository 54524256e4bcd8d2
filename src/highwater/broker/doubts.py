"""Leaders that may just have died: whoever asks about them is kept waiting for the little while it takes to know.

A client that loses its leader asks for metadata within a millisecond, before anyone can have elected another. Told the
old leader it would come back after a second; told the truth some milliseconds later it goes on at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from highwater.model import NodeId
from highwater.world import Clock

HINT_SECONDS = 0.01
"""A dying process closes its connections one after the other, ours perhaps after the client's."""
ACQUAINTED_SECONDS = 0.2
"""Who has been connected for so long and asks again may have lost something; who has just come has not."""
DOUBT_SECONDS = 0.3
"""Longer than a fencing by proof and an election take, shorter than anyone would notice."""
PATIENCE_SECONDS = 1.0
"""What a question waits at most, and what a doubt lasts: hints that follow each other for longer than this, with nobody
to fence the broker, tell nothing new."""


class _Question(NamedTuple):
    leaders: Callable[[], Collection[NodeId]]
    asked_at: float
    answer: Callable[[], None]


class Doubts:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._casts = 0
        self._doubted: dict[NodeId, int] = {}
        """By the last cast, whose end is theirs: by the clock, a timer may come a hair too early to end it."""
        self._hinted: dict[NodeId, tuple[float, float]] = {}
        """When the first and the last of an unbroken row of hints came."""
        self._waiting: list[_Question] = []

    def cast(self, broker: NodeId) -> None:
        """A connection with this broker was lost, or is refused: a hint."""
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
        """`answer` as soon as there is no doubt about any of those who lead by then."""
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
        """Newer metadata is there: it has the answer, or the next one will."""
        waiting, self._waiting = self._waiting, []
        for question in waiting:
            self._look(question)

    def clear(self, broker: NodeId) -> None:
        """It is known again what became of it: fenced, or heard of."""
        self._doubted.pop(broker, None)
        self._hinted.pop(broker, None)

    def _is_about(self, leaders: Collection[NodeId]) -> bool:
        return any(leader in self._doubted for leader in leaders)

    def _expire(self, broker: NodeId, cast: int) -> None:
        if self._doubted.get(broker) == cast:
            del self._doubted[broker]
        self.settle()
