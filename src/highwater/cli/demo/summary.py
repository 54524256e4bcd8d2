"""What the run has shown, in words."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from highwater.audit import CLASSES, Verdict
from highwater.cli.demo.orders import REVENUE_TOPIC
from highwater.cli.demo.screen import revenue_text
from highwater.cli.demo.verdict import Judgement


def explain(console: Console, judgement: Judgement) -> None:
    """The last line is for machines."""

    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True, markup=False)

    verdict, sums = judgement.verdict, judgement.sums
    if verdict.acked:
        console.print(_counts(verdict))
    if sums is not None:
        say(f"Revenue, as topic {REVENUE_TOPIC} has it: {revenue_text(dict(sums.of_topic))}.")
        say(
            "That topic is written at least once: a batch that Spark repeats is written again, and readers take the\n"
            "last sum of each product. The table is exactly once: a batch that is repeated finds that it has landed."
        )
    for problem in judgement.problems:
        say(problem)
    if not judgement.problems:
        where = "in order at the reader" if sums is None else "in the table"
        say(f"Every acknowledged order survived the death of its leader, and is {where} exactly once.")
    say(verdict.line())


def _counts(verdict: Verdict) -> Table:
    """Narrow enough for any terminal: the rarer classes are one column, and are told apart in words."""
    table = Table(title="Every order that was acknowledged, against every one that arrived")
    table.add_column("partition")
    shown = ("acked", "delivered", "lost", "duplicated")
    for name in (*shown, "else wrong"):
        table.add_column(name, justify="right")
    for name, counts in (
        {str(each): of for each, of in verdict.by_partition.items()} | {"all": verdict.counts}
    ).items():
        rest = sum(counts[each] for each in CLASSES if each not in shown)
        table.add_row(name, *(f"{counts[each]:,}" for each in shown), f"{rest:,}", end_section=name == "all")
    return table
