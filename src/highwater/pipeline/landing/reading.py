"""The rows of a table as any reader of its format sees them: nothing of ours decides which ones there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from highwater.pipeline.landing.options import Landing
from highwater.pipeline.landing.parquet import SCHEMA_FILE

if TYPE_CHECKING:
    import pyarrow as pa

    from highwater.pipeline.landing.iceberg import IcebergTable


def rows_of(options: Mapping[str, str]) -> pa.Table:
    """Of a table in a folder, which is there; the options are those of `format("highwater-table")`."""
    kind, path = options["table"], options["path"]
    if kind == "delta":
        return _delta(path)
    return _iceberg(Landing.from_options(options).table) if kind == "iceberg" else _parquet(path)  # type: ignore[arg-type]


def _delta(path: str) -> pa.Table:
    from deltalake import DeltaTable
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    # Not by the file system of deltalake: Arrow's threads may still hold that when the interpreter ends.
    return DeltaTable(path).to_pyarrow_dataset(filesystem=SubTreeFileSystem(path, LocalFileSystem())).to_table()


def _iceberg(table: IcebergTable) -> pa.Table:
    return table.open().scan().to_arrow()


def _parquet(path: str) -> pa.Table:
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    schema = pq.read_schema(f"{path}/{SCHEMA_FILE}")
    return ds.dataset(path, schema=schema, partitioning="hive").to_table()
