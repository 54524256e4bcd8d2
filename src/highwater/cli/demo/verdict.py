"""The verdict of the run: every acknowledged order against every row that arrived. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from highwater.audit import CLASSES, Read, RowsInParts, Sent, Verdict
from highwater.cli.demo.arrived import Arrived
from highwater.cli.demo.sends import ROUND, Sends
from highwater.model import TopicPartition

PART = 500
"""The number of rounds that are judged together: 30 000 orders, about 30 MB."""

MEANING = {
    "lost": "acknowledged, and not there",
    "duplicated": "there more than once",
    "reordered": "out of the order in which they were sent",
    "inconsistent": "one offset with different values",
    "resurrected": "refused, and there all the same",
    "foreign": "there, though they were never sent",
    "misplaced": "elsewhere than the acknowledgement said",
    "unseen": "acknowledged, and not there yet when the waiting ended",
}


@dataclass(frozen=True, slots=True)
class Sums:
    """Cents by product: the sums of the rows, and the last values in the topic of revenues."""

    of_rows: Mapping[str, int]
    of_topic: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: Verdict
    was_disturbed: bool
    """A leader was killed, and was back in sync later."""
    sums: Sums | None = None
    """None if there are no sums."""

    @property
    def problems(self) -> list[str]:
        """Why the run has not shown what it should; empty if it has."""
        return list(self._problems())

    def _problems(self) -> Iterator[str]:
        if not self.verdict.acked:
            yield "No order was acknowledged: there is nothing to judge."
        if not self.was_disturbed:
            yield "No leader was killed and brought back: this run proves nothing about failure."
        for name in CLASSES:
            cases = getattr(self.verdict, name)
            if cases:
                yield f"{name} ({MEANING[name]}): {len(cases)}, the first is {_shown(cases[0])}"
        if self.sums is not None and self.sums.of_rows != self.sums.of_topic:
            topic, table = dict(self.sums.of_topic), dict(self.sums.of_rows)
            yield f"The sums in the topic of revenues are {topic}, those of the table are {table}."


def judge_in_parts(
    sends: Sends, arrived: Arrived, complete: frozenset[TopicPartition], reached: Mapping[TopicPartition, int]
) -> tuple[Verdict, dict[str, int]]:
    """The verdict, and the revenue by product. It needs the memory of one part only."""
    judging, revenue = RowsInParts(complete, reached), Counter[str]()
    for first in range(0, sends.rounds, PART):
        rounds = range(first, min(first + PART, sends.rounds))
        rows = arrived.numbered(range(rounds.start * ROUND, rounds.stop * ROUND))
        judging.add(sends.of_rounds(rounds), rows)
        revenue.update(revenue_of(rows))
    judging.add([], arrived.others(range(sends.rounds * ROUND)))
    return judging.verdict, dict(revenue)


def revenue_of(rows: Iterable[Read]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for row in rows:
        order = json.loads(row.value)
        sums[order["product"]] += order["cents"]
    return dict(sums)


def _shown(case: Any) -> str:
    """The order itself, and its place. By class, a case is a send, two sends, or a value with its places."""
    match case:
        case Sent(partition=partition, value=value, offset=offset):
            return f"{value.decode()} of {partition} at offset {offset}"
        case (bytes() as value, [*places]):
            return f"{value.decode()} at {', '.join(f'{partition} offset {offset}' for partition, offset in places)}"
        case (Sent() as before, Sent() as after):
            return f"{after.value.decode()} before {before.value.decode()}"
        case _:
            return str(case)
