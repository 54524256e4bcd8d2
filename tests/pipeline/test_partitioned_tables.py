"""Partitioned tables by Spark, in both modes; and the upkeep of a table while a pipeline lands in it."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from highwater.pipeline.audit.comparison import audit
from highwater.pipeline.definition import Definition, define
from highwater.pipeline.landing.iceberg import IcebergTable
from highwater.pipeline.landing.iceberg_history import QUERY_MARK
from highwater.pipeline.landing.options import Landing
from highwater.pipeline.query import follow, maintained, start
from tests.cluster.stage import wait_until
from tests.unit.pipeline.landing.tables import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from highwater.cluster import Cluster

pytestmark = pytest.mark.slow

Produce = Callable[..., None]
DAY = 86_400_000
COUNTRIES = ("DE", "KR", "FR")


def orders(first: int, count: int) -> list[tuple[int, None, bytes]]:
    return [
        (number % 2, None, json.dumps({"id": number, "country": COUNTRIES[number % 3]}).encode())
        for number in range(first, first + count)
    ]


def shop(cluster: Cluster, topic: str, folder: Path, kind: str, **more: Any) -> Definition:
    said = {
        "name": topic,
        "source": {"bootstrap_servers": cluster.bootstrap_servers, "topic": topic, "options": {"minPartitions": 2}},
        "decode": {"format": "json", "schema": "id BIGINT, country STRING"},
        "trigger": "available-now",
    }
    sink = {"table": kind, "path": "table", **more.pop("sink", {})}
    return define(said | {"sink": sink} | more, folder, more.get("transform"))


def test_direct_mode_writes_one_file_for_each_partition_of_a_task_and_an_audit_finds_all(
    spark: SparkSession, cluster: Cluster, produce: Produce, tmp_path: Path
) -> None:
    cluster.create_topic("by-day", partitions=2)
    # Retention would remove what is much older.
    days = [int(time.time() * 1000) // DAY - ago for ago in (1, 2)]
    for number, day in enumerate(days):
        produce(cluster.bootstrap_servers, "by-day", orders(number * 30, 30), timestamp=day * DAY)
    definition = shop(
        cluster, "by-day", tmp_path, "delta", sink={"partition_by": ["_topic", "country", "days(_timestamp)"]}
    )
    start(spark, definition, None).awaitTermination()
    rows = read("delta", tmp_path / "table")
    assert Counter(rows["id"].to_pylist()) == Counter(range(60))
    assert Counter(rows["_timestamp_day"].cast(pa.int32()).to_pylist()) == dict.fromkeys(days, 30)
    partitions = len(COUNTRIES) * 2
    assert len(Landing.from_options(definition.sink).table.contents().files) == 2 * partitions, "of two tasks"
    verdict = audit(spark, definition)
    assert (verdict.records, verdict.rows, verdict.placeless) == (60, 60, 0)
    assert set(verdict.counts.values()) == {0}


def test_connector_mode_writes_partitions_of_what_a_transform_made(
    spark: SparkSession, cluster: Cluster, produce: Produce, tmp_path: Path
) -> None:
    def in_words(frame: DataFrame) -> DataFrame:
        return frame.withColumn("kind", frame["id"] % 4).drop("country")

    cluster.create_topic("by-kind", partitions=2)
    produce(cluster.bootstrap_servers, "by-kind", orders(0, 40))
    definition = shop(cluster, "by-kind", tmp_path, "iceberg", sink={"partition_by": "kind"})
    definition = with_rows_in_spark(definition)
    start(spark, definition, in_words).awaitTermination()
    rows = read("iceberg", tmp_path / "table")
    assert Counter(rows["id"].to_pylist()) == Counter(range(40))
    table = Landing.from_options(definition.sink).table
    assert isinstance(table, IcebergTable)
    found = table.open().inspect.partitions().to_pylist()
    assert {each["partition"]["kind"]: each["record_count"] for each in found} == dict.fromkeys(range(4), 10)


def with_rows_in_spark(definition: Definition) -> Definition:
    """The same, with rows that pass through Spark."""
    moved = {name: definition.sink[name] for name in ("decode", "schema", "keep", "nullValues")}
    source = {name: value for name, value in definition.source.items() if name != "emit"} | moved
    sink = {name: value for name, value in definition.sink.items() if name not in moved}
    return replace(definition, source=source, sink=sink, mode="connector")


def test_small_files_of_an_iceberg_table_are_gathered_while_a_pipeline_lands(
    spark: SparkSession, cluster: Cluster, produce: Produce, tmp_path: Path
) -> None:
    cluster.create_topic("kept-up", partitions=2)
    upkeep = {"every": "1ms", "file_bytes": 1 << 20, "orphans_after": "1h"}
    definition = shop(cluster, "kept-up", tmp_path, "iceberg", trigger="100ms", maintenance=upkeep)
    table = Landing.from_options(definition.sink).table
    assert isinstance(table, IcebergTable)
    query, ended = start(spark, definition, None), threading.Event()
    compacted: list[int] = []

    def run() -> None:
        with maintained(definition) as after_batch:
            for _ in follow(query, definition, ended.is_set):
                after_batch()

    def compactions(opened: IcebergTable) -> int:
        marks = [snapshot.summary for snapshot in opened.open().snapshots()]
        return sum(mark is not None and mark[QUERY_MARK] == "compaction" for mark in marks)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        made = 0
        while len(compacted) < 2:
            produce(cluster.bootstrap_servers, "kept-up", orders(made, 10))
            made += 10
            wait_until(lambda: table.exists() and landed(table) == made, "the rows are landed", 240)  # noqa: B023
            if (count := compactions(table)) > len(compacted):
                compacted.append(count)
            assert made < 2000, "many batches have landed, and no files were gathered"
    finally:
        ended.set()
        thread.join(240)
    assert Counter(read("iceberg", tmp_path / "table")["id"].to_pylist()) == Counter(range(made))
    assert len(table.contents().files) < made // 10 * 2, "fewer than the tasks have written"
    assert set(audit(spark, definition).counts.values()) == {0}


def landed(table: IcebergTable) -> int:
    return sum(task.file.record_count for task in table.open().scan().plan_files())


def test_a_transform_may_not_leave_out_the_column_of_a_partition(
    spark: SparkSession, cluster: Cluster, produce: Produce, tmp_path: Path
) -> None:
    cluster.create_topic("without", partitions=1)
    produce(cluster.bootstrap_servers, "without", [(0, None, b'{"id": 1}')])
    definition = with_rows_in_spark(shop(cluster, "without", tmp_path, "delta", sink={"partition_by": "country"}))
    query = start(spark, definition, lambda frame: frame.drop("country"))
    with pytest.raises(Exception, match="partitioned by country, and the rows have no column country"):
        query.awaitTermination()
    assert not (tmp_path / "table" / "_delta_log").exists()
