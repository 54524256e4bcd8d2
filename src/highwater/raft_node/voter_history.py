"""The voter sets that the metadata log has had: the last one counts, and a truncation may take it back."""

from __future__ import annotations

from collections.abc import Iterable

from highwater.model import Offset
from highwater.quorum import NEVER_LOGGED, VoterSet


class VoterHistory:
    def __init__(self) -> None:
        self._sets: list[tuple[Offset, VoterSet]] = []
        """By the offset of their record, oldest first."""

    @property
    def latest(self) -> VoterSet:
        return self._sets[-1][1] if self._sets else VoterSet()

    @property
    def offset(self) -> Offset:
        """Where the latest is written."""
        return self._sets[-1][0] if self._sets else NEVER_LOGGED

    def add(self, sets: Iterable[tuple[Offset, VoterSet]]) -> None:
        self._sets.extend(sets)

    def begin_with(self, offset: Offset, voters: VoterSet) -> None:
        """All that is known comes from a snapshot."""
        self._sets = [(offset, voters)]

    def cut(self, end: Offset) -> bool:
        """The log ends there now. Whether another set counts by that."""
        known = len(self._sets)
        while self._sets and self._sets[-1][0] >= end:
            self._sets.pop()
        return len(self._sets) < known
