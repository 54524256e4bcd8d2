"""Judging a table that a topic was landed in: records are read as often as one likes, but a row is there once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from highwater.audit.history import History, Read, Sent
from highwater.audit.judging import judge
from highwater.audit.verdict import Verdict
from highwater.model import TopicPartition


def judge_rows(sends: Sequence[Sent], rows: Sequence[Read], complete: frozenset[TopicPartition]) -> Verdict:
    """Rows are a multiset: unlike for records that were read, one place in the log may be there once only.

    `complete` are the partitions of which all that was sent had its time to arrive.
    """
    verdict = judge(History(list(sends), list(rows), complete))
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
