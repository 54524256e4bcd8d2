"""What tests of landing share: a source that Spark can replay, its ledger, and sinks that fail at named points."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from highwater.pipeline.landing.options import Landing
from highwater.pipeline.landing.rule import Batch
from highwater.pipeline.landing.table import StagedFile
from highwater.pipeline.landing.writer import HighwaterTable, Staged, StreamWriter
from tests.unit.pipeline.landing.tables import options_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

FORMATS = ("delta", "iceberg", "parquet")
ROWS_PER_FILE = 100
FILES_PER_BATCH = 2


class Ledger:
    """Files of rows with numbers that are never given twice; a batch is two of them, each read by a task of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ids: Counter[Any] = Counter()
        self.files = 0
        folder.mkdir(parents=True)

    def add(self, batches: int = 1, **columns: pa.DataType) -> None:
        for _ in range(batches * FILES_PER_BATCH):
            first = self.files * ROWS_PER_FILE
            ids = range(first, first + ROWS_PER_FILE)
            given = {"id": pa.array(ids, pa.int64()), "note": [f"note {each}" for each in ids]}
            given |= {name: pa.array(ids).cast(type_) for name, type_ in columns.items()}
            hidden = self.folder / f"_{self.files}"
            pq.write_table(pa.table(given), hidden)
            hidden.rename(self.folder / f"{self.files:05}.parquet")
            self.ids.update(ids)
            self.files += 1


def stream(spark: SparkSession, folder: Path, schema: str = "id bigint, note string") -> DataFrame:
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(str(folder))


def landing(rows: DataFrame, sink: str, kind: str, path: Path, checkpoint: Path) -> DataStreamWriter:
    return (
        rows.writeStream.format(sink)
        .options(**options_of(kind, path))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
    )


def run(rows: DataFrame, sink: str, kind: str, path: Path, checkpoint: Path) -> str:
    """Lands all that is there; gives the id of the query."""
    query = landing(rows, sink, kind, path, checkpoint).start()
    query.awaitTermination()
    return str(query.id)


def beside(path: str, what: str) -> Path:
    """A file of a test's own, next to a table."""
    return Path(f"{path}.{what}")


class _Named(HighwaterTable):
    writer_class: type[StreamWriter]

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:
        return self.writer_class(Landing.from_options(self.options), schema, overwrite)


class RecordingWriter(StreamWriter):
    """Writes down which batches it was asked to land, and whether they did."""

    def land(self, batch: Batch, files: list[StagedFile]) -> bool:
        landed = super().land(batch, files)
        with beside(self.table.path, "landings").open("a") as record:  # type: ignore[attr-defined]
            record.write(f"{batch.query_id} {batch.number} {landed}\n")
        return landed


class Recording(_Named):
    writer_class = RecordingWriter

    @classmethod
    def name(cls) -> str:
        return "recording"


class AfterCommitWriter(StreamWriter):
    """The table has the batch, Spark does not know yet: there the driver stays until it is killed."""

    def land(self, batch: Batch, files: list[StagedFile]) -> bool:
        landed = super().land(batch, files)
        if batch.number == 1:
            park(self.table.path)  # type: ignore[attr-defined]
        return landed


class AfterCommit(_Named):
    writer_class = AfterCommitWriter

    @classmethod
    def name(cls) -> str:
        return "after-commit"


class BeforeCommitWriter(StreamWriter):
    """All files are staged, none is in the table."""

    def land(self, batch: Batch, files: list[StagedFile]) -> bool:
        if batch.number == 1:
            park(self.table.path)  # type: ignore[attr-defined]
        return super().land(batch, files)


class BeforeCommit(_Named):
    writer_class = BeforeCommitWriter

    @classmethod
    def name(cls) -> str:
        return "before-commit"


class FailingTaskWriter(StreamWriter):
    """The first attempt of each batch's first task stages its files and fails then."""

    def write(self, iterator: Any) -> Staged:
        from pyspark import TaskContext

        staged = super().write(iterator)
        context = TaskContext.get()
        assert context is not None
        if staged.files and context.partitionId() == 0 and context.attemptNumber() == 0:
            with beside(self.table.path, "failures").open("a") as record:  # type: ignore[attr-defined]
                record.write("".join(f"{file.location}\n" for file in staged.files))
            raise RuntimeError("fails on purpose")
        return staged


class FailingTask(_Named):
    writer_class = FailingTaskWriter

    @classmethod
    def name(cls) -> str:
        return "failing-task"


SINKS = (Recording, AfterCommit, BeforeCommit, FailingTask)


def park(path: str) -> None:
    """Notifies the test, and waits for the end."""
    beside(path, "parked").write_text(str(os.getpid()))
    while True:
        signal.pause()
