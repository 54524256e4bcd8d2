"""The three formats behind one door for tests: rows in by the product, rows out by each format's own reader."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from highwater.pipeline.landing.delta import DeltaTable
from highwater.pipeline.landing.files import FileShape, stage
from highwater.pipeline.landing.iceberg import IcebergTable
from highwater.pipeline.landing.parquet import SCHEMA_FILE, ParquetTable
from highwater.pipeline.landing.position import Log, Reach
from highwater.pipeline.landing.rule import Batch
from highwater.pipeline.landing.table import StagedFile, Table

FORMATS = ("delta", "iceberg", "parquet")
CATALOGUED = "catalogued"
"""Iceberg, in a catalog of the user's own beside the table's folder."""
SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])


def table_of(kind: str, path: Path) -> Table:
    if kind == "delta":
        return DeltaTable(str(path))
    return IcebergTable("default.t", str(path)) if kind == "iceberg" else ParquetTable(str(path))


def options_of(kind: str, path: Path) -> dict[str, str]:
    """What a query says of its table."""
    if kind != CATALOGUED:
        return {"table": kind, "path": str(path)}
    catalog = {f"catalog.{name}": value for name, value in users_catalog(path).items()}
    return {"table": "iceberg", "path": str(path), "name": "lake.raw.t", "catalog.name": "users"} | catalog


def users_catalog(path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{path}.users.db"}


def numbered(query: str, number: int) -> Batch:
    """A batch of a source without offsets."""
    return Batch(query, query, number)


def reaching(start: int, end: int, number: int = 1, **said: Any) -> Batch:
    """A batch with the offsets [start, end) of one log, by the pipeline p."""
    log = Log("orders", "an-id", 0)
    return Batch(**{"landing_id": "p", "query_id": "q", "number": number, "reaches": (Reach(log, start, end),)} | said)


def staged(table: Table, ids: Iterable[int], schema: pa.Schema = SCHEMA) -> list[StagedFile]:
    """One file with a row for each id; every other column is null."""
    rows = pa.RecordBatch.from_pylist([{"id": each} for each in ids], schema=schema)
    return stage([rows], schema, FileShape(), table.prepare(schema), uuid.uuid4().hex)


def read(kind: str, path: Path) -> pa.Table:
    """As the format's own reader reads it."""
    if kind == "delta":
        from deltalake import DeltaTable as Delta

        return Delta(path).to_pyarrow_table()
    if kind == "iceberg":
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("highwater", type="sql", uri=f"sqlite:///{path}/catalog.db")
        [name] = catalog.list_tables("default")
        return catalog.load_table(name).scan().to_arrow()
    if kind == CATALOGUED:
        from pyiceberg.catalog import load_catalog

        return load_catalog("users", **users_catalog(path)).load_table("lake.raw.t").scan().to_arrow()
    return ds.dataset(path, schema=pq.read_schema(path / SCHEMA_FILE), partitioning="hive").to_table()


def ids(kind: str, path: Path) -> Counter[Any]:
    return Counter(read(kind, path)["id"].to_pylist())


def listed(path: Path) -> set[str]:
    """What a plain listing of the folder shows under the names of data files."""
    return {str(file.relative_to(path)) for file in path.glob("**/*.parquet") if "_delta_log" not in file.parts}


def grow_old(file: str) -> None:
    os.utime(file, (1, 1))
