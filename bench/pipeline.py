"""Topics into Spark and into tables, beside Spark's own Kafka connector: `python bench/pipeline.py`. See README.md."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from confluent_kafka import Producer

from bench import report
from bench.report import Result
from bench.rows import Row
from bench.systems import Highwater
from bench.workloads import QUEUE, RELIABLE, Sample
from highwater.pipeline.definition import Definition
from highwater.pipeline.landing.iceberg import IcebergTable
from highwater.pipeline.landing.options import Landing
from highwater.pipeline.query import session
from tests.apache import ROOT
from tests.pipeline.object_store import delta_options, iceberg_options, object_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

CONNECTOR_JARS = ROOT / ".apache/spark-kafka.txt"
OURS, THEIRS = "Highwater", "Spark's connector"
FORMATS = {OURS: "highwater", THEIRS: "kafka"}
BROKERS = 3
PARTITIONS = 4
KEY, VALUE = 8, 100
COLUMNS = ("value", "key", "topic", "partition", "offset", "timestamp")
"""What direct mode writes; Spark is to write no more than that."""
BATCHES = 10
"""Of one row each, for a sample of their latency."""
WARM_BATCHES = 3


@dataclass(frozen=True)
class Topic:
    spark: SparkSession
    bootstrap: str
    name: str
    records: int
    home: Path

    def rows(self, system: str, **options: str) -> DataFrame:
        source = self.spark.read.format(FORMATS[system]).option("kafka.bootstrap.servers", self.bootstrap)
        return source.option("subscribe", self.name).options(**options).load()

    def stream(self, system: str, **options: str) -> DataFrame:
        source = self.spark.readStream.format(FORMATS[system]).option("kafka.bootstrap.servers", self.bootstrap)
        source = source.option("subscribe", self.name).option("startingOffsets", "earliest")
        return source.options(**options).load()

    @contextmanager
    def folder(self) -> Iterator[str]:
        """For one table, which is deleted afterwards."""
        path = tempfile.mkdtemp(dir=self.home)
        try:
            yield f"{path}/table"
        finally:
            shutil.rmtree(path)

    def check(self, table: str) -> None:
        """A table that lacks rows took less time than it should."""
        from pyarrow.parquet import read_metadata

        files = [file for file in Path(table).rglob("*.parquet") if "_delta_log" not in file.parts]
        self.check_count(sum(read_metadata(file).num_rows for file in files))

    def check_count(self, rows: int) -> None:
        if rows != self.records:
            raise click.ClickException(f"{self.records} records, but {rows} rows in the table")


Work = Callable[[Topic], float]
"""Gives a figure: rows per second, or milliseconds."""


@dataclass(frozen=True)
class Case:
    """A row of the table: what ours does, and what it is measured against."""

    row: Row
    ours: Work
    theirs: Work


def to_noop(system: str) -> Work:
    def work(topic: Topic) -> float:
        rows = topic.rows(system)
        begin = time.perf_counter()
        rows.write.format("noop").mode("overwrite").save()
        return topic.records / (time.perf_counter() - begin)

    return work


def to_parquet(system: str) -> Work:
    """By Spark's own sink."""

    def work(topic: Topic) -> float:
        with topic.folder() as path:
            rows = topic.rows(system).select(*COLUMNS)
            begin = time.perf_counter()
            rows.write.parquet(path)
            seconds = time.perf_counter() - begin
            topic.check(path)
            return topic.records / seconds

    return work


def to_table(kind: str, direct: bool, **options: str) -> Work:
    def work(topic: Topic) -> float:
        with topic.folder() as path:
            rows = topic.rows(OURS, emit="ranges") if direct else topic.rows(OURS).select(*COLUMNS)
            begin = time.perf_counter()
            rows.write.format("highwater-table").option("table", kind).options(**options).mode("append").save(path)
            seconds = time.perf_counter() - begin
            topic.check(path)
            return topic.records / seconds

    return work


def to_store(kind: str) -> Work:
    """Directly, onto an S3 interface on this machine: its server takes its share of the processors."""

    def work(topic: Topic) -> float:
        with topic.folder() as path, object_store() as store:
            catalog = f"sqlite:///{path}.catalog.db"
            options = delta_options(store, "t") if kind == "delta" else iceberg_options(store, "t", catalog)
            rows = topic.rows(OURS, emit="ranges")
            begin = time.perf_counter()
            rows.write.format("highwater-table").options(**options).mode("append").save()
            seconds = time.perf_counter() - begin
            topic.check_count(_rows_in(options))
            return topic.records / seconds

    return work


def _rows_in(options: Mapping[str, str]) -> int:
    table = Landing.from_options(options).table
    if isinstance(table, IcebergTable):
        return table.open().scan().count()
    from deltalake import DeltaTable

    storage = {name.removeprefix("storage."): value for name, value in options.items() if name.startswith("storage.")}
    return int(DeltaTable(options["path"], storage_options=storage).count())


def latency(system: str, sink: str, **source: str) -> Work:
    """Milliseconds that Spark takes for a batch of one row, from looking for it to its commit."""

    def work(topic: Topic) -> float:
        with topic.folder() as path:
            writer = _stream_writer(topic.stream(system, **source), sink, path)
            query = writer.option("checkpointLocation", f"{path}.checkpoint").start()
            try:
                query.processAllAvailable()
                for _ in range(WARM_BATCHES + BATCHES):
                    fill(topic.bootstrap, topic.name, 1, partitions=1)
                    query.processAllAvailable()
                done = [each for each in query.recentProgress if each.numInputRows == 1]
                return statistics.median(each.durationMs["triggerExecution"] for each in done[-BATCHES:])
            finally:
                query.stop()

    return work


def _stream_writer(rows: DataFrame, sink: str, path: str) -> DataStreamWriter:
    if sink == "noop":
        return rows.writeStream.format("noop")
    if sink == "spark-parquet":
        return rows.select(*COLUMNS).writeStream.format("parquet").option("path", path)
    return rows.writeStream.format("highwater-table").option("table", sink).option("path", path)


SPARKS_TABLE = to_parquet(THEIRS)
SPARKS_TABLE_LATENCY = latency(THEIRS, "spark-parquet")
"""What tables are measured against: without further jars the connector has no other way into one."""

THROUGHPUT: dict[str, Case] = {
    "noop": Case(Row("connector to noop (at least 1.5)", "rows/s", "more", 1.5), to_noop(OURS), to_noop(THEIRS)),
    "spark-parquet": Case(Row("connector to Spark's Parquet", "rows/s", "more"), to_parquet(OURS), SPARKS_TABLE),
    "connector-delta": Case(Row("connector to Delta", "rows/s", "more"), to_table("delta", direct=False), SPARKS_TABLE),
    **{
        kind: Case(
            Row(f"direct into {kind.capitalize()} (at least 3)", "rows/s", "more", 3.0),
            to_table(kind, direct=True),
            SPARKS_TABLE,
        )
        for kind in ("parquet", "delta", "iceberg")
    },
    **{
        f"partitioned-{kind}": Case(
            Row(f"direct into {kind.capitalize()}, by partition and hour", "rows/s", "more"),
            to_table(kind, direct=True, partitionBy="partition,hours(timestamp)"),
            SPARKS_TABLE,
        )
        for kind in ("delta", "iceberg")
    },
    **{
        f"store-{kind}": Case(
            Row(f"direct into {kind.capitalize()} on an S3 interface", "rows/s", "more"), to_store(kind), SPARKS_TABLE
        )
        for kind in ("delta", "iceberg")
    },
}
"""By name, as `--cases` takes them."""

LATENCY: dict[str, Case] = {
    "latency-noop": Case(
        Row("one row, connector to noop", "ms", "less"), latency(OURS, "noop"), latency(THEIRS, "noop")
    ),
    **{
        f"latency-{kind}": Case(
            Row(f"one row, direct into {kind.capitalize()}", "ms", "less"),
            latency(OURS, kind, emit="ranges"),
            SPARKS_TABLE_LATENCY,
        )
        for kind in ("parquet", "delta", "iceberg")
    },
}


def fill(bootstrap: str, topic: str, records: int, partitions: int = PARTITIONS) -> None:
    """Returns when all of them are acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0, **RELIABLE, **QUEUE})
    refused: list[str] = []
    noise = os.urandom(4096)

    def delivered(error: object, _: object) -> None:
        if error is not None:
            refused.append(str(error))

    for number in range(records):
        at = number * 7 % (len(noise) - VALUE)
        key, value = b"%0*d" % (KEY, number), noise[at : at + VALUE]
        while True:
            try:
                producer.produce(topic, value, key, number % partitions, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 10_000 == 0:
            producer.poll(0)
    left = producer.flush(300)
    if left or refused:
        raise RuntimeError(f"{topic}: {left} records were not acknowledged, {len(refused)} refused: {refused[:1]}")


def spark_session(home: Path) -> SparkSession:
    """As `highwater pipeline` makes it, with the jars of Spark's connector besides."""
    if not CONNECTOR_JARS.is_file():
        raise click.ClickException("the jars of Spark's Kafka connector are not there: run `make setup`")
    conf = {
        "spark.jars": CONNECTOR_JARS.read_text().strip().replace(":", ","),
        "spark.driver.memory": "1g",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
    }
    spark = session(Definition("bench", {}, "", {}, str(home), "", "", conf=conf), "local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class Bench:
    """Each case by turns, ours and theirs; a work that several cases are measured against runs once in a round."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self.results: list[Result] = []

    def run(self, cases: Sequence[Case], topic: Topic) -> None:
        works = list(dict.fromkeys(work for case in cases for work in (case.theirs, case.ours)))
        samples: dict[Work, list[Sample]] = {work: [] for work in works}
        for at in range(self._rounds + 1):
            for work in works if at % 2 == 0 else works[::-1]:
                figure = work(topic)
                if at:  # the first is for the JVM's compiler, connections and caches
                    samples[work].append(Sample(figure))
            click.echo(f"{time.strftime('%H:%M:%S')} round {at} of {self._rounds}", err=True)
        self.results += [Result(case.row, {OURS: samples[case.ours], THEIRS: samples[case.theirs]}) for case in cases]


def check_rows(topic: Topic) -> None:
    """Both see all rows, the same ones: otherwise there is nothing to compare."""
    sums = ("count(*)", "sum(offset)", "sum(crc32(key))", "sum(crc32(value))")
    ours, theirs = (topic.rows(system).selectExpr(*sums).collect()[0] for system in (OURS, THEIRS))
    if ours[0] != topic.records or tuple(ours) != tuple(theirs):
        raise click.ClickException(f"{topic.records} records: {OURS} reads {tuple(ours)}, {THEIRS} {tuple(theirs)}")


@click.command()
@click.option("--records", default=4_000_000, show_default=True, help=f"Of {KEY} and {VALUE} bytes.")
@click.option("--rounds", default=3, show_default=True, help="After one that is not counted.")
@click.option("--cases", help=f"Only these, separated by commas: {', '.join([*THROUGHPUT, *LATENCY])}.")
def main(records: int, rounds: int, cases: str | None) -> None:
    """Measure our connector and our tables beside Spark's, on one topic of our brokers, and show the ratios."""
    chosen = cases.split(",") if cases else [*THROUGHPUT, *LATENCY]
    if unknown := [name for name in chosen if name not in THROUGHPUT | LATENCY]:
        raise click.UsageError(f"no case {', '.join(unknown)}; there are {', '.join([*THROUGHPUT, *LATENCY])}")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    bench = Bench(rounds)
    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as directory:
        home = Path(directory)
        told = {**report.circumstances(BROKERS, rounds, home), "records": records, "partitions": PARTITIONS}
        brokers = Highwater(home / "brokers", BROKERS, measured=False)
        try:
            brokers.start()
            topic, one = brokers.create_topic(PARTITIONS), brokers.create_topic(1)
            fill(brokers.bootstrap, topic, records)
            fill(brokers.bootstrap, one, 1, partitions=1)
            spark = spark_session(home)
            try:
                if wanted := [THROUGHPUT[name] for name in chosen if name in THROUGHPUT]:
                    filled = Topic(spark, brokers.bootstrap, topic, records, home)
                    check_rows(filled)
                    bench.run(wanted, filled)
                if wanted := [LATENCY[name] for name in chosen if name in LATENCY]:
                    bench.run(wanted, Topic(spark, brokers.bootstrap, one, 1, home))
            finally:
                spark.stop()
        finally:
            brokers.stop()
    report.show(bench.results, OURS, THEIRS, told)
    click.echo(f"written to {report.save(bench.results, told, 'pipeline')}")


if __name__ == "__main__":
    main()
