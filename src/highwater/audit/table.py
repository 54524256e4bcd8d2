"""A verdict as a table for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from highwater.audit.verdict import CLASSES, Verdict

if TYPE_CHECKING:
    from rich.table import Table

_ALWAYS = ("lost", "duplicated", "reordered", "inconsistent", "unseen")


def verdict_table(verdict: Verdict) -> Table:
    """One row for each partition and one for all of them. Rare classes have a column only if they occurred."""
    from rich.table import Table

    shown = [name for name in CLASSES if name in _ALWAYS or verdict.counts[name]]
    table = Table(title="Verdict: every acknowledged record, once and in order" if verdict.ok else "Verdict: not kept")
    table.add_column("partition")
    for name in ("acked", "delivered", *shown):
        table.add_column(name, justify="right")
    for partition, counts in verdict.by_partition.items():
        table.add_row(str(partition), *_cells(counts, shown))
    table.add_section()
    table.add_row("all", *_cells(verdict.counts, shown))
    return table


def verdict_text(verdict: Verdict) -> str:
    """The same without colours, for a log or the message of a failed test."""
    from rich.console import Console

    console = Console(width=120, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(verdict_table(verdict))
    return capture.get()


def _cells(counts: Mapping[str, int], shown: list[str]) -> list[str]:
    cells = [str(counts[name]) for name in ("acked", "delivered")]
    return cells + [f"[red]{counts[name]}[/red]" if counts[name] else "0" for name in shown]
