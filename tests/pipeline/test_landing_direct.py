"""Direct mode: Spark hands out ranges, the sink reads them; the table is compared with what was acknowledged."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from highwater.pipeline.landing.options import Landing
from highwater.pipeline.ranges import OffsetRange
from highwater.pipeline.reading import Reading
from highwater.pipeline.work_orders import SPARK_SCHEMA, to_batch
from tests.pipeline.landing import FORMATS, FailingTask, beside, landing
from tests.unit.pipeline.landing.tables import grow_old, listed, options_of, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from highwater.cluster import Cluster

pytestmark = pytest.mark.slow

SINK = "highwater-table"
PARTITIONS = 4
PER_PARTITION = 500

Produce = Callable[[str, str, Any], None]


def value_of(partition: int, number: int) -> bytes:
    return json.dumps({"partition": partition, "number": number}).encode()


@pytest.fixture(scope="module")
def topic(cluster: Cluster, produce: Produce) -> str:
    cluster.create_topic("direct", partitions=PARTITIONS, replication_factor=3)
    records = [(p, b"key", value_of(p, n)) for n in range(PER_PARTITION) for p in range(PARTITIONS)]
    produce(cluster.bootstrap_servers, "direct", records)
    return "direct"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table"


def ranges(spark: SparkSession, cluster: Cluster, topic: str) -> DataFrame:
    source = spark.readStream.format("highwater").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    source = source.option("subscribe", topic).option("startingOffsets", "earliest").option("emit", "ranges")
    # So few records would share one task.
    source = source.option("minPartitions", 2)
    return source.option("maxOffsetsPerTrigger", PARTITIONS * PER_PARTITION // 2).load()


ACKNOWLEDGED = Counter((p, n, value_of(p, n)) for p in range(PARTITIONS) for n in range(PER_PARTITION))


@pytest.mark.parametrize("kind", FORMATS)
def test_every_acknowledged_record_is_in_the_table_once_written_by_several_tasks(
    spark: SparkSession, cluster: Cluster, topic: str, path: Path, kind: str
) -> None:
    sink = landing(ranges(spark, cluster, topic), SINK, kind, path, beside(str(path), "checkpoint"))
    query = sink.start()
    query.awaitTermination()
    rows = read(kind, path)
    assert rows.column_names == ["value", "key", "topic", "partition", "offset", "timestamp"]
    found = zip(*(rows[name].to_pylist() for name in ("partition", "offset", "value")), strict=True)
    assert Counter(found) == ACKNOWLEDGED
    assert set(rows["topic"].to_pylist()) == {topic}
    batches = sum(1 for progress in query.recentProgress if progress.numInputRows)
    assert batches >= 2
    assert len(listed(path)) >= 2 * batches, "each batch is shared by tasks"


def test_values_are_decoded_into_columns_and_those_that_do_not_fit_are_dead_letters(
    spark: SparkSession, cluster: Cluster, produce: Produce, path: Path
) -> None:
    cluster.create_topic("direct-bad", partitions=1)
    produce(cluster.bootstrap_servers, "direct-bad", [(0, None, b'{"number": 1}'), (0, None, b"{"), (0, None, b"{}")])
    sink = landing(ranges(spark, cluster, "direct-bad"), SINK, "delta", path, beside(str(path), "checkpoint"))
    sink = sink.option("decode", "json").option("schema", "number BIGINT").option("keep", "offset")
    sink = sink.option("deadLetterTopic", "direct-letters")
    sink.start().awaitTermination()
    assert read("delta", path).to_pylist() == [{"number": 1, "_offset": 0}, {"number": None, "_offset": 2}]
    letters = spark.read.format("highwater").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    assert [bytes(row.value) for row in letters.option("subscribe", "direct-letters").load().collect()] == [b"{"]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_wider_schema_widens_the_table_and_what_a_failed_batch_left_is_cleaned_up(
    spark: SparkSession, cluster: Cluster, produce: Produce, path: Path, kind: str
) -> None:
    topic = f"wider-{kind}"
    cluster.create_topic(topic, partitions=1)

    def land(numbers: range, schema: str, sink: str = SINK) -> None:
        produce(cluster.bootstrap_servers, topic, [(0, None, value_of(7, number)) for number in numbers])
        query = landing(ranges(spark, cluster, topic), sink, kind, path, beside(str(path), "checkpoint"))
        query.option("decode", "json").option("schema", schema).start().awaitTermination()

    spark.dataSource.register(FailingTask)
    with pytest.raises(PySparkException, match="fails on purpose"):
        land(range(10), "number BIGINT", "failing-task")
    left = beside(str(path), "failures").read_text().split()
    land(range(10, 20), "number BIGINT")
    with pytest.raises(PySparkException, match="column number of the table is missing in what is written"):
        land(range(20, 30), "partition INT")
    land(range(30, 40), "number BIGINT, partition INT")
    rows = read(kind, path)
    found = zip(*(rows[name].to_pylist() for name in ("number", "partition")), strict=True)
    assert Counter(found) == Counter((number, None if number < 20 else 7) for number in range(40))
    for file in left:
        grow_old(file)
    assert left
    assert Landing.from_options(options_of(kind, path)).table.clean_up(timedelta(days=1)) == left
    assert read(kind, path).num_rows == 40


def test_a_dataframe_of_ranges_lands_just_their_records(
    spark: SparkSession, cluster: Cluster, topic: str, path: Path
) -> None:
    some = [OffsetRange(topic, "", 1, 10, 20), OffsetRange(topic, "", 3, 0, 5)]
    orders = to_batch(some, Reading(cluster.bootstrap_servers)).to_pylist()
    rows = spark.createDataFrame(orders, SPARK_SCHEMA).repartition(2)
    rows.write.format(SINK).option("table", "parquet").mode("append").save(str(path))
    found = read("parquet", path)
    expected = [*((1, n) for n in range(10, 20)), *((3, n) for n in range(5))]
    assert sorted(zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True)) == expected
    assert found.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")


def test_a_range_that_cannot_be_read_fails_the_query_and_lands_nothing(
    spark: SparkSession, cluster: Cluster, topic: str, path: Path
) -> None:
    orders = to_batch([OffsetRange(topic, "", 0, 0, 10**6)], Reading(cluster.bootstrap_servers, deadline_seconds=1))
    rows = spark.createDataFrame(orders.to_pylist(), SPARK_SCHEMA)
    with pytest.raises(PySparkException):
        rows.write.format(SINK).option("table", "parquet").mode("append").save(str(path))
    assert read("parquet", path).num_rows == 0
