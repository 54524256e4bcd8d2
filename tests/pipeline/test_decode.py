"""Broken values among good ones, through Spark: the batch goes on, and each broken one is found again by its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from highwater.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SCHEMA = "id BIGINT NOT NULL, note STRING, amount DECIMAL(10, 2), at TIMESTAMP"
COUNT = 20_000
KINDS = (b"{not json", b'{"note": "no id"}', b'{"id": "text"}', b'{"id": 99999999999999999999}')
REASONS = (
    "not JSON: Expecting property name enclosed in double quotes",
    "required field id is missing or null",
    'wrong type of field id: expected a whole number, found "text"',
    "field id is out of range for int64",
)
BAD = {number: number // 100 % len(KINDS) for number in range(50, COUNT, 100)}
"""One of a hundred, by its number: which kind it is."""


def value(number: int) -> bytes:
    if number in BAD:
        return KINDS[BAD[number]]
    row = {"id": number, "note": f"nöte {number}", "amount": f"{number}.25", "at": "2026-01-01T00:00:00Z", "more": []}
    return json.dumps(row).encode()


@pytest.fixture(scope="module")
def orders(cluster: Cluster, produce: Callable[..., None]) -> str:
    """A topic with one per cent of broken values in two partitions: number = 2 * offset + partition."""
    cluster.create_topic("decoded-orders", partitions=2, replication_factor=3)
    records = [(number % 2, b"k%d" % number, value(number)) for number in range(COUNT)]
    produce(cluster.bootstrap_servers, "decoded-orders", records)
    return "decoded-orders"


def check_dead_letters(cluster: Cluster, topic: str) -> None:
    found = {}
    for letter in cluster.records(topic):
        headers = dict(letter.headers)
        assert headers["__highwater.errors.topic"] == b"decoded-orders"
        partition, offset = headers["__highwater.errors.partition"], headers["__highwater.errors.offset"]
        assert partition is not None and offset is not None
        number = 2 * int(offset) + int(partition)
        reason = (headers["__highwater.errors.reason"] or b"").decode()
        assert reason.startswith(REASONS[BAD[number]]), reason
        assert (letter.key, letter.value) == (b"k%d" % number, KINDS[BAD[number]])
        assert int(headers["__highwater.errors.timestamp"] or b"0") > 0
        found[number] = found.get(number, 0) + 1
    assert found == dict.fromkeys(BAD, 1)


def test_broken_values_go_to_the_dead_letter_topic_and_the_rest_is_typed(
    spark: SparkSession, cluster: Cluster, orders: str, tmp_path: Path
) -> None:
    cluster.create_topic("orders.bad", partitions=2, replication_factor=3)
    query = (
        spark.readStream.format("highwater")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("subscribe", orders)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", COUNT // 2)
        .option("decode", "json")
        .option("schema", SCHEMA)
        .option("keep", "partition,offset")
        .option("deadLetterTopic", "orders.bad")
        .load()
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "table"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(180)
    assert query.exception() is None
    table = spark.read.parquet(str(tmp_path / "table"))
    row = table.where("id = 77").first()
    assert row is not None
    assert (row["note"], str(row["amount"]), row["_partition"], row["_offset"]) == ("nöte 77", "77.25", 1, 38)
    assert sorted(each["id"] for each in table.select("id").collect()) == sorted(set(range(COUNT)) - set(BAD))
    assert table.where("id <> 2 * _offset + _partition").count() == 0
    check_dead_letters(cluster, "orders.bad")


def test_the_sink_that_reads_by_itself_sends_dead_letters_too(
    spark: SparkSession, cluster: Cluster, orders: str, tmp_path: Path
) -> None:
    from deltalake import DeltaTable

    cluster.create_topic("direct.bad", partitions=1, replication_factor=3)
    query = (
        spark.readStream.format("highwater")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("subscribe", orders)
        .option("startingOffsets", "earliest")
        .option("emit", "ranges")
        .load()
        .writeStream.format("highwater-table")
        .option("table", "delta")
        .option("path", str(tmp_path / "table"))
        .option("decode", "json")
        .option("schema", SCHEMA)
        .option("deadLetterTopic", "direct.bad")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(180)
    assert query.exception() is None
    ids = DeltaTable(tmp_path / "table").to_pyarrow_table(columns=["id"])["id"].to_pylist()
    assert sorted(ids) == sorted(set(range(COUNT)) - set(BAD))
    check_dead_letters(cluster, "direct.bad")


def test_without_a_dead_letter_topic_broken_values_are_rows_with_a_reason(
    spark: SparkSession, cluster: Cluster, orders: str
) -> None:
    frame = (
        spark.read.format("highwater")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("subscribe", orders)
        .option("decode", "json")
        .option("schema", SCHEMA)
        .option("keep", "partition,offset")
        .load()
    )
    bad = frame.where("_bad_reason IS NOT NULL").collect()
    assert {2 * row["_offset"] + row["_partition"] for row in bad} == set(BAD)
    assert all(row["id"] is None and bytes(row["_bad_value"]) in KINDS for row in bad)
    assert frame.where("_bad_reason IS NULL").count() == COUNT - len(BAD)


def test_a_wrong_schema_is_refused_before_any_task(spark: SparkSession, cluster: Cluster, orders: str) -> None:
    reader = spark.read.format("highwater").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    reader = reader.option("subscribe", orders).option("decode", "json")
    with pytest.raises(Exception, match="unknown type 'BIGNIT' of the field id"):
        reader.option("schema", "id BIGNIT").load().count()
    with pytest.raises(Exception, match="decode=json needs a schema"):
        reader.option("schema", "").load().count()
