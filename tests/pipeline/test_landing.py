"""Tables through Spark, on a session that all tests share; crashes are in test_landing_crash.py."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from highwater.pipeline.landing.iceberg import IcebergTable
from highwater.pipeline.landing.parquet import BATCH, QUERY
from tests.pipeline.landing import FORMATS, SINKS, Ledger, beside, landing, run, stream
from tests.unit.pipeline.landing.tables import ids, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SINK = "highwater-table"


@pytest.fixture(scope="module", autouse=True)
def sinks(spark: SparkSession) -> None:
    for sink in SINKS:
        spark.dataSource.register(sink)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "source")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.mark.parametrize("kind", FORMATS)
def test_each_batch_is_one_commit_that_names_its_query(
    spark: SparkSession, ledger: Ledger, path: Path, kind: str
) -> None:
    ledger.add(3)
    query_id = run(stream(spark, ledger.folder), "recording", kind, path, beside(str(path), "checkpoint"))
    landings = beside(str(path), "landings").read_text().splitlines()
    assert landings == [f"{query_id} {batch} True" for batch in range(3)]
    assert ids(kind, path) == ledger.ids
    assert commits(kind, path) == [(query_id, batch) for batch in range(3)]


def commits(kind: str, path: Path) -> list[tuple[str, int]]:
    """What the table's own history says of queries and batches, oldest first."""
    if kind == "delta":
        from deltalake import DeltaTable as Delta

        entries = [entry for entry in reversed(Delta(path).history()) if "batchId" in entry]
        return [(entry["queryId"], int(entry["batchId"])) for entry in entries]
    if kind == "iceberg":
        summaries = [snapshot.summary for snapshot in IcebergTable("default.table", str(path)).open().snapshots()]
        return [(each["highwater.query-id"], int(each["highwater.batch-id"] or "")) for each in summaries if each]
    folders = sorted(path.glob("query_id=*/batch_id=*"))
    return [
        (folder.parent.name.removeprefix("query_id="), int(folder.name.removeprefix("batch_id="))) for folder in folders
    ]


@pytest.mark.parametrize("kind", FORMATS)
def test_two_queries_share_a_table_and_a_query_with_a_new_checkpoint_is_another_one(
    spark: SparkSession, ledger: Ledger, tmp_path: Path, path: Path, kind: str
) -> None:
    other = Ledger(tmp_path / "other")
    ledger.add(2)
    other.files = 1000  # numbers that the first ledger does not give
    other.add(2)
    both = [
        landing(stream(spark, each.folder), SINK, kind, path, each.folder / "_checkpoint").start()
        for each in (ledger, other)
    ]
    for query in both:
        query.awaitTermination()
    assert ids(kind, path) == ledger.ids + other.ids
    ledger.add(1)
    run(stream(spark, ledger.folder), SINK, kind, path, ledger.folder / "_checkpoint")
    assert ids(kind, path) == ledger.ids + other.ids, "the same checkpoint goes on"
    run(stream(spark, ledger.folder), SINK, kind, path, ledger.folder / "_new_checkpoint")
    assert ids(kind, path) == ledger.ids + ledger.ids + other.ids, "a new one begins again"


@pytest.mark.parametrize("kind", FORMATS)
def test_a_query_that_comes_back_with_a_new_column_widens_the_table_and_with_another_type_fails_before_any_task(
    spark: SparkSession, ledger: Ledger, path: Path, kind: str
) -> None:
    ledger.add(1)
    checkpoint = beside(str(path), "checkpoint")
    run(stream(spark, ledger.folder), SINK, kind, path, checkpoint)
    ledger.add(1, price=pa.float64())
    wider = "id bigint, note string, price double"
    run(stream(spark, ledger.folder, wider), SINK, kind, path, checkpoint)
    assert ids(kind, path) == ledger.ids
    prices = read(kind, path)["price"].to_pylist()
    assert Counter(price is None for price in prices) == {True: 200, False: 200}
    ledger.add(1, price=pa.string())
    with pytest.raises(PySparkException, match="column price is double in the table and string in what is written"):
        run(stream(spark, ledger.folder, wider.replace("double", "string")), SINK, kind, path, checkpoint)
    with pytest.raises(PySparkException, match="column price of the table is missing .*, and column cost is new"):
        run(stream(spark, ledger.folder, wider.replace("price", "cost")), SINK, kind, path, checkpoint)


def test_spark_reads_a_parquet_table_as_a_folder_with_nothing_to_merge(spark: SparkSession, path: Path) -> None:
    def write(rows: str, mode: str = "append") -> None:
        spark.sql(rows).repartition(2).write.format(SINK).option("table", "parquet").mode(mode).save(str(path))

    write("select id, 'a' as note from range(3)")
    write("select id, 'b' as note, id * 2 as twice from range(3, 5)")
    found = spark.read.parquet(str(path))
    assert found.columns == ["id", "note", "twice", QUERY, BATCH]
    assert sorted((row.id, row.note, row.twice) for row in found.collect()) == [
        *((number, "a", None) for number in range(3)),
        *((number, "b", number * 2) for number in range(3, 5)),
    ]
    write("select 9L as id, 'c' as note, 18L as twice", "overwrite")
    assert [row.id for row in spark.read.parquet(str(path)).collect()] == [9]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_dataframe_is_appended_or_replaces_the_rows(spark: SparkSession, path: Path, kind: str) -> None:
    for mode, numbers in (("append", (0, 3)), ("append", (3, 5)), ("overwrite", (7, 9))):
        rows = spark.range(*numbers).selectExpr("id", "timestamp_micros(id) as at")
        rows.write.format(SINK).option("table", kind).mode(mode).save(str(path))
        if mode == "append":
            assert ids(kind, path) == Counter(range(numbers[1]))
    found = read(kind, path)
    assert ids(kind, path) == Counter([7, 8])
    assert found.schema.field("at").type == pa.timestamp("us", tz="UTC")
    assert sorted(found["at"].cast(pa.int64()).to_pylist()) == [7, 8]


@pytest.mark.parametrize("kind", ["delta"])
def test_output_mode_complete_replaces_the_rows_with_each_batch(
    spark: SparkSession, ledger: Ledger, path: Path, kind: str
) -> None:
    ledger.add(2)
    counted = stream(spark, ledger.folder).selectExpr("id % 10 as id").groupBy("id").count()
    sink = landing(counted, SINK, kind, path, beside(str(path), "checkpoint")).outputMode("complete")
    sink.start().awaitTermination()
    rows = read(kind, path)
    assert dict(zip(rows["id"].to_pylist(), rows["count"].to_pylist(), strict=True)) == dict.fromkeys(range(10), 40)
    assert rows.num_rows == 10


def test_output_mode_complete_is_refused_for_a_folder_of_parquet(
    spark: SparkSession, ledger: Ledger, path: Path
) -> None:
    ledger.add(1)
    counted = stream(spark, ledger.folder).groupBy("note").count()
    sink = landing(counted, SINK, "parquet", path, beside(str(path), "checkpoint")).outputMode("complete")
    with pytest.raises(PySparkException, match="output mode complete replaces the table"):
        sink.start().awaitTermination()


def test_output_mode_update_is_refused_by_spark_itself(spark: SparkSession, ledger: Ledger, path: Path) -> None:
    ledger.add(1)
    counted = stream(spark, ledger.folder).groupBy("note").count()
    sink = landing(counted, SINK, "delta", path, beside(str(path), "checkpoint")).outputMode("update")
    with pytest.raises(PySparkException, match="(?i)update"):
        sink.start().awaitTermination()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": "delta", "tabel": "x"}, "unknown option tabel: did you mean table"),
        ({"table": "hudi"}, "it must be one of delta, iceberg, parquet"),
        ({"table": "delta", "decode": "raw"}, "give emit=ranges to the source"),
    ],
)
def test_an_option_that_cannot_be_is_refused_before_any_task(
    spark: SparkSession, path: Path, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException, match=said):
        spark.range(1).write.format(SINK).options(**options).mode("append").save(str(path))
    assert not path.exists()


def test_a_column_that_no_table_can_hold_is_refused_before_any_task(spark: SparkSession, path: Path) -> None:
    rows = spark.sql("select 1 as id, null as nothing")
    with pytest.raises(PySparkException, match="column nothing has no type"):
        rows.write.format(SINK).option("table", "delta").mode("append").save(str(path))


def test_reading_with_the_write_format_names_the_format_that_reads(spark: SparkSession) -> None:
    refusal = "BadOption: highwater-table only writes tables: read this one with deltalake.DeltaTable('lake/orders')"
    for reading in (spark.read, spark.readStream):
        with pytest.raises(PySparkException, match=re.escape(refusal)):
            reading.format(SINK).options(table="delta", path="lake/orders").load()
    with pytest.raises(PySparkException, match=re.escape(refusal)):
        spark.read.format(SINK).options(table="delta", path="lake/orders").schema("id BIGINT").load().collect()
