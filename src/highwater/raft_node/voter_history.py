"""The voter sets in the metadata log. The last one is in force; a truncation may remove it again."""

from __future__ import annotations

from collections.abc import Iterable

from highwater.model import Offset
from highwater.quorum import NEVER_LOGGED, VoterSet


class VoterHistory:
    def __init__(self) -> None:
        self._sets: list[tuple[Offset, VoterSet]] = []
        """The sets with the offsets of their records, oldest first."""

    @property
    def latest(self) -> VoterSet:
        return self._sets[-1][1] if self._sets else VoterSet()

    @property
    def offset(self) -> Offset:
        """The offset of the latest set."""
        return self._sets[-1][0] if self._sets else NEVER_LOGGED

    def add(self, sets: Iterable[tuple[Offset, VoterSet]]) -> None:
        self._sets.extend(sets)

    def at(self, offset: Offset) -> VoterSet | None:
        """The set in force at `offset`; None if no set is known there."""
        return next((voters for logged, voters in reversed(self._sets) if logged <= offset), None)

    def begin_with(self, offset: Offset, voters: VoterSet) -> None:
        """A snapshot replaces all sets."""
        self._sets = [(offset, voters)]

    def cut(self, end: Offset) -> bool:
        """The log was cut to `end`. Returns whether another set is in force now."""
        known = len(self._sets)
        while self._sets and self._sets[-1][0] >= end:
            self._sets.pop()
        return len(self._sets) < known
