"""The ledger of a run: every acknowledged record against every row of the table, and the faults that were promised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from highwater.audit import Outcome, Read, Sent, Verdict, judge_rows
from highwater.model import TopicPartition
from tests.unit.pipeline.landing.tables import read

CLASSES: Mapping[str, tuple[str, ...]] = {
    "missing": ("lost", "unseen"),
    "doubled": ("duplicated",),
    "foreign": ("foreign", "resurrected"),
    "changed": ("misplaced", "inconsistent", "reordered"),
}
"""What can be wrong with a table, in the auditor's classes. A record without an answer may be there once, or not."""


class Ledger:
    """One for a run: faults are promised before it, and a promise that was not kept is as bad as a lost record."""

    def __init__(self, *promised: str) -> None:
        self._faults = dict.fromkeys(promised, "")

    def happened(self, fault: str, evidence: str) -> None:
        """`evidence` is what was seen of it, beyond that the signal was sent."""
        if fault not in self._faults:
            raise ValueError(f"nobody promised {fault!r}: {', '.join(self._faults)}")
        self._faults[fault] = evidence

    def account(self, table: str, sends: Sequence[Sent], rows: Sequence[Read]) -> Account:
        everywhere = frozenset(sent.partition for sent in sends) | {row.partition for row in rows}
        return Account(table, judge_rows(sends, rows, everywhere), sends, dict(self._faults))


@dataclass(frozen=True, slots=True)
class Account:
    """One table's; `problems` is empty if it holds each acknowledged record once and every fault has happened."""

    table: str
    verdict: Verdict
    sends: Sequence[Sent]
    faults: Mapping[str, str]

    def cases(self, kind: str) -> list[Any]:
        """Of one of CLASSES."""
        return [case for name in CLASSES[kind] for case in getattr(self.verdict, name)]

    @property
    def unknown(self) -> int:
        return sum(sent.outcome is Outcome.UNKNOWN for sent in self.sends)

    @property
    def problems(self) -> list[str]:
        found = [] if self.verdict.acked else [f"{self.table}: no record was acknowledged, so nothing is shown"]
        for kind in CLASSES:
            if cases := self.cases(kind):
                found.append(f"{self.table}: {len(cases)} {kind}, the first is {cases[0]}")
        found += [
            f"{self.table}: not seen to happen: {fault}" for fault, evidence in self.faults.items() if not evidence
        ]
        return found

    def text(self) -> str:
        """A table for people, of each partition and of all, the faults below it."""
        shown = Table(title=f"{self.table}: " + ("every acknowledged record once" if not self.problems else "NOT KEPT"))
        shown.add_column("partition")
        for heading in ("acknowledged", "rows", *CLASSES):
            shown.add_column(heading, justify="right")
        for partition, counts in self.verdict.by_partition.items():
            shown.add_row(str(partition), *_cells(counts))
        shown.add_section()
        shown.add_row(f"all ({self.unknown} unanswered)", *_cells(self.verdict.counts))
        console = Console(width=120, color_system=None, force_terminal=False)
        with console.capture() as capture:
            console.print(shown)
        faults = [f"  {fault}: {evidence or 'NOT SEEN'}" for fault, evidence in self.faults.items()]
        return "\n".join([capture.get().rstrip(), *faults, *self.problems])


def _cells(counts: Mapping[str, int]) -> list[str]:
    wrong = (sum(counts[name] for name in names) for names in CLASSES.values())
    return [str(count) for count in (counts["acked"], counts["delivered"], *wrong)]


def table_rows(kind: str, path: Path) -> list[Read]:
    """All rows, as the format's own reader gives them and not as Spark does."""
    rows = read(kind, path)
    columns = (rows[name].to_pylist() for name in ("topic", "partition", "offset", "value"))
    return [Read(TopicPartition(topic, at), offset, value) for topic, at, offset, value in zip(*columns, strict=True)]


def check(accounts: Iterable[Account]) -> None:
    """Fails with everything that is known of the tables that are wrong."""
    wrong = [account.text() for account in accounts if account.problems]
    assert not wrong, "\n\n".join(wrong)
