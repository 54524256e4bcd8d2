"""`highwater pipeline audit`: the topics against the table."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from highwater.cli.pipeline_file import file_argument, loaded
from highwater.cli.pipeline_position import aligned
from highwater.cli.tool import fail
from highwater.client.failures import ClientFailure
from highwater.errors import KafkaError


@click.command("audit")
@file_argument
@click.option("--master", help="Where Spark runs: local[*], local-cluster[…], spark://host:7077 or any other.")
def audit(file: Path, master: str | None) -> None:
    """Compare the topics with the table of FILE's pipeline, by a Spark job.

    Missing: records that the table has passed and that are no rows in it. Doubled: records that are more than one row.
    Foreign: rows that are no record. Dead letters and what was skipped are counted, and not missing. The pipeline may
    run meanwhile. The exit code is 0 only where nothing is wrong.
    """
    definition = loaded(file)
    from highwater.pipeline.landing.rule import LandingError

    try:
        verdict = _verdict(definition, master)
    except (LandingError, ValueError, KafkaError, ClientFailure) as error:
        fail(str(error))
    for line in audit_lines(definition.name, verdict):
        click.echo(line)
    if verdict.wrong:
        sys.exit(1)


def _verdict(definition: Any, master: str | None) -> Any:
    from pyspark.sql import SparkSession

    from highwater.pipeline.audit.comparison import audit as compare
    from highwater.pipeline.query import session

    was_there = SparkSession.getActiveSession()
    if was_there is not None:
        return compare(was_there, definition)
    click.echo("starting Spark", err=True)
    with _quiet_spark():
        spark = session(definition, master)
    try:
        return compare(spark, definition)
    finally:
        spark.stop()


@contextmanager
def _quiet_spark() -> Iterator[None]:
    """Spark's own lines are no part of the verdict. Its process keeps the descriptor that it is started with."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def audit_lines(name: str, verdict: Any) -> Iterator[str]:
    how = "by offset" if verdict.is_by_offset else "by their counts alone: the rows have no columns with their offsets"
    yield f"{name}: {verdict.records} records and {verdict.rows} rows compared {how}"
    for count, what in (
        (verdict.dead_letters, "are dead letters"),
        (verdict.dropped, "have no value and are dropped"),
        (verdict.skipped, "were skipped"),
    ):
        if count:
            yield f"{count} records {what}"
    if verdict.placeless:
        yield f"{verdict.placeless} rows have no offset, and may be any of the missing"
    yield from verdict.notes
    if verdict.is_transformed:
        yield "the transform decides which records become rows, and how many: only foreign rows are wrong"
    if verdict.findings:
        rows = [(each.topic, str(each.partition), f"{each.first}-{each.last}", each.kind) for each in verdict.findings]
        yield from aligned([("TOPIC", "PARTITION", "OFFSETS", "WHAT"), *rows])
    yield ", ".join(f"{count} {kind}" for kind, count in verdict.counts.items())
