"""Options of `format("highwater-table")`, checked before any task runs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from highwater.pipeline.decode import Decoding
from highwater.pipeline.decode.decoding import OPTIONS as DECODING_OPTIONS
from highwater.pipeline.landing.delta import DeltaTable
from highwater.pipeline.landing.files import COMPRESSIONS, FileShape
from highwater.pipeline.landing.iceberg import IcebergTable
from highwater.pipeline.landing.parquet import ParquetTable
from highwater.pipeline.landing.partitioning import PartitionField, parse
from highwater.pipeline.landing.store import SCHEMES, is_in_store
from highwater.pipeline.landing.table import Table
from highwater.pipeline.selection import BadOption

FORMATS = ("delta", "iceberg", "parquet")
CATALOG_PREFIX, STORAGE_PREFIX = "catalog.", "storage."
OPTIONS = (
    "path",
    "table",
    "name",
    "partitionBy",
    "mergeSchema",
    "compression",
    "maxFileBytes",
    "rowGroupBytes",
    "landingId",
    *DECODING_OPTIONS,
)
_OF_SPARK = ("checkpointlocation", "queryname")
"""What Spark itself reads and hands on."""
MIN_FILE_BYTES = 1 << 20
DEFAULT_SHAPE = FileShape()
_LANDING_ID = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Landing:
    """Where rows land and in what files; travels to the executors."""

    table: Table
    shape: FileShape
    decoding: Decoding | None
    """As given: only records that the sink reads itself can be decoded by it."""
    landing_id: str | None = None
    """Whose position in the table the query moves; None: its own."""
    checkpoint: str | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Landing:
        """Names count in any case. Raises BadOption."""
        given = {name.lower(): value for name, value in options.items()}
        _check_names(given)
        try:
            decoding = Decoding.from_options(given)
        except ValueError as error:
            raise BadOption(str(error)) from error
        landing_id = given.get("landingid")
        if landing_id is not None and not _LANDING_ID.fullmatch(landing_id):
            raise BadOption(
                f"option landingId is {landing_id!r}: a name has only letters, digits, dots, dashes and underscores"
            )
        return cls(_table(given), _shape(given), decoding, landing_id, given.get("checkpointlocation"))


_READERS = {
    "delta": "deltalake.DeltaTable({path!r}), or by Spark's format('delta') with the jars of delta-spark",
    "iceberg": "pyiceberg, from the catalog that it is in",
    "parquet": "spark.read.parquet({path!r})",
}


def only_writes(options: Mapping[str, str]) -> BadOption:
    """Why nothing is read by `format("highwater-table")`, and what reads a table that it has written."""
    given = {name.lower(): value for name, value in options.items()}
    reader = _READERS.get(given.get("table", ""))
    how = (
        "a reader of its own format" if reader is None else reader.format(path=given.get("path", "the table's folder"))
    )
    return BadOption(f"highwater-table only writes tables: read this one with {how} (docs/tables.md, Reading)")


def _check_names(given: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in OPTIONS}
    for name in given:
        if name in known or name in _OF_SPARK or name.startswith((CATALOG_PREFIX, STORAGE_PREFIX)):
            continue
        near = get_close_matches(name, known, n=1)
        hint = (
            f": did you mean {known[near[0]]}?"
            if near
            else f": there are {', '.join(OPTIONS)}, {CATALOG_PREFIX}* and {STORAGE_PREFIX}*"
        )
        raise BadOption(f"unknown option {name}{hint}")


def _table(given: Mapping[str, str]) -> Table:
    kind = given.get("table")
    if kind not in FORMATS:
        said = "is missing" if kind is None else f"is {kind!r}"
        raise BadOption(f"option table {said}: it must be one of {', '.join(FORMATS)}")
    path = _folder(given["path"], kind) if given.get("path") else None
    try:
        partition_by = parse(given.get("partitionby", ""))
    except ValueError as error:
        raise BadOption(f"option partitionBy: {error}") from error
    merges = _flag(given, "mergeSchema", usual=True)
    if kind == "iceberg":
        return replace(_iceberg(given, path, partition_by), merges=merges)
    for name in given:
        if name == "name" or name.startswith(CATALOG_PREFIX):
            raise BadOption(f"option {name} is for table=iceberg, and table is {kind}")
    if path is None:
        raise BadOption("option path is missing: the folder of the table")
    storage = {
        name.removeprefix(STORAGE_PREFIX): value for name, value in given.items() if name.startswith(STORAGE_PREFIX)
    }
    if storage and not is_in_store(path):
        raise BadOption(f"option {STORAGE_PREFIX}{next(iter(storage))} is for an object store, and path is {path}")
    if kind == "delta":
        return DeltaTable(path, partition_by, storage, merges)
    if partition_by:
        raise BadOption(
            "option partitionBy is for table=delta and table=iceberg: the folders of a Parquet table are its batches"
        )
    return ParquetTable(path, merges)


def _iceberg(given: Mapping[str, str], path: str | None, partition_by: tuple[PartitionField, ...]) -> IcebergTable:
    catalog = {
        name.removeprefix(CATALOG_PREFIX): value for name, value in given.items() if name.startswith(CATALOG_PREFIX)
    }
    if not catalog and path is None:
        raise BadOption(
            f"option path is missing: the folder of the table and of its catalog, unless {CATALOG_PREFIX}* is given"
        )
    if not catalog and path is not None and is_in_store(path):
        raise BadOption(
            f"option path is {path}, where no catalog can be made: say with {CATALOG_PREFIX}* which one has the table"
        )
    if storage := [name for name in given if name.startswith(STORAGE_PREFIX)]:
        raise BadOption(
            f"option {storage[0]} is for table=delta: the stores of an Iceberg table are in {CATALOG_PREFIX}*"
        )
    name = given.get("name")
    if name is None:
        if catalog or path is None:
            raise BadOption(
                "option name is missing: the table's namespace and name in the catalog, such as lake.orders"
            )
        name = f"default.{os.path.basename(path)}"
    if "" in name.split(".") or "." not in name:
        raise BadOption(f"option name is {name!r}: it must be a namespace and a name, such as lake.orders")
    return IcebergTable(name, path, catalog, partition_by)


def _folder(path: str, kind: str) -> str:
    local = path.removeprefix("file://")
    if is_in_store(local):
        if kind == "parquet":
            raise BadOption(
                f"option path is {path!r}: a batch of a Parquet table appears by the rename of a folder, which object "
                f"stores do not have. Use table=delta or table=iceberg there"
            )
        return local.replace("s3a://", "s3://").rstrip("/")
    if "://" in local:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise BadOption(
            f"option path is {path!r}: it must be a folder that the driver and all executors share, or a folder of an "
            f"object store ({known})"
        )
    return os.path.abspath(local)


def _shape(given: Mapping[str, str]) -> FileShape:
    compression = given.get("compression", DEFAULT_SHAPE.compression)
    if compression not in COMPRESSIONS:
        raise BadOption(f"option compression is {compression!r}: it must be one of {', '.join(COMPRESSIONS)}")
    return FileShape(
        compression,
        _bytes(given, "maxFileBytes", DEFAULT_SHAPE.max_file_bytes),
        _bytes(given, "rowGroupBytes", DEFAULT_SHAPE.row_group_bytes),
    )


def _flag(given: Mapping[str, str], name: str, usual: bool) -> bool:
    said = given.get(name.lower(), str(usual)).strip().lower()
    if said not in ("true", "false"):
        raise BadOption(f"option {name} is {said!r}: it must be true or false")
    return said == "true"


def _bytes(given: Mapping[str, str], name: str, usual: int) -> int:
    limit = given.get(name.lower(), str(usual))
    if not limit.isascii() or not limit.isdigit() or int(limit) < MIN_FILE_BYTES:
        raise BadOption(f"option {name} is {limit!r}: it must be a number of bytes from {MIN_FILE_BYTES}")
    return int(limit)
