"""Judges a table into which a topic was landed. Records may be read many times, but each row is in the table once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from highwater.audit.history import History, Read, Sent
from highwater.audit.judging import Order, judge
from highwater.audit.verdict import Verdict
from highwater.model import TopicPartition

_PAGE = 1 << 16
_TAKEN, _REPORTED = 1, 2
"""The states of a place in the log: one row has it, or several different rows have it, which was reported already."""


def judge_rows(
    sends: Sequence[Sent],
    rows: Sequence[Read],
    complete: frozenset[TopicPartition],
    reached: Mapping[TopicPartition, int] | None = None,
    order: Order | None = None,
) -> Verdict:
    """Rows are a multiset: unlike for records that were read, one place in the log may be there once only.

    `complete` are the partitions of which all that was sent had its time to arrive; of the others, what was sent before
    `reached` had it. `order` is as for `judge`.
    """
    verdict = judge(History(list(sends), list(rows), complete, reached or {}), order)
    verdict.delivered = len(rows)
    by_partition = Counter(row.partition for row in rows)
    for partition, counts in verdict.by_partition.items():
        counts["delivered"] = by_partition[partition]
    known = {value for value, _ in verdict.duplicated}
    for row, count in Counter(rows).items():
        if count > 1 and row.value not in known:
            verdict.duplicated.append((row.value, [(row.partition, row.offset)] * count))
            verdict.by_partition[row.partition]["duplicated"] += 1
    return verdict


class RowsInParts:
    """The same for more rows than fit into memory. They come in parts, in the order of sending; each part has the sends
    of its values. One byte is kept for each place in the log."""

    def __init__(self, complete: frozenset[TopicPartition], reached: Mapping[TopicPartition, int]) -> None:
        self.verdict = Verdict()
        self._complete = complete
        self._reached = reached
        self._order: Order = {}
        self._places: dict[tuple[TopicPartition, int], bytearray] = {}

    def add(self, sends: Sequence[Sent], rows: Sequence[Read]) -> None:
        part = judge_rows(sends, rows, self._complete, self._reached, self._order)
        part.inconsistent = self._new_inconsistencies(rows)
        for counts in part.by_partition.values():
            counts["inconsistent"] = 0
        for partition, _, _ in part.inconsistent:
            part.by_partition[partition]["inconsistent"] += 1
        self.verdict.add(part)

    def _new_inconsistencies(self, rows: Sequence[Read]) -> list[tuple[TopicPartition, int, list[bytes]]]:
        """Places with different values in this part, or with another one than in a part before."""
        values: dict[tuple[TopicPartition, int], dict[bytes, None]] = {}
        for partition, offset, value in rows:
            values.setdefault((partition, offset), {})[value] = None
        found = []
        for (partition, offset), different in values.items():
            page = self._places.setdefault((partition, offset // _PAGE), bytearray(_PAGE))
            at = offset % _PAGE
            before, page[at] = page[at], _REPORTED if page[at] or len(different) > 1 else _TAKEN
            if page[at] == _REPORTED and before != _REPORTED:
                found.append((partition, offset, sorted(different)))
        return found
