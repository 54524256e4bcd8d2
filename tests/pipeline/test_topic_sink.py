"""Rows into topics, by Spark and by the task's own code: where they go, what they are, and what a failure does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from random import randbytes
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from highwater.client import Admin, NewTopic
from highwater.client.client import Client
from highwater.client.producer import partition_for_key
from highwater.cluster import Cluster
from highwater.cluster.reading import StoredRecord, stored_records
from highwater.errors import KafkaError
from highwater.model import TopicPartition
from highwater.pipeline.dead_letters import DeadLetters
from highwater.pipeline.decode.decoder import REASON
from highwater.pipeline.producing import ProducerSettings
from highwater.pipeline.topic_sink import TopicSink, write_rows
from highwater.wire.compression import Codec
from tests.apache import ApacheKafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def sink(servers: str, topic: str | None, **settings: str) -> TopicSink:
    options = {"kafka.bootstrap.servers": servers} | {f"kafka.{name}": value for name, value in settings.items()}
    return TopicSink(ProducerSettings.from_options(options), topic)


def keyed(start: int, count: int) -> pa.RecordBatch:
    numbers = range(start, start + count)
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"%d" % (number % 100) for number in numbers], pa.binary()),
            "value": pa.array([b"%d" % number for number in numbers], pa.binary()),
        }
    )


def check_stored_once_and_in_order(records: list[StoredRecord], count: int, partitions: int) -> None:
    assert sorted(int(record.value or b"-1") for record in records) == list(range(count))
    for record in records:
        assert record.partition == partition_for_key(record.key or b"", partitions)
    for partition in range(partitions):
        numbers = [int(record.value or b"-1") for record in records if record.partition == partition]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_rows_are_stored_once_in_order_and_where_their_key_belongs(cluster: Cluster, codec: str) -> None:
    topic = f"sink-{codec}"
    cluster.create_topic(topic, partitions=3, replication_factor=3)
    target = sink(cluster.bootstrap_servers, topic, **{"compression.type": codec, "batch.size": "2000"})
    assert write_rows(target, (keyed(start, 1000) for start in range(0, 5000, 1000))) == 5000
    check_stored_once_and_in_order(cluster.records(topic), 5000, 3)


def test_the_death_of_a_leader_loses_nothing_doubles_nothing_and_keeps_the_order() -> None:
    with Cluster(brokers=3) as own:
        own.create_topic("kept", partitions=3, replication_factor=3)
        killed: list[int] = []

        def rows() -> Iterator[pa.RecordBatch]:
            for start in range(0, 30_000, 1000):
                if start == 10_000:
                    leader = own.leader("kept", 0)
                    assert leader is not None
                    own.kill(leader)
                    killed.append(leader)
                yield keyed(start, 1000)

        target = sink(own.bootstrap_servers, "kept", **{"batch.size": "2000", "request.timeout.ms": "5000"})
        assert write_rows(target, rows()) == 30_000
        assert killed
        assert own.leader("kept", 0) not in killed
        check_stored_once_and_in_order(own.records("kept"), 30_000, 3)


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "close_connection"])
def test_batches_behind_one_that_failed_go_again_in_order(cluster: Cluster, error: str) -> None:
    topic = f"again-{error.lower()}"
    cluster.create_topic(topic, partitions=1, replication_factor=3)
    target = sink(cluster.bootstrap_servers, topic, **{"batch.size": "500"})
    failure = cluster.fail("Produce", error).on_call(7)
    assert write_rows(target, (keyed(start, 1000) for start in range(0, 3000, 1000))) == 3000
    assert failure.fired == 1
    check_stored_once_and_in_order(cluster.records(topic), 3000, 1)


def test_apache_kafka_stores_what_we_write(apache_kafka: ApacheKafka) -> None:
    target = sink(apache_kafka.bootstrap, "written-by-tasks", **{"batch.size": "4000", "compression.type": "lz4"})
    assert write_rows(target, (keyed(start, 1000) for start in range(0, 3000, 1000))) == 3000
    with Client(apache_kafka.bootstrap) as client:
        count = len(client.topic("written-by-tasks").partitions)
    partitions = [TopicPartition("written-by-tasks", index) for index in range(count)]
    check_stored_once_and_in_order(stored_records(apache_kafka.bootstrap, partitions, 60), 3000, count)


@pytest.fixture(params=["ours", pytest.param("apache", marks=pytest.mark.apache)])
def narrow(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The servers, and a topic with one partition that takes batches of at most 2000 bytes."""
    if request.param == "apache":
        kafka: ApacheKafka = request.getfixturevalue("apache_kafka")
        servers = kafka.bootstrap
    else:
        cluster: Cluster = request.getfixturevalue("cluster")
        servers = cluster.bootstrap_servers
    topic = "narrow-" + request.node.name.split("[")[0].replace("_", "-")
    with Client(servers) as client:
        Admin(client).create_topics([NewTopic(topic, 1, -1, configs={"max.message.bytes": "2000"})])
    return servers, topic


def test_batches_that_are_too_large_for_the_topic_are_cut(narrow: tuple[str, str]) -> None:
    servers, topic = narrow
    target = sink(servers, topic, **{"batch.size": "20000"})
    assert write_rows(target, (keyed(start, 1000) for start in range(0, 3000, 1000))) == 3000
    records = stored_records(servers, [TopicPartition(topic, 0)], 60)
    assert [int(record.value or b"-1") for record in records] == list(range(3000))


def test_a_row_that_is_too_large_for_the_topic_is_refused_with_its_size_and_the_limit(narrow: tuple[str, str]) -> None:
    servers, topic = narrow
    large = pa.RecordBatch.from_pydict({"value": pa.array([b"small", bytes(3000)], pa.binary())})
    text = rf"{topic}-0: a record that takes 30\d\d bytes is larger than max.message.bytes of the topic, 2000 bytes"
    with pytest.raises(KafkaError, match=text):
        write_rows(sink(servers, topic), iter([large]))
    with pytest.raises(KafkaError, match=r"a record that takes 30\d\d bytes is larger than max.request.size .*, 2500"):
        write_rows(sink(servers, topic, **{"max.request.size": "2500"}), iter([large]))


def test_a_dead_letter_that_is_too_large_for_its_topic_goes_without_its_value(narrow: tuple[str, str]) -> None:
    servers, topic = narrow
    rows = [{"key": b"k", "value": value, "topic": "orders", "partition": 0} for value in (b"{", randbytes(5000), b"[")]
    bad = pa.RecordBatch.from_pylist(
        [row | {"offset": at, "timestamp": datetime.now(UTC), REASON: "why"} for at, row in enumerate(rows)]
    )
    with DeadLetters(topic, ProducerSettings(servers, codec=Codec.GZIP)) as letters:
        letters.write(bad)
    stored = stored_records(servers, [TopicPartition(topic, 0)], 60)
    assert [(record.key, record.value) for record in stored] == [(b"k", b"{"), (b"k", None), (b"k", b"[")]
    headers = dict(stored[1].headers)
    assert headers["__highwater.errors.offset"] == b"1" and headers["__highwater.errors.reason"] == b"why"
    assert headers["__highwater.errors.value-bytes"] == b"5000"


def test_a_row_for_a_partition_that_is_not_there_is_refused(cluster: Cluster) -> None:
    cluster.create_topic("two", partitions=2, replication_factor=1)
    batch = keyed(0, 1).append_column("partition", pa.array([2], pa.int32()))
    with pytest.raises(ValueError, match="a row is for partition 2 of topic two, which has 0 to 1"):
        write_rows(sink(cluster.bootstrap_servers, "two"), iter([batch]))


def test_a_row_without_a_topic_is_refused(cluster: Cluster) -> None:
    batch = keyed(0, 1).append_column("topic", pa.array([None], pa.string()))
    with pytest.raises(ValueError, match="null topic present in the data"):
        write_rows(sink(cluster.bootstrap_servers, None), iter([batch]))


def test_a_batch_query_writes_every_column(spark: SparkSession, cluster: Cluster) -> None:
    for topic in ("spark-a", "spark-b"):
        cluster.create_topic(topic, partitions=2, replication_factor=3)
    rows = [
        ("spark-a", 1, "k", "v1", [("h", bytearray(b"\x01")), ("n", None)]),
        ("spark-a", None, "k", None, None),
        ("spark-b", 0, None, "v2", []),
    ]
    schema = "topic string, partition int, key string, value string, headers array<struct<key:string,value:binary>>"
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    frame.write.format("highwater").option("kafka.bootstrap.servers", cluster.bootstrap_servers).mode("append").save()
    stored = {record[:2] + record[4:] for record in [*cluster.records("spark-a"), *cluster.records("spark-b")]}
    assert stored == {
        ("spark-a", 1, b"k", b"v1", (("h", b"\x01"), ("n", None))),
        ("spark-a", partition_for_key(b"k", 2), b"k", None, ()),
        ("spark-b", 0, None, b"v2", ()),
    }


def test_columns_that_cannot_be_written_are_refused_before_any_task(spark: SparkSession, cluster: Cluster) -> None:
    servers = cluster.bootstrap_servers

    def write(column: str, mode: str, **options: str) -> None:
        frame = spark.range(1).selectExpr(column)
        frame.write.format("highwater").options(**options, **{"kafka.bootstrap.servers": servers}).mode(mode).save()

    with pytest.raises(Exception, match="value attribute type must be a string or binary, not bigint"):
        write("id AS value", "append", topic="never")
    with pytest.raises(Exception, match="topic option required when no 'topic' attribute is present"):
        write("'x' AS value", "append")
    with pytest.raises(Exception, match="save mode overwrite is not for topics"):
        write("'x' AS value", "overwrite", topic="never")


def test_a_streaming_query_writes_from_topic_to_topic(
    spark: SparkSession, cluster: Cluster, produce: Callable[..., None], checkpoint: str
) -> None:
    for topic in ("relay-in", "relay-out"):
        cluster.create_topic(topic, partitions=2, replication_factor=3)
    produce(cluster.bootstrap_servers, "relay-in", [(index % 2, b"k", b"%d" % index) for index in range(100)])
    query = (
        spark.readStream.format("highwater")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("subscribe", "relay-in")
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("partition", "value")
        .writeStream.format("highwater")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("topic", "relay-out")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    assert query.exception() is None
    stored = sorted((record.partition, int(record.value or b"-1")) for record in cluster.records("relay-out"))
    assert stored == sorted((index % 2, index) for index in range(100))


@pytest.mark.usefixtures("official_connector")
def test_sparks_own_sink_writes_to_our_brokers(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("official-sink", partitions=3, replication_factor=3)
    frame = spark.range(3000).selectExpr("CAST(id % 100 AS STRING) AS key", "CAST(id AS STRING) AS value").coalesce(1)
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    writer.option("topic", "official-sink").save()
    check_stored_once_and_in_order(cluster.records("official-sink"), 3000, 3)
