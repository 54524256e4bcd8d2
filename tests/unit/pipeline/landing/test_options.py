"""Every option is acted on, or refused with what is allowed."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from highwater.pipeline.landing.delta import DeltaTable
from highwater.pipeline.landing.files import FileShape
from highwater.pipeline.landing.iceberg import IcebergTable
from highwater.pipeline.landing.options import Landing
from highwater.pipeline.landing.parquet import ParquetTable
from highwater.pipeline.landing.table import Table
from highwater.pipeline.landing.writer import HighwaterTable
from highwater.pipeline.selection import BadOption


@pytest.mark.parametrize(
    ("options", "table"),
    [
        ({"table": "delta", "path": "/lake/orders"}, DeltaTable("/lake/orders")),
        ({"TABLE": "parquet", "Path": "file:///lake/orders/"}, ParquetTable("/lake/orders")),
        ({"table": "iceberg", "path": "/lake/orders"}, IcebergTable("default.orders", "/lake/orders")),
        (
            {"table": "iceberg", "name": "lake.orders", "catalog.type": "rest", "catalog.uri": "http://c"},
            IcebergTable("lake.orders", None, {"type": "rest", "uri": "http://c"}),
        ),
    ],
)
def test_the_table_that_is_asked_for(options: dict[str, str], table: Table) -> None:
    landing = Landing.from_options(options)
    assert landing.table == table
    assert pickle.loads(pickle.dumps(landing)) == landing


def test_a_relative_path_is_one_of_the_driver() -> None:
    table = Landing.from_options({"table": "delta", "path": "lake"}).table
    assert table == DeltaTable(str(Path.cwd() / "lake"))


def test_options_that_spark_reads_itself_are_accepted() -> None:
    landing = Landing.from_options({"table": "delta", "path": "/t", "checkpointLocation": "/c", "queryName": "q"})
    assert landing.table == DeltaTable("/t")


def test_the_shape_of_files() -> None:
    landing = Landing.from_options({"table": "delta", "path": "/t", "compression": "zstd", "maxFileBytes": "2000000"})
    assert landing.shape == FileShape(compression="zstd", max_file_bytes=2_000_000)


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_columns_are_merged_unless_the_option_says_no(kind: str) -> None:
    options = {"table": kind, "path": "/t"}
    found = [Landing.from_options(options | said).table for said in ({}, {"mergeSchema": "True"})]
    assert all(table.merges for table in found)  # type: ignore[attr-defined]
    assert not Landing.from_options(options | {"mergeSchema": "false"}).table.merges  # type: ignore[attr-defined]
    with pytest.raises(BadOption, match="option mergeSchema is 'maybe': it must be true or false"):
        Landing.from_options(options | {"mergeSchema": "maybe"})


DELTA = {"table": "delta", "path": "/t"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": "/t"}, "option table is missing: it must be one of delta, iceberg, parquet"),
        ({"table": "hudi", "path": "/t"}, "option table is 'hudi': it must be one of delta, iceberg, parquet"),
        ({"table": "delta"}, "option path is missing"),
        ({"table": "iceberg"}, "option path is missing"),
        ({"table": "delta", "path": "hdfs://b/t"}, "option path is 'hdfs://b/t': it must be a folder"),
        (DELTA | {"tabel": "x"}, r"unknown option tabel: did you mean table\?"),
        (DELTA | {"maxFileByte": "1"}, r"unknown option maxfilebyte: did you mean maxFileBytes\?"),
        (DELTA | {"zzz": "1"}, "unknown option zzz: there are path, table, name"),
        (DELTA | {"name": "a.b"}, "option name is for table=iceberg, and table is delta"),
        (DELTA | {"catalog.uri": "x"}, "option catalog.uri is for table=iceberg, and table is delta"),
        ({"table": "iceberg", "catalog.type": "rest"}, "option name is missing"),
        ({"table": "iceberg", "path": "/t", "name": "orders"}, "option name is 'orders': it must be a namespace"),
        ({"table": "iceberg", "path": "/t", "name": ".orders"}, "option name is '.orders'"),
        (DELTA | {"compression": "rar"}, "option compression is 'rar': it must be one of snappy, zstd"),
        (DELTA | {"maxFileBytes": "10"}, "option maxFileBytes is '10': it must be a number of bytes from 1048576"),
        (DELTA | {"maxFileBytes": "-1"}, "option maxFileBytes is '-1'"),
        (DELTA | {"maxFileBytes": "1 GB"}, "option maxFileBytes is '1 GB'"),
        (DELTA | {"decode": "xml"}, "decode is 'xml': it must be one of raw, json"),
        (DELTA | {"keep": "offset"}, "keep is given without decode"),
    ],
)
def test_a_wrong_option_is_refused_with_the_values_it_may_have(options: dict[str, str], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        Landing.from_options(options)


@pytest.mark.parametrize(
    ("options", "reader"),
    [
        (
            {"table": "delta", "path": "lake/orders"},
            "deltalake.DeltaTable('lake/orders'), or by Spark's format('delta') ",
        ),
        ({"table": "iceberg", "path": "lake/orders"}, "pyiceberg, from the catalog that it is in "),
        ({"Table": "parquet", "path": "lake/orders"}, "spark.read.parquet('lake/orders') "),
        ({"path": "lake/orders"}, "a reader of its own format "),
    ],
)
def test_a_reader_learns_that_the_format_only_writes_and_what_reads(options: dict[str, str], reader: str) -> None:
    table = HighwaterTable(options)
    for read in (table.schema, partial(table.reader, StructType()), partial(table.streamReader, StructType())):
        with pytest.raises(BadOption) as refused:
            read()
        assert str(refused.value).startswith(f"highwater-table only writes tables: read this one with {reader}")
