"""Batch queries: the bounds are resolved once, when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from highwater.pipeline.lookup import Lookup
from highwater.pipeline.offsets import Positions
from highwater.pipeline.options import SourceOptions
from highwater.pipeline.planning import tasks
from highwater.pipeline.ranges import OffsetRange
from highwater.pipeline.rows import Rows
from highwater.pipeline.selection import BadOption
from highwater.pipeline.tasks import Task, read_task
from highwater.pipeline.typed_rows import TypedRows

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, rows: Rows | TypedRows | None) -> None:
        self._options = options
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        with closing(Lookup(self._options)) as lookup:
            starts = lookup.resolve(self._options.starting, starting=True)
            ends = lookup.resolve(self._options.ending, starting=False)
        planned = tasks(_ranges(starts, ends), self._options.min_partitions, self._options.max_records)
        return [Task(ranges) for ranges in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._options, self._rows, partition)


def _ranges(starts: Positions, ends: Positions) -> list[OffsetRange]:
    ranges = []
    for partition, (end, _) in sorted(ends.at.items()):
        if partition not in starts.at:
            continue  # made between the two look-ups
        start, epoch = starts.at[partition]
        if start > end:
            raise BadOption(f"{partition} is to be read from offset {start}, but its end is at {end}")
        topic_id = ends.topic_id(partition.topic)
        ranges.append(OffsetRange(partition.topic, topic_id, partition.partition, start, end, epoch))
    return ranges
