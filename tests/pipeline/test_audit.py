"""An audit finds what was taken out of a table, put into it twice, or never was in the topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from highwater.cli.pipeline import command
from highwater.model import TopicPartition
from highwater.pipeline.definition import Definition, define
from highwater.pipeline.landing.files import FileShape, stage
from highwater.pipeline.landing.options import Landing
from highwater.pipeline.landing.rule import Batch
from highwater.pipeline.query import start
from highwater.pipeline.skipping import skip
from tests.pipeline.landing import FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from highwater.cluster import Cluster

pytestmark = pytest.mark.slow

Produce = Callable[[str, str, Any], None]


class Shop:
    """A pipeline of orders, one in ten of which is no JSON; order 3 is skipped."""

    def __init__(self, spark: SparkSession, servers: str, topic: str, folder: Path, kind: str, **decode: Any) -> None:
        self.spark = spark
        self.file = folder / "pipeline.yml"
        self.said = {
            "name": topic,
            "source": {"bootstrap_servers": servers, "topic": topic},
            "decode": {"format": "json", "schema": "id BIGINT", "dead_letters": f"{topic}.bad", **decode},
            "sink": {"table": kind, "path": "table"},
            "trigger": "available-now",
        }
        self.file.write_text(json.dumps(self.said))
        self.definition: Definition = define(self.said, folder)
        self.table = Landing.from_options(self.definition.sink).table

    def land(self) -> None:
        query = start(self.spark, self.definition, None)
        query.awaitTermination()

    def add_rows(self, *places: tuple[int, int]) -> None:
        """As a stranger would, by partition and offset."""
        topic = self.definition.name
        schema = pa.schema([("id", pa.int64()), ("_topic", pa.string()), ("_partition", pa.int32()),
                            ("_offset", pa.int64()), ("_timestamp", pa.timestamp("us", tz="UTC"))])  # fmt: skip
        rows = [{"_topic": topic, "_partition": partition, "_offset": offset} for partition, offset in places]
        batch = pa.RecordBatch.from_pylist(rows, schema=schema)
        staged = stage([batch], schema, FileShape(), self.table.prepare(schema), "stranger")
        self.table.commit(Batch("stranger", "stranger", 0), staged)

    def audit(self) -> tuple[int, list[list[str]]]:
        done = CliRunner().invoke(command, ["audit", str(self.file)])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.output
        return done.exit_code, [line.split() for line in done.output.splitlines()]


@pytest.fixture
def shop(
    request: pytest.FixtureRequest, spark: SparkSession, cluster: Cluster, produce: Produce, tmp_path: Path
) -> Callable[..., Shop]:
    def open_one(kind: str, **decode: Any) -> Shop:
        topic = "audit-" + "".join(each if each.isalnum() else "-" for each in request.node.name)[-60:].strip("-")
        cluster.create_topic(topic, partitions=2)
        cluster.create_topic(f"{topic}.bad", partitions=1)
        values = [b"broken" if number % 10 == 9 else b'{"id": %d}' % number for number in range(20)]
        produce(cluster.bootstrap_servers, topic, [(number % 2, None, value) for number, value in enumerate(values)])
        return Shop(spark, cluster.bootstrap_servers, topic, tmp_path, kind, **decode)

    return open_one


@pytest.mark.parametrize("kind", FORMATS)
def test_an_audit_tells_what_is_wrong_by_partition_and_offset(shop: Callable[..., Shop], kind: str) -> None:
    orders = shop(kind)
    topic = orders.definition.name
    orders.table.prepare(pa.schema([("id", pa.int64())]))
    skip(orders.definition, [(TopicPartition(topic, 1), 1)], "poison")
    orders.land()
    code, lines = orders.audit()
    assert [line for line in lines if line[0].isdecimal()] == [
        ["2", "records", "are", "dead", "letters"],
        ["1", "records", "were", "skipped"],
        ["0", "missing,", "0", "doubled,", "0", "foreign"],
    ]
    assert (code, lines[0][1:5]) == (0, ["19", "records", "and", "17"])

    orders.add_rows((0, 5), (0, 6), (1, 0), (1, 77))
    if kind == "delta":
        from deltalake import DeltaTable

        DeltaTable(str(orders.file.parent / "table")).delete("_partition = 0 AND _offset IN (2, 3)")
    code, lines = orders.audit()
    found = [line[1:] for line in lines if line[0] == topic]
    missing = [["0", "2-3", "missing"]] if kind == "delta" else []
    assert found == [*missing, ["0", "5-6", "doubled"], ["1", "0-0", "doubled"], ["1", "77-77", "foreign"]]
    assert (code, lines[-1]) == (1, ["2" if missing else "0", "missing,", "3", "doubled,", "1", "foreign"])


def test_without_the_columns_an_audit_compares_counts_and_says_so(shop: Callable[..., Shop]) -> None:
    orders = shop("parquet", keep=[])
    orders.land()
    code, lines = orders.audit()
    assert code == 0
    assert " ".join(lines[0]).endswith("by their counts alone: the rows have no columns with their offsets")
    next((orders.file.parent / "table").glob("query_id=*/batch_id=*/part-*.parquet")).unlink()
    code, lines = orders.audit()
    assert code == 1
    assert int(lines[-1][0]) > 0
