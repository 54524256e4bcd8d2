"""Spark reads through us what it reads through its own connector, and knows what it has read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from highwater.cluster import Cluster
from tests.apache import ApacheKafka
from tests.cluster.tools import apache as theirs
from tests.cluster.tools import call, ours

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.slow
Produce = Callable[..., None]


@pytest.fixture(scope="module", params=["ours", "apache"])
def servers(request: pytest.FixtureRequest) -> str:
    """Both kinds of server in turn."""
    if request.param == "apache":
        kafka: ApacheKafka = request.getfixturevalue("apache_kafka")
        return kafka.bootstrap
    cluster: Cluster = request.getfixturevalue("cluster")
    return cluster.bootstrap_servers


@pytest.fixture(scope="module")
def topic(servers: str) -> str:
    """Two partitions with everything a record can have, and can lack; in batches of several codecs."""
    from highwater.client import Admin, Client, NewTopic

    name = "spark-same-rows"
    with Client(servers) as client:
        Admin(client).create_topics([NewTopic(name, 2, configs={"retention.ms": "-1"})])
    for codec in ("none", "gzip", "lz4", "snappy", "zstd"):
        producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 20, "log_level": 0})
        for number in range(60):
            producer.produce(
                name,
                key=None if number % 3 == 0 else b"key %d" % number,
                value=None if number % 7 == 0 else b"%s %d" % (codec.encode(), number),
                partition=number % 2,
                timestamp=1_700_000_000_000 + number,
                headers=None if number % 2 else [("name", b"\xff"), ("name", None), ("größe", b"")],
            )
        assert producer.flush(120) == 0
    return name


def sorted_rows(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda row: (row["topic"], row["partition"], row["offset"]))


def collected(frame: DataFrame, checkpoint: str) -> tuple[list[Row], list[int]]:
    """What an AvailableNow query gives its sink, and how much in each batch."""
    rows: list[Row] = []
    sizes: list[int] = []

    def take(batch: DataFrame, _: int) -> None:
        taken = batch.collect()
        rows.extend(taken)
        sizes.append(len(taken))

    query = frame.writeStream.option("checkpointLocation", checkpoint).foreachBatch(take).trigger(availableNow=True)
    assert query.start().awaitTermination(240)
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"])), sizes


@pytest.mark.parametrize("headers", ["true", "false"])
def test_a_batch_query_gives_the_rows_of_spark_s_connector(
    spark: SparkSession, official_connector: None, servers: str, topic: str, headers: str
) -> None:
    theirs, our = (
        spark.read.format(name)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("includeHeaders", headers)
        .load()
        for name in ("kafka", "highwater")
    )
    assert our.schema == theirs.schema
    rows = sorted_rows(our)
    assert len(rows) == 300
    assert rows == sorted_rows(theirs)


def test_a_streaming_query_gives_the_rows_of_spark_s_connector(
    spark: SparkSession, official_connector: None, servers: str, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found: dict[str, Any] = {}
    for name in ("kafka", "highwater"):
        frame = (
            spark.readStream.format(name)
            .option("kafka.bootstrap.servers", servers)
            .option("subscribePattern", f"^{topic}$")
            .option("startingOffsets", f'{{"{topic}":{{"0":10,"1":-2}}}}')
            .option("maxOffsetsPerTrigger", "200")
            .option("includeHeaders", "true")
            .load()
        )
        assert frame.isStreaming
        found[name], sizes = collected(frame, str(tmp_path_factory.mktemp("checkpoint")))
        batches = [size for size in sizes if size]
        assert len(batches) == 2, name
        assert name == "kafka" or batches == [200, 90], "the limit is kept to the record"
    assert len(found["highwater"]) == 290
    assert found["highwater"] == found["kafka"]


def test_columns_that_are_not_asked_for_are_left_out(spark: SparkSession, servers: str, topic: str) -> None:
    frame = (
        spark.read.format("highwater")
        .schema("offset bigint, value binary")
        .option("kafka.bootstrap.servers", servers)
        .option("assign", f'{{"{topic}":[1]}}')
        .load()
    )
    assert frame.columns == ["offset", "value"]
    assert sorted(row["offset"] for row in frame.collect()) == list(range(150))


def test_a_wrong_option_is_reported_before_any_task_runs(spark: SparkSession, cluster: Cluster) -> None:
    reader = spark.read.format("highwater").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    with pytest.raises(Exception, match="startingofsets .*did you mean startingOffsets"):
        reader.option("subscribe", "t").option("startingOfsets", "earliest").load().collect()


def test_a_failing_first_batch_with_latest_loses_nothing(
    spark: SparkSession, cluster: Cluster, produce: Produce, checkpoint: str
) -> None:
    servers = cluster.bootstrap_servers
    cluster.create_topic("spark-first")
    produce(servers, "spark-first", [(0, None, b"before the query")])
    frame = (
        spark.readStream.format("highwater")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "spark-first")
        .option("startingOffsets", "latest")
        .load()
    )

    def fails_at(wanted: int) -> None:
        def act(_: DataFrame, batch: int) -> None:
            if batch == wanted:
                raise RuntimeError(f"batch {batch} fails on purpose")

        query = frame.writeStream.option("checkpointLocation", checkpoint).foreachBatch(act).start()
        with pytest.raises(Exception, match=f"batch {wanted} fails on purpose"):
            query.awaitTermination(240)

    fails_at(0)
    produce(servers, "spark-first", [(0, None, b"%d" % number) for number in range(10)])
    # The first that has rows.
    fails_at(1)
    produce(servers, "spark-first", [(0, None, b"%d" % number) for number in range(10, 15)])
    rows, _ = collected(frame, checkpoint)
    assert [row["value"] for row in rows] == [b"%d" % number for number in range(15)]


def test_lag_tools_see_how_far_a_query_is(
    spark: SparkSession, cluster: Cluster, apache: None, produce: Produce, checkpoint: str
) -> None:
    servers = cluster.bootstrap_servers
    cluster.create_topic("spark-lag")
    produce(servers, "spark-lag", [(0, None, b"%d" % number) for number in range(10)])
    frame = (
        spark.readStream.format("highwater")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "spark-lag")
        .option("startingOffsets", "earliest")
        .option("kafka.group.id", "spark-lag-group")
        .option("maxOffsetsPerTrigger", "4")
        .load()
    )
    collected(frame, checkpoint)
    produce(servers, "spark-lag", [(0, None, b"later")] * 3)
    describe = call("groups", "--bootstrap-server", servers, "--describe", "--group", "spark-lag-group")
    for said in (ours(describe), *theirs([describe])):
        [line] = [line for line in said.stdout.splitlines() if "spark-lag-group" in line and "spark-lag " in line]
        assert line.split()[2:6] == ["0", "10", "13", "3"], "partition, committed, end, lag"


def test_a_checkpoint_of_spark_s_connector_is_carried_on(
    spark: SparkSession, official_connector: None, cluster: Cluster, produce: Produce, checkpoint: str
) -> None:
    servers = cluster.bootstrap_servers
    cluster.create_topic("spark-moves", 2)
    read = []
    for name, numbers in (("kafka", range(10)), ("highwater", range(10, 25)), ("highwater", range(25, 30))):
        produce(servers, "spark-moves", [(number % 2, None, b"%02d" % number) for number in numbers])
        frame = (
            spark.readStream.format(name)
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", "spark-moves")
            .option("startingOffsets", "earliest")
            .load()
        )
        rows, _ = collected(frame, checkpoint)
        assert sorted(row["value"] for row in rows) == [b"%02d" % number for number in numbers], name
        read += rows
    assert len(read) == 30
