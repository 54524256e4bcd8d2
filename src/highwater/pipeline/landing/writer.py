"""Spark's writers: tasks stage files, the driver lands them with one commit.

Spark calls `write` on executors and `commit` in a process of the driver, each on an object of its own, so that the
messages are all they have in common.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from highwater.pipeline.checkpoint import Checkpoint, Landed
from highwater.pipeline.landing.columns import from_spark, landed, with_required
from highwater.pipeline.landing.direct import RAW, Taken, records
from highwater.pipeline.landing.files import stage
from highwater.pipeline.landing.options import Landing, only_writes
from highwater.pipeline.landing.parquet import ParquetTable
from highwater.pipeline.landing.position import Log, Lost, reaches
from highwater.pipeline.landing.rule import Batch, LandingError
from highwater.pipeline.landing.spark_offsets import has_past, reaches_of
from highwater.pipeline.landing.table import StagedFile
from highwater.pipeline.ranges import OffsetRange
from highwater.pipeline.selection import BadOption
from highwater.pipeline.work_orders import are_work_orders

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

QUERY_PROPERTY = "sql.streaming.queryId"
BATCH_PROPERTY = "streaming.sql.batchId"
"""Names that Spark's engine gives to a task's properties: undocumented, and seen by a test."""


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What one task has written."""

    query_id: str
    files: list[StagedFile]
    ranges: list[OffsetRange]
    """What it has read itself; nothing where Spark has read."""
    lost: list[tuple[Log, Lost]] = field(default_factory=list)
    bad: int = 0
    """Records that did not fit the schema, of those that it has read itself."""


class _Task:
    """The part of a writer that runs on executors."""

    def __init__(self, landing: Landing, rows: StructType) -> None:
        self.direct = are_work_orders(rows.names)
        if landing.decoding is not None and not self.direct:
            raise BadOption(
                "option decode is given, but the rows have been read already: give emit=ranges to the source"
            )
        self.decoding = landing.decoding or RAW
        self.schema = landed(self.decoding.schema() if self.direct else from_spark(rows))
        self.shape = landing.shape
        self.staging = landing.table.prepare(self.schema)
        self.schema = with_required(self.schema, self.staging.required)

    def run(self, batches: Iterator[pa.RecordBatch], query_id: str, batch_id: int) -> Staged:
        name = f"part-{batch_id}-{_context().partitionId()}-{uuid.uuid4().hex}"
        taken = Taken()
        rows = records(batches, self.decoding, taken) if self.direct else batches
        files = stage(rows, self.schema, self.shape, self.staging, name)
        return Staged(query_id, files, taken.ranges, taken.lost, taken.bad)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, landing: Landing, rows: StructType, replace: bool) -> None:
        if replace and isinstance(landing.table, ParquetTable):
            raise BadOption(
                "output mode complete replaces the table with each batch, which table=parquet cannot do at once"
            )
        self.table, self.replace, self.landing_id = landing.table, replace, landing.landing_id
        self.checkpoint = Checkpoint.at(landing.checkpoint)
        self.task = _Task(landing, rows)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return self.task.run(iterator, _property(QUERY_PROPERTY), int(_property(BATCH_PROPERTY)))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        staged = [message for message in messages if isinstance(message, Staged)]
        if not staged:
            return  # without a task there is neither a row nor an offset
        [query_id] = {message.query_id for message in staged}
        files = [file for message in staged for file in message.files]
        ranges = [range_ for message in staged for range_ in message.ranges]
        if self.checkpoint is not None:
            self.checkpoint.sync(batchId)
            rows, size = sum(file.rows for file in files), sum(file.size for file in files)
            self.checkpoint.note(batchId, Landed(rows, len(files), size, sum(message.bad for message in staged)))
        batch = Batch(
            landing_id=self.landing_id or query_id,
            query_id=query_id,
            number=batchId,
            reaches=reaches(ranges) if self.task.direct else reaches_of(self.checkpoint, batchId),
            has_rows=bool(files) or self.replace,
            lost=tuple(each for message in staged for each in message.lost),
            has_past=has_past(self.checkpoint, batchId),
        )
        # The first batch records the query in the table, even without rows. A later batch sees by that that the query
        # is the same.
        if batch.has_rows or batch.reaches or batchId == 0:
            self.land(batch, files)

    def land(self, batch: Batch, files: list[StagedFile]) -> bool:
        return self.table.commit(batch, files, self.replace)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Leaves the files to the clean-up: a commit that failed may have landed all the same."""


class BatchWriter(DataSourceArrowWriter):
    """One write of a DataFrame is one batch of a query of its own."""

    def __init__(self, landing: Landing, rows: StructType, replace: bool) -> None:
        self.table, self.replace = landing.table, replace
        self.task = _Task(landing, rows)
        self.write_id = str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return self.task.run(iterator, self.write_id, 0)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        files = [file for message in messages if isinstance(message, Staged) for file in message.files]
        if files or self.replace:
            self.table.commit(Batch(self.write_id, self.write_id, 0), files, self.replace)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leaves the files to the clean-up: a commit that failed may have landed all the same."""


class HighwaterTable(DataSource):
    @classmethod
    def name(cls) -> str:
        return "highwater-table"

    def schema(self) -> NoReturn:
        """Spark asks for it when the table is read, and asks a reader at once if the query has a schema."""
        raise only_writes(self.options)

    def reader(self, schema: StructType) -> NoReturn:
        raise only_writes(self.options)

    def streamReader(self, schema: StructType) -> NoReturn:
        raise only_writes(self.options)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return BatchWriter(Landing.from_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        return StreamWriter(Landing.from_options(self.options), schema, overwrite)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise LandingError("not in a task of Spark")
    return context


def _property(name: str) -> str:
    value = _context().getLocalProperty(name)
    if value is None:
        raise LandingError(f"Spark gives the task no {name}: this version of Spark is not supported")
    return value
