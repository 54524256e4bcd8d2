"""A start without a checkpoint, on a table that has rows already: the table says where to go on."""

from __future__ import annotations

import json
import re
import uuid
from contextlib import redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING

from highwater.pipeline.checkpoint import Checkpoint
from highwater.pipeline.landing.options import Landing
from highwater.pipeline.landing.rule import Batch, LandingError
from highwater.pipeline.offsets import Position, TableEnd
from highwater.pipeline.ranges import Skipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from highwater.pipeline.definition import Definition
    from highwater.pipeline.landing.table import Table

OPTION = "resumeFrom"
"""Of the source; what it holds is made and read by ourselves."""
SKIPPED = "skipped"
"""The same."""
_STATEFUL = re.compile(r"\b(Aggregate|Deduplicate\w*|FlatMapGroups\w*|TransformWithState\w*|SessionWindow)\b")


def landing_id(definition: Definition) -> str:
    return definition.sink.get("landingId", definition.name)


def resumption(definition: Definition) -> dict[str, str]:
    """The option with which the source goes on where the table ends. None where the checkpoint says it, or nothing."""
    checkpoint = Checkpoint.at(definition.checkpoint)
    if definition.sink_format != "highwater-table" or checkpoint is None or not checkpoint.is_empty():
        return {}
    table, landing = Landing.from_options(definition.sink).table, landing_id(definition)
    if not table.exists() or table.known(landing).position is None:
        return {}
    return {OPTION: json.dumps(_taken_over(table, landing))}


def passing_over(definition: Definition) -> dict[str, str]:
    """The option that names to the source what the table passes over. It holds for every start, so that a batch that
    comes again has the same rows."""
    if definition.sink_format != "highwater-table":
        return {}
    table = Landing.from_options(definition.sink).table
    position = table.known(landing_id(definition)).position if table.exists() else None
    if position is None or not position.skipped:
        return {}
    skipped = [Skipped(*log, skip.begin, skip.end) for log, skips in position.skipped.items() for skip in skips]
    return {SKIPPED: json.dumps(skipped)}


def _taken_over(table: Table, landing: str) -> list[TableEnd]:
    """First no other landing may commit any more; then the position of the table is read."""
    start = f"start-{uuid.uuid4()}"
    table.commit(Batch(landing, start, 0, (), has_rows=False), [])
    position = table.known(landing).position
    assert position is not None
    return [TableEnd(*log, Position(intervals[-1].end, intervals[-1].epoch)) for log, intervals in position.at.items()]


def check_stateless(frame: DataFrame) -> None:
    """Raises LandingError: what a query has counted up is in its checkpoint alone."""
    with redirect_stdout(StringIO()) as plan:  # the one way to it that Spark Connect has, too
        frame.explain(extended=True)
    if found := _STATEFUL.search(plan.getvalue()):
        raise LandingError(
            f"the checkpoint is new and the table is not, and the query has a state ({found[1]}), which was in the old "
            f"checkpoint: put that back, or land in a new table"
        )
