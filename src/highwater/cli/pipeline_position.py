"""`highwater pipeline position`: how far a table has come, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from highwater.cli.pipeline_file import file_argument, loaded
from highwater.cli.tool import fail
from highwater.client.failures import ClientFailure
from highwater.errors import KafkaError
from highwater.model import TopicPartition


def position_lines(definition: Any) -> Iterator[str]:
    """The position of the table, as the table records it."""
    from highwater.pipeline.positioning import position_of

    position = position_of(definition)
    if position is None:
        yield "the table has no position of this pipeline"
        return
    rows: list[tuple[str, ...]] = [("LANDED", "PARTITION", "OFFSETS", "EPOCH")]
    for log, intervals in sorted(position.at.items()):
        offsets = ",".join(f"{interval.begin}-{interval.end}" for interval in intervals)
        rows.append((log.topic, str(log.partition), offsets, str(intervals[-1].epoch)))
    yield from aligned(rows)
    skips = [(log, skip) for log, skips in sorted(position.skipped.items()) for skip in skips]
    if skips:
        said = [(log.topic, str(log.partition), f"{skip.begin}-{skip.end}", skip.reason) for log, skip in skips]
        yield from aligned([("SKIPPED", "PARTITION", "OFFSETS", "REASON"), *said])
    losses = [(log, each) for log, found in sorted(position.lost.items()) for each in found]
    if losses:
        said = [(log.topic, str(log.partition), f"{each.begin}-{each.end}", each.reason) for log, each in losses]
        yield from aligned([("LOST", "PARTITION", "OFFSETS", "REASON"), *said])


def aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """A table with columns as wide as their content: names are not cut."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def offsets_of(option: str, given: Sequence[str]) -> list[tuple[TopicPartition, int]]:
    """Raises ValueError."""
    found = []
    for text in given:
        topic, partition, offset = ["", "", *text.rsplit(":", 2)][-3:]
        if not topic or not partition.isdecimal() or not offset.isdecimal():
            raise ValueError(f"{option} {text}: expected TOPIC:PARTITION:OFFSET, such as orders:0:1200")
        found.append((TopicPartition(topic, int(partition)), int(offset)))
    return found


@click.command("position")
@file_argument
@click.option("--show", is_flag=True, help="Print which offsets the table has (the default).")
@click.option("--set", "ends", multiple=True, metavar="TOPIC:PARTITION:OFFSET", help="The table has all before OFFSET.")
@click.option("--export", is_flag=True, help="Print the ends as JSON, in the form of Spark's startingOffsets.")
@click.option("--import", "source", type=click.File(), help="Set the ends that a file of this form names (-: stdin).")
def position(file: Path, show: bool, ends: tuple[str, ...], export: bool, source: Any) -> None:
    """Show or set how far the table of FILE's pipeline has come.

    Set it after the table was restored, or for a cluster to which the topics were moved with their offsets. The
    pipeline must not run, and begins without its checkpoint afterwards: move that away.
    """
    if sum((show, bool(ends), export, source is not None)) > 1:
        fail("--show, --set, --export and --import exclude each other")
    definition = loaded(file)
    from highwater.pipeline.landing.rule import LandingError
    from highwater.pipeline.positioning import exported, imported, place, position_of

    try:
        if export:
            found = position_of(definition)
            click.echo("{}" if found is None else exported(found))
            return
        if ends or source is not None:
            place(definition, dict(offsets_of("--set", ends)) if ends else imported(source.read()))
            click.echo(f"set; move the checkpoint {definition.checkpoint} away, if it is there, and start the pipeline")
        for line in position_lines(definition):
            click.echo(line)
    except (LandingError, ValueError, KafkaError, ClientFailure) as error:
        fail(str(error))
