"""A driver that is there to be killed: `python -m tests.pipeline.killed_driver <plan>`.

It lands one topic in several tables, each by a query of its own. A query whose table has a file `<table>.armed` beside
it stops at the point that the file names, says so in `<table>.parked`, and stays there until the end. What runs is the
product's source and sink; they are subclassed here, so that the product needs no hooks. The classes travel by value,
since this file is no module anybody else could import: executors have what the product ships to them, and these.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition

import highwater
from highwater.pipeline.definition import Definition
from highwater.pipeline.landing.options import Landing
from highwater.pipeline.landing.rule import Batch
from highwater.pipeline.landing.table import StagedFile
from highwater.pipeline.landing.writer import BATCH_PROPERTY, HighwaterTable, Staged, StreamWriter
from highwater.pipeline.query import session
from highwater.pipeline.source import HighwaterDataSource
from highwater.pipeline.stream import StreamReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_SECONDS = 1
TOO_LATE = "connect back"
"""As Spark says of a source's process that it has waited for in vain."""


def stop_here(table: str, point: str) -> None:
    """If the table is armed for this point, for good. Of several tasks that come here one stops."""
    armed, mine = Path(f"{table}.armed"), Path(f"{table}.{os.getpid()}")
    try:
        if armed.read_text() != point:
            return
        armed.rename(mine)
    except FileNotFoundError:
        return
    mine.write_text(json.dumps({"point": point, "pid": os.getpid(), "batch": _property(BATCH_PROPERTY)}))
    mine.rename(f"{table}.parked")
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os._exit(1)


def note(table: str, what: str, *words: object) -> None:
    with open(f"{table}.{what}", "a") as lines:
        lines.write(" ".join(map(str, words)) + "\n")


def _property(name: str) -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


class WatchedReader(StreamReader):
    def __init__(self, reader: StreamReader, table: str) -> None:
        super().__init__(reader._options, reader._rows)
        self._table = table

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Spark asks when the batch is in its log of offsets."""
        planned = super().partitions(start, end)
        if planned:
            stop_here(self._table, "planned")
        return planned

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        attempt = (_property(BATCH_PROPERTY), context.partitionId(), context.attemptNumber(), os.getpid())
        note(self._table, "attempts", *attempt, highwater.__file__)
        yield from super().read(partition)
        if self._rows is not None:
            stop_here(self._table, "fetched")


class WatchedSource(HighwaterDataSource):
    def __init__(self, options: Mapping[str, str]) -> None:
        others = {name: value for name, value in options.items() if name != "beside"}
        super().__init__(CaseInsensitiveDict(others))
        self._table = options["beside"]

    @classmethod
    def name(cls) -> str:
        return "watched"

    def streamReader(self, schema: Any) -> WatchedReader:
        reader = super().streamReader(schema)
        assert isinstance(reader, StreamReader)
        return WatchedReader(reader, self._table)


class WatchedWriter(StreamWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        staged = super().write(iterator)
        if self.task.direct:
            stop_here(_path(self), "fetched")
        return staged

    def land(self, batch: Batch, files: list[StagedFile]) -> bool:
        landed = super().land(batch, files)
        note(_path(self), "landings", batch.number, landed)
        stop_here(_path(self), "landed")
        return landed


def _path(writer: StreamWriter) -> str:
    path: str = writer.table.path  # type: ignore[attr-defined]
    return path


class WatchedTable(HighwaterTable):
    @classmethod
    def name(cls) -> str:
        return "watched-table"

    def streamWriter(self, schema: Any, overwrite: bool) -> WatchedWriter:
        return WatchedWriter(Landing.from_options(self.options), schema, overwrite)


def started(spark: SparkSession, plan: Mapping[str, Any], table: Mapping[str, Any]) -> StreamingQuery:
    source = {"kafka.bootstrap.servers": plan["bootstrap"], "subscribe": plan["topic"], "startingOffsets": "earliest"}
    source |= {"emit": "ranges"} if table["direct"] else {}
    # So few records would share one task, and a batch with one task has nothing to mix up.
    source |= {"beside": table["path"], "minPartitions": "2"}
    rows = spark.readStream.format("watched").options(**source).load()
    sink = rows.writeStream.format("watched-table").option("table", table["kind"]).option("path", table["path"])
    sink = sink.option("checkpointLocation", table["checkpoint"]).queryName(table["name"])
    while True:
        query = sink.trigger(processingTime=plan["trigger"]).start()
        # Spark gives a source's process ten seconds to come up: on a busy machine not several of them at once, and one
        # perhaps not the first time.
        while query.isActive and query.status["message"].startswith("Initializing"):
            time.sleep(0.1)
        if TOO_LATE not in str(query.exception()):
            return query
        spark.streams.resetTerminated()


def main(plan: Mapping[str, Any]) -> None:
    """Until `finish` is there; then until nothing is left to be read."""
    parent, finish = os.getppid(), Path(plan["finish"])
    tables = plan["tables"]
    definition = Definition("killed", {}, "", {}, tables[0]["checkpoint"], "", "", conf=plan["conf"])
    spark = session(definition, plan["master"])
    for each in (WatchedSource, WatchedTable):
        spark.dataSource.register(each)
    queries = [started(spark, plan, table) for table in tables]
    while not finish.exists() and os.getppid() == parent:
        spark.streams.awaitAnyTermination(LOOK_SECONDS)
    for query in queries:
        query.processAllAvailable()
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
