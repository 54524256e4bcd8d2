"""Leaders that may just have died: whoever asks about them is kept waiting for the little while it takes to know.

A client that loses its leader asks for metadata within a millisecond, before anyone can have elected another. Told the
old leader it would come back after a second; told the truth some milliseconds later it goes on at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from highwater.model import NodeId
from highwater.world import Clock

SECONDS = 0.15
"""Longer than a fencing by proof and an election take, shorter than anyone would notice."""


class Doubts:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[NodeId, float] = {}
        self._waiting: list[Callable[[], None]] = []

    def cast(self, leader: NodeId) -> None:
        """The connection to this broker was lost: a hint."""
        self._until[leader] = self._clock.monotonic() + SECONDS
        self._clock.call_later(SECONDS, self._expire, leader)

    def about(self, leaders: Iterable[NodeId]) -> bool:
        return bool(self._until) and any(leader in self._until for leader in leaders)

    def wait(self, told: Callable[[], None]) -> None:
        """`told` when newer metadata is there, or the doubt is over."""
        self._waiting.append(told)

    def settle(self) -> None:
        """Newer metadata is there: it has the answer, or the next one will."""
        waiting, self._waiting = self._waiting, []
        for told in waiting:
            told()

    def clear(self, leader: NodeId) -> None:
        """It is known again what became of it: fenced, or heard of."""
        self._until.pop(leader, None)

    def _expire(self, leader: NodeId) -> None:
        if self._until.get(leader, 0.0) <= self._clock.monotonic():
            self._until.pop(leader, None)
            self.settle()
