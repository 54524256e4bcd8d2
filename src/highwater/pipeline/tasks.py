"""What one Spark task is given, and what it does with it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from highwater.pipeline import work_orders
from highwater.pipeline.options import SourceOptions
from highwater.pipeline.ranges import OffsetRange
from highwater.pipeline.reading import read_with
from highwater.pipeline.rows import Rows
from highwater.pipeline.typed_rows import TypedRows


class Task(InputPartition):
    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        value: tuple[OffsetRange, ...] = self.value
        return value


def read_task(options: SourceOptions, rows: Rows | TypedRows | None, task: InputPartition) -> Iterator[pa.RecordBatch]:
    """Rows of records; or, without `rows`, the ranges themselves as work orders."""
    if not isinstance(task, Task):
        return  # Spark's own, where a batch has nothing to read
    if rows is None:
        yield work_orders.to_batch(task.ranges, options.reading)
        return
    with options.reading.client() as client, rows.opened(options.reading) as make:
        for range_ in task.ranges:
            for made in read_with(client, options.reading, range_, rows.columns):
                yield make(range_, made)
