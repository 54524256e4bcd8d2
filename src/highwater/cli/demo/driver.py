"""The Spark driver of the demo, a process of its own: `python -m highwater.cli.demo.driver BOOTSTRAP HOME TABLE`.

It reports on standard output, a line of JSON for each event, and ends when its standard input does: whichever way the
demo goes, no JVM stays behind.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from highwater.cli.demo.orders import REVENUE_TOPIC, SCHEMA, TOPIC
from highwater.pipeline.offsets import Positions, is_initial

LOOK_SECONDS = 0.2
STOP_SECONDS = 10.0
RESTARTS = 5
"""The restarts of a failed query. It continues from its checkpoint, and rows that have landed do not land again."""

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A demo is over before the second compiler and a parallel collector would pay off."""
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}

Report = Callable[..., None]


class QueryFailed(Exception):
    """The query failed too often."""


def session(home: Path) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("highwater-demo")
    places = {
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -Djava.io.tmpdir={home}",
        "spark.local.dir": str(home / "scratch"),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.python.unix.domain.socket.enabled": str(has_short_names(home)).lower(),
    }
    for name, value in (SETTINGS | places).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def has_short_names(home: Path) -> bool:
    """Whether Spark's sockets can be files: their names have at most 107 bytes, 43 of them after the folder."""
    return max(len(str(home)), len(tempfile.gettempdir())) + 43 <= 107


def orders_of(spark: SparkSession, bootstrap: str) -> DataFrame:
    """The fields of each order, and its place in the log: _partition and _offset."""
    return (
        spark.readStream.format("highwater")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("decode", "json")
        .option("schema", SCHEMA)
        .option("keep", "partition,offset")
        .load()
    )


def land(orders: DataFrame, home: Path, table: Path) -> StreamingQuery:
    """Every order, exactly once."""
    return (
        orders.writeStream.format("highwater-table")
        .option("table", "delta")
        .option("path", str(table))
        .option("checkpointLocation", str(home / "landing"))
        .trigger(processingTime="1 second")
        .start()
    )


def sum_up(orders: DataFrame, bootstrap: str, home: Path) -> StreamingQuery:
    """The revenue of each product so far, at least once: a repeated batch writes its sums again."""
    revenue = orders.groupBy("product").agg(F.sum("cents").alias("cents"))
    return (
        revenue.select(F.col("product").alias("key"), F.to_json(F.struct("product", "cents")).alias("value"))
        .writeStream.format("highwater")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", REVENUE_TOPIC)
        .option("checkpointLocation", str(home / "revenue"))
        .outputMode("complete")
        .trigger(processingTime="2 seconds")
        .start()
    )


@dataclass(slots=True)
class Running:
    """A query that is kept running. Each one starts Python processes, so the next one waits for its turn."""

    name: str
    start: Callable[[], StreamingQuery]
    report: Report
    query: StreamingQuery | None = None
    restarts: int = 0
    batch: int = -1
    reached: dict[str, int] = field(default_factory=dict)

    def step(self) -> bool:
        """Starts the query, or starts it again, and reports a new batch. True when it has read any record. Raises
        QueryFailed."""
        if self.query is None:
            self.query = self.start()
        self._report_progress(self.query)
        if not self.query.isActive:
            why = cause(self.query.exception())
            if self.restarts >= RESTARTS:
                raise QueryFailed(f"the query {self.name} failed {RESTARTS + 1} times: {why}")
            self.restarts += 1
            self.report("restarted", query=self.name, why=why)
            self.query = None
        return any(self.reached.values())

    def stop(self) -> None:
        if self.query is not None and self.query.isActive:
            self.query.stop()

    def _report_progress(self, query: StreamingQuery) -> None:
        progress = query.lastProgress
        if progress is None:
            return
        reached = reached_offsets(progress.sources[0].endOffset)
        if reached and (progress.batchId, reached) != (self.batch, self.reached):
            self.batch, self.reached = progress.batchId, reached
            self.report("batch", query=self.name, batch=self.batch, reached=reached)


def reached_offsets(end: Any) -> dict[str, int]:
    """By partition; empty if the query has not begun."""
    stored = json.loads(end) if isinstance(end, str) else end
    if stored is None or is_initial(stored):
        return {}
    return {str(each.partition): position.offset for each, position in Positions.from_json(stored).at.items()}


def cause(failure: BaseException | None) -> str:
    """The line with the cause, out of Spark's many lines: a Python error is the last line before the plan."""
    if failure is None:
        return "it was stopped"
    lines = [line.strip() for line in str(failure).partition("=== Streaming Query ===")[0].splitlines()]
    causes = [line for line in lines if line and not line.startswith("SQLSTATE")]
    return causes[-1] if causes else type(failure).__name__


def _await_end(ended: threading.Event) -> None:
    """Gives an orderly end some time; then this process and its JVM end at once."""
    sys.stdin.buffer.read()
    ended.set()
    time.sleep(STOP_SECONDS)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _own_output() -> TextIO:
    """Standard output is only for reports: what the JVM or a library prints goes to standard error."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return output


def main(bootstrap: str, home: Path, table: Path) -> None:
    output = _own_output()
    ended = threading.Event()
    threading.Thread(target=_await_end, args=(ended,), name="end", daemon=True).start()

    def report(event: str, **facts: object) -> None:
        print(json.dumps({"event": event, **facts}), file=output, flush=True)

    spark = session(home)
    report("ready", version=spark.version)
    orders = orders_of(spark, bootstrap)
    queries = [
        Running("table", lambda: land(orders, home, table), report),
        Running("revenue", lambda: sum_up(orders, bootstrap, home), report),
    ]
    try:
        while not ended.wait(LOOK_SECONDS):
            for each in queries:
                if not each.step():
                    break
    except QueryFailed as failed:
        report("failed", why=str(failed))
    finally:
        for each in queries:
            each.stop()
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
