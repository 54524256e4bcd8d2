"""The result of the run, in words."""

from __future__ import annotations

from collections.abc import Mapping

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from highwater.audit import CLASSES, Verdict
from highwater.cli.demo.orders import REVENUE_TOPIC
from highwater.cli.demo.screen import revenue_text
from highwater.cli.demo.verdict import Judgement


def explain(console: Console, judgement: Judgement) -> None:
    """In words; the last line of the demo, which is for machines, is not part of it."""

    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=not console.is_terminal, markup=False)

    verdict, sums = judgement.verdict, judgement.sums
    if verdict.acked:
        console.print(_counts(verdict))
    if sums is not None:
        say(f"Revenue, as topic {REVENUE_TOPIC} has it: {revenue_text(dict(sums.of_topic))}.")
        say(
            "That topic is written at least once: a batch that Spark repeats is written again, and readers take the "
            "last sum of each product. The table is exactly once: a batch that is repeated finds that it has landed."
        )
    for problem in judgement.problems:
        say(problem)
    if not judgement.problems:
        arrived = "reached the reader" if sums is None else "is in the table"
        say(f"Every acknowledged order survived the death of a leader, and {arrived} exactly once.")


def _counts(verdict: Verdict) -> Table:
    """Narrow enough for any terminal: the rarer faults share one column, and are explained in words."""
    table = Table(title="Every acknowledged order, against all that arrived", title_justify="left", box=SIMPLE)
    table.add_column("partition")
    shown = ("acked", "delivered", "lost", "duplicated")
    for name in (*shown, "other"):
        table.add_column(name, justify="right")

    def add(name: str, counts: Mapping[str, int]) -> None:
        rest = sum(counts[each] for each in CLASSES if each not in shown)
        table.add_row(name, *(f"{counts[each]:,}" for each in shown), f"{rest:,}")

    for partition, counts in verdict.by_partition.items():
        add(str(partition), counts)
    table.add_section()
    add("all", verdict.counts)
    return table
