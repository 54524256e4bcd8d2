"""What an audit has found, and whether anything is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

MISSING, DOUBLED, FOREIGN = "missing", "doubled", "foreign"
KINDS = (MISSING, DOUBLED, FOREIGN)
"""In the topic and not in the table; more often in the table than it was landed; in the table and not in the topic."""


class Finding(NamedTuple):
    """Offsets first to last, all of one kind."""

    kind: str
    topic: str
    partition: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Verdict:
    records: int
    """In the topic, of what the table's position covers."""
    rows: int
    """In the table."""
    dead_letters: int
    dropped: int
    """Without a value, where null_values says to drop them."""
    skipped: int
    counts: dict[str, int]
    """By kind."""
    findings: tuple[Finding, ...] = ()
    """The first of them, in order."""
    is_by_offset: bool = True
    """Otherwise only counts were compared."""
    placeless: int = 0
    """Rows without an offset: they were landed before the columns were kept, and may be any record."""
    is_transformed: bool = False
    """A transform may leave out records, and make several rows of one."""
    notes: tuple[str, ...] = ()

    @property
    def wrong(self) -> int:
        """0: all is well, as far as it can be told."""
        if self.is_transformed:
            return self.counts[FOREIGN]
        missing = max(0, self.counts[MISSING] - self.placeless)
        return missing + self.counts[DOUBLED] + self.counts[FOREIGN]


def by_counts(records: int, rows: int, left_out: int) -> dict[str, int]:
    """What the numbers alone say: `left_out` of the records have no row on purpose."""
    expected = records - left_out
    return {MISSING: max(0, expected - rows), DOUBLED: max(0, rows - expected), FOREIGN: 0}
