"""Iceberg tables, by `pyiceberg`, in any catalog that it knows; by default one in SQLite beside the data.

Each commit adds a snapshot with the rows and sets properties of the table: the query's last batch and the landing's
position. Without a snapshot, the catalog could accept two such commits. The snapshot's summary repeats the properties
for readers of the history. The summary is not enough by itself: snapshots expire, and the table must remember what has
landed.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from highwater.client.references import resolved
from highwater.pipeline.landing import iceberg_upkeep
from highwater.pipeline.landing.folder import FolderStaging, make_folder, remove_old, sync
from highwater.pipeline.landing.iceberg_files import append, described, new_table, partitioning_of
from highwater.pipeline.landing.iceberg_history import (
    BATCH_MARK,
    LANDING_MARK,
    QUERY_MARK,
    RULES,
    SEQ_MARK,
    at_its_head,
    expire,
    named_files,
    was_restored,
)
from highwater.pipeline.landing.partitioning import WHOLE, PartitionField, Partitioning, check
from highwater.pipeline.landing.position import Position
from highwater.pipeline.landing.races import until_won
from highwater.pipeline.landing.rule import NEVER, Batch, Known, LandingError, after
from highwater.pipeline.landing.store import is_in_store
from highwater.pipeline.landing.table import Contents, StagedFile, Staging

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table as OpenTable

CATALOG_FILE = "catalog.db"
CATALOG_NAME = "highwater"
LOCK_SECONDS = 60
"""So long a driver waits while others write to the catalog. SQLite's own five are over when a disk or a machine is
busy, and the batch would fail."""
_LANDED = "highwater.landed."
_POSITION = "highwater.position."
_IO = "highwater.pipeline.landing.kept_io.KeptFileIO"


@dataclass(frozen=True)
class StoreStaging:
    """Data files in whatever store the table's location names."""

    folder: str
    properties: Mapping[str, str]
    required: tuple[str, ...] = ()
    partitioning: Partitioning = WHOLE

    def create(self, name: str) -> tuple[str, pa.NativeFile]:
        from pyiceberg.io.pyarrow import PyArrowFileIO

        location = f"{self.folder}/{name}.parquet"
        properties = {name: resolved(value) for name, value in self.properties.items()}
        return location, PyArrowFileIO(properties).new_output(location).create()

    def seal(self, location: str) -> None:
        """An object is whole and kept once it is closed."""


@dataclass(frozen=True)
class IcebergTable:
    name: str
    """Namespace and table, with dots between."""
    path: str | None = None
    """Where the table is created; the catalog decides if it is not given."""
    catalog: Mapping[str, str] = field(default_factory=dict)
    """pyiceberg's properties of the catalog, and under `name` its name; none: SQLite in `path`."""
    partition_by: tuple[PartitionField, ...] = ()
    """As asked for; a table that is there has its own."""
    merges: bool = True
    """Whether new columns and fields are added, and numbers widened."""

    def prepare(self, schema: pa.Schema) -> Staging:
        from pyiceberg.exceptions import CommitFailedException
        from sqlalchemy.exc import IntegrityError

        # The second is how a database says that another driver has just created the same namespace.
        table = until_won(lambda: self._create_or_widen(schema), CommitFailedException, IntegrityError)
        return self._staging(table, partitioning_of(table, self.partition_by, schema))

    def _staging(self, table: OpenTable, partitioning: Partitioning = WHOLE) -> Staging:
        location = _data(table)
        required = tuple(field.name for field in table.schema().fields if field.required)
        if folder := _local(location):
            make_folder(folder)
            self._sync_catalog()
            return FolderStaging(str(folder), ".parquet", required, partitioning)
        # As the catalog was given them: secrets by their references.
        given = {name: self.catalog.get(name, str(value)) for name, value in table.io.properties.items()}
        return StoreStaging(location, given, required, partitioning)

    def exists(self) -> bool:
        if not self.catalog and not Path(self.path or ".", CATALOG_FILE).exists():
            return False
        return self._catalog().table_exists(self.name)

    def known(self, landing_id: str, query_id: str = "") -> Known:
        return _known(self.open(), landing_id, query_id)

    def open(self) -> OpenTable:
        return self._catalog().load_table(self.name)

    def contents(self) -> Contents:
        table = self.open()
        tasks = list(table.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise LandingError(
                f"{self.name} has files that delete rows of others, so its data files cannot be read as they are: "
                f"rewrite them (in Spark: CALL system.rewrite_data_files)"
            )
        positions = {
            name.removeprefix(_POSITION): Position.from_json(json.loads(stored))
            for name, stored in table.properties.items()
            if name.startswith(_POSITION)
        }
        files = sorted(task.file.file_path for task in tasks)
        return Contents(tuple(files), tuple(field.name for field in table.schema().fields), positions)

    def commit(self, batch: Batch, staged: Sequence[StagedFile], replace: bool = False) -> bool:
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.expressions import AlwaysTrue

        catalog = self._catalog()
        sent = 0

        def attempt() -> bool:
            nonlocal sent
            table = catalog.load_table(self.name)
            new = after(_known(table, batch.landing_id, batch.query_id), batch)
            if new is None:
                return False
            properties, marks = _marks(batch, new)
            _narrow(table)
            sent += 1
            with table.transaction() as change:
                change.set_properties(properties)
                if replace:
                    change.delete(AlwaysTrue(), marks)
                locations = zip(_locations(table, staged), (file.partition for file in staged), strict=True)
                append(change, described(table, locations), marks)
            self._sync_catalog()
            expire(table)
            return True

        if until_won(attempt, CommitFailedException):
            return True
        table = self.open()
        locations = _locations(table, staged)
        # The answer of an attempt may have been lost, of which a catalog then says that it has lost a race.
        if sent and any(task.file.file_path in locations for task in table.scan().plan_files()):
            return True
        for location in locations:
            table.io.delete(location)
        return False

    def compact(self, target: int, is_stopped: Callable[[], bool]) -> int:
        def opened() -> OpenTable:
            table = self.open()
            _narrow(table)
            return table

        gone = iceberg_upkeep.compact(opened, self._staging(self.open()), target, is_stopped)
        self._sync_catalog()
        return gone

    def clean_up(self, older_than: timedelta) -> list[str]:
        """What no snapshot of the table's history names. Only of a folder: stores have rules of their own for age."""
        provider = self.open().location_provider()
        there = [*self._files(provider.data_path, "*.parquet")]
        there += [
            *self._files(provider.metadata_path, "*.avro"),
            *self._files(provider.metadata_path, "*.metadata.json"),
        ]
        # As paths, since others may write the same location in another way.
        named = {_local(location) for location in named_files(self.open())}
        return remove_old([file for file in sorted(there) if file not in named], older_than)

    def _files(self, location: str, pattern: str) -> Iterator[Path]:
        folder = _local(location)
        if folder is None:
            raise LandingError(
                f"{location} is no folder: let the store remove the files that no snapshot of {self.name} names"
            )
        return folder.glob(pattern)

    def _create_or_widen(self, schema: pa.Schema) -> OpenTable:
        from pyiceberg.exceptions import NoSuchTableError
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        from highwater.pipeline.landing.columns import check_unchanged, grown

        catalog = self._catalog()
        try:
            table = catalog.load_table(self.name)
        except NoSuchTableError:
            catalog.create_namespace_if_not_exists(self.name.rpartition(".")[0])
            location = self.path if self.path is None or is_in_store(self.path) else f"file://{self.path}"
            check(self.partition_by, schema)
            new, spec = new_table(schema, self.partition_by)
            table = catalog.create_table_if_not_exists(self.name, new, location, spec, properties=RULES)
        present = schema_to_pyarrow(table.schema(), include_field_ids=False)
        required = [field.name for field in table.schema().fields if field.required]
        wanted = grown(present, _stored(schema), widens=True, required=required)
        if not wanted.equals(present):
            if not self.merges:
                check_unchanged(present, wanted)
            with table.update_schema() as change:
                change.union_by_name(schema)
        return table

    def _catalog(self) -> Catalog:
        from pyiceberg.catalog import load_catalog

        if self.catalog:
            properties = {"py-io-impl": _IO} | {name: resolved(value) for name, value in self.catalog.items()}
            return load_catalog(properties.pop("name", CATALOG_NAME), **properties)
        file = Path(self.path or ".", CATALOG_FILE)
        if not file.exists():
            make_folder(file.parent)
            _create_catalog(file)
        return _sqlite(file)

    def _sync_catalog(self) -> None:
        """SQLite's commit is the end of its journal, whose name it leaves to the operating system: the commit would be
        undone if the name came back."""
        uri = self.catalog.get("uri", "") if self.catalog else f"{_SQLITE}{Path(self.path or '.', CATALOG_FILE)}"
        if uri.startswith(_SQLITE):
            sync(Path(uri.removeprefix(_SQLITE).partition("?")[0]).parent)


_SQLITE = "sqlite:///"


def _sqlite(file: Path) -> Catalog:
    from pyiceberg.catalog import load_catalog

    uri = f"{_SQLITE}{file}?timeout={LOCK_SECONDS}"
    return load_catalog(CATALOG_NAME, **{"type": "sql", "uri": uri, "warehouse": str(file.parent), "py-io-impl": _IO})


def _create_catalog(file: Path) -> None:
    """Whole or not at all: pyiceberg fails where two at once create the tables of one catalog."""
    new = file.with_name(f"{uuid.uuid4().hex}.new")
    _sqlite(new)
    sync(new)
    with suppress(FileExistsError):
        os.link(new, file)
    new.unlink()
    sync(file.parent)


def _known(table: OpenTable, landing_id: str, query_id: str) -> Known:
    stored = table.properties.get(_POSITION + landing_id)
    position = None if stored is None else Position.from_json(json.loads(stored))
    last = int(table.properties.get(_LANDED + query_id, NEVER))
    # A write of a DataFrame counts from 0 and stays there; a stream has its first rows later.
    numbers = [int(value) for name, value in table.properties.items() if name.startswith(_LANDED)]
    has_strangers = any(numbers) and not any(name.startswith(_POSITION) for name in table.properties)
    if position is not None:
        restored = was_restored(table.metadata, {LANDING_MARK: landing_id}, {SEQ_MARK: str(position.seq)})
    else:
        restored = last != NEVER and was_restored(table.metadata, {QUERY_MARK: query_id}, {BATCH_MARK: str(last)})
    return Known(last, position, has_strangers, restored)


def _marks(batch: Batch, new: Known) -> tuple[dict[str, str], dict[str, str]]:
    """Properties of the table, and what the summary of the snapshot says."""
    properties = {_LANDED + batch.query_id: str(new.last)}
    marks = {QUERY_MARK: batch.query_id, BATCH_MARK: str(batch.number)}
    if new.position is not None:
        properties[_POSITION + batch.landing_id] = json.dumps(new.position.to_json(), separators=(",", ":"))
        marks |= {LANDING_MARK: batch.landing_id, SEQ_MARK: str(new.position.seq)}
    return properties, marks


def _data(table: OpenTable) -> str:
    return table.location_provider().data_path


def _locations(table: OpenTable, staged: Sequence[StagedFile]) -> list[str]:
    return [f"{_data(table)}/{Path(file.location).name}" for file in staged]


def _narrow(table: OpenTable) -> None:
    """For one transaction, to be tried once: pyiceberg would put the same files on top of whatever has come between,
    the same batch included."""
    from pyiceberg.table import TableProperties

    properties = {**table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
    table.metadata = at_its_head(table.metadata).model_copy(update={"properties": properties})


def _stored(schema: pa.Schema) -> pa.Schema:
    """The columns as Iceberg gives them back: it has no integers of 8 or 16 bits."""
    import pyarrow as pa

    from highwater.pipeline.landing.columns import rebuilt

    small = (pa.int8(), pa.int16())
    return pa.schema(
        [(each.name, rebuilt(each.type, lambda leaf: pa.int32() if leaf in small else leaf)) for each in schema]
    )


def _local(location: str) -> Path | None:
    """The path, if the location is one of the machine's (or of a folder that all machines share)."""
    if "://" in location and not location.startswith("file://"):
        return None
    return Path(location.removeprefix("file://").removeprefix("file:"))
