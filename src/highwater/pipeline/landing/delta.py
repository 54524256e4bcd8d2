"""Delta tables, by the `deltalake` package: the transaction log itself remembers what has landed.

Files are written where they will stay, and an entry of the log makes them rows of the table. The identifiers of
application transactions (`txn` actions) are part of Delta's protocol: two commits that set the same identifier
conflict, no matter which writers made them. Every commit of a landing sets the identifier of its number.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from highwater.pipeline.landing import delta_log, delta_upkeep
from highwater.pipeline.landing.delta_actions import added
from highwater.pipeline.landing.delta_limits import check_plain, check_writable, partitioning_of, required, with_units
from highwater.pipeline.landing.delta_log import LogFolder
from highwater.pipeline.landing.folder import FolderStaging, make_folder, remove_old
from highwater.pipeline.landing.partitioning import WHOLE, PartitionField, Partitioning, check, text_of
from highwater.pipeline.landing.position import Position
from highwater.pipeline.landing.races import until_won
from highwater.pipeline.landing.rule import NEVER, Batch, Known, after
from highwater.pipeline.landing.store import ObjectStaging, Store, StoredLog, is_in_store
from highwater.pipeline.landing.table import Contents, StagedFile, Staging

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties
    from deltalake import DeltaTable as OpenTable

_LOG = "_delta_log"
_POSITION = "position"
_INTERVAL = "delta.checkpointInterval"
_USUAL_INTERVAL = 100
_CLEANUP = "delta.enableExpiredLogCleanup"


@dataclass(frozen=True)
class DeltaTable:
    path: str
    """A folder, or the address of one in an object store."""
    partition_by: tuple[PartitionField, ...] = ()
    """As asked for; a table that is there has its own."""
    storage: Mapping[str, str] = field(default_factory=dict)
    """Of an object store: deltalake's options. What is not there comes from the environment."""
    merges: bool = True
    """Whether new columns and fields are added."""

    def prepare(self, schema: pa.Schema) -> Staging:
        from deltalake.exceptions import CommitFailedError

        if self._store is None:
            make_folder(Path(self.path))
            delta_log.mend(Path(self.path, _LOG))
        until_won(lambda: self._create_or_widen(schema), CommitFailedError)
        table = self._open()
        delta_log.sync_entries(self._log, delta_log.NONE, table.version())
        partitioning = partitioning_of(table, self.partition_by, schema)
        return self._staging(required(table.schema()), partitioning)

    def _staging(self, needed: tuple[str, ...], partitioning: Partitioning = WHOLE) -> Staging:
        if self._store is not None:
            return ObjectStaging(self._store, needed, partitioning)
        return FolderStaging(self.path, ".parquet", needed, partitioning)

    def exists(self) -> bool:
        from deltalake import DeltaTable as Delta

        return Delta.is_deltatable(self.path, self._options)

    def known(self, landing_id: str, query_id: str = "") -> Known:
        known, _ = self._known(self._open(), landing_id, query_id)
        return known

    def contents(self) -> Contents:
        table = self._open()
        check_plain(table)
        marks = delta_log.marks(self._log, table.version())
        found = {landing: marks.position(landing) for landing in marks.landings()}
        files = tuple(sorted(table.file_uris()))
        return Contents(
            files,
            tuple(field.name for field in table.schema().fields),
            {landing: position for landing, position in found.items() if position is not None},
            delta_upkeep.constants(table, files),
        )

    def commit(self, batch: Batch, staged: Sequence[StagedFile], replace: bool = False) -> bool:
        from deltalake import PostCommitHookProperties
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction, RemoveAction

        now = int(time.time() * 1000)
        adds: list[AddAction | RemoveAction] = [
            added(file, values, now, is_change=True)
            for file, values in zip(staged, self._partitions(staged), strict=True)
        ]
        # Afterwards, by ourselves: the entries before a checkpoint may go only when it is on the disk.
        no_checkpoint = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)

        sent = 0

        def attempt() -> bool:
            nonlocal sent
            table = self._open()
            check_writable(table)
            known, marked_at = self._known(table, batch.landing_id, batch.query_id)
            new = after(known, batch)
            if new is None:
                return False
            sent += 1
            before = table.version()
            table.create_write_transaction(
                adds,
                "overwrite" if replace else "append",
                table.schema(),
                table.metadata().partition_columns,
                commit_properties=_marks(batch, known, new),
                post_commithook_properties=no_checkpoint,
            )
            self._keep(table, before, marked_at)
            return True

        if until_won(attempt, CommitFailedError):
            return True
        # The answer of an attempt may have been lost, of which an object store then says that it has lost a race.
        if sent and self._has(staged):
            return True
        for file in staged:
            self._remove(Path(file.location).name)
        return False

    def compact(self, target: int, is_stopped: Callable[[], bool]) -> int:
        filesystem = None if self._store is None else self._store.filesystem()
        folder = delta_upkeep.DataFolder("" if filesystem else f"{self.path}/", filesystem, self._staging)
        return delta_upkeep.compact(self._open, folder, target, is_stopped)

    def clean_up(self, older_than: timedelta) -> list[str]:
        """Older versions of the table are kept readable: what they need goes by the table's own retention."""
        table = self._open()
        hours = -(-int(older_than.total_seconds()) // 3600)
        by_age = table.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)
        by_retention = set(table.vacuum(dry_run=True, full=True))
        names = [name for name in sorted(by_age) if name in by_retention]
        if self._store is None:
            return remove_old([Path(self.path, name) for name in names], older_than)
        for name in names:
            self._store.remove(name)
        return [f"{self.path}/{name}" for name in names]

    def _has(self, staged: Sequence[StagedFile]) -> bool:
        import pyarrow as pa

        present = set(pa.table(self._open().get_add_actions())["path"].to_pylist())
        return any(Path(file.location).name in present for file in staged)

    def _remove(self, name: str) -> None:
        if self._store is not None:
            self._store.remove(name)
        else:
            Path(self.path, name).unlink(missing_ok=True)

    def _partitions(self, staged: Sequence[StagedFile]) -> list[dict[str, str | None]]:
        """The values of each file, as Delta's log says them."""
        if not any(file.partition for file in staged):
            return [{} for _ in staged]
        fields = self.partition_by or tuple(map(PartitionField, self._open().metadata().partition_columns))
        return [
            {each.name: text_of(each, value) for each, value in zip(fields, file.partition, strict=True)}
            for file in staged
        ]

    @property
    def _store(self) -> Store | None:
        return Store(self.path, self.storage) if is_in_store(self.path) else None

    @property
    def _options(self) -> dict[str, str] | None:
        return None if self._store is None else self._store.known_options()

    @property
    def _log(self) -> delta_log.LogFiles:
        return LogFolder(Path(self.path, _LOG)) if self._store is None else StoredLog(self._store)

    def _known(self, table: OpenTable, landing_id: str, query_id: str) -> tuple[Known, int]:
        """And the version that says so."""
        version = table.version()
        near = delta_log.near_info(self._log, version, delta_log.seq_mark(landing_id))
        if near is not None and near[1].get("queryId") == query_id and _POSITION in near[1]:
            at, info = near
            return Known(int(info["batchId"]), Position.from_json(json.loads(info[_POSITION]))), at
        marks = delta_log.marks(self._log, version)
        position = marks.position(landing_id)
        mark = query_id if position is None else delta_log.seq_mark(landing_id)
        marked_at, was_restored = delta_log.NONE, False
        if mark in marks.versions:
            marked_at, was_restored = delta_log.last_set(self._log, version, mark)
        # A write of a DataFrame counts from 0 and stays there; a stream has its first rows later.
        has_strangers = not marks.has_positions() and any(number > 0 for number in marks.versions.values())
        return Known(marks.versions.get(query_id, NEVER), position, has_strangers, was_restored), marked_at

    def _keep(self, committed: OpenTable, before: int, kept: int) -> None:
        """Through a loss of power: all entries up to ours, since without one of them none after it can be read."""
        version = delta_log.newest(self._log, before + 1)
        if version == kept + 1:
            self._log.sync([delta_log.entry(version)])
        else:
            delta_log.sync_entries(self._log, kept, version)
        settings = committed.metadata().configuration
        interval = int(settings.get(_INTERVAL) or _USUAL_INTERVAL)
        if (version + 1) // interval > (before + 1) // interval:
            table = self._open()
            table.create_checkpoint()
            delta_log.sync_entries(self._log, kept, table.version())
            if settings.get(_CLEANUP, "true").lower() == "true":
                table.cleanup_metadata()

    def _create_or_widen(self, schema: pa.Schema) -> None:
        import pyarrow as pa
        from deltalake import DeltaTable as Delta
        from deltalake import Schema

        from highwater.pipeline.landing.columns import check_unchanged, grown

        stored = Schema.from_arrow(with_units(schema, self.partition_by))
        if not self.exists():
            check(self.partition_by, schema)
            by = [each.name for each in self.partition_by]
            Delta.create(self.path, stored, mode="ignore", partition_by=by, storage_options=self._options)
        table = self._open()
        check_writable(table)
        present = _arrow(table.schema())
        wanted = grown(present, _arrow(stored), required=required(table.schema()))
        if not wanted.equals(present):
            if not self.merges:
                check_unchanged(present, wanted)
            changed = [
                field for field in wanted if field.name not in present.names or field != present.field(field.name)
            ]
            table.alter.add_columns(Schema.from_arrow(pa.schema(changed)).fields)

    def _open(self) -> OpenTable:
        from deltalake import DeltaTable as Delta

        return Delta(self.path, storage_options=self._options)


def _marks(batch: Batch, known: Known, new: Known) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    info = {"queryId": batch.query_id, "batchId": str(batch.number), "landingId": batch.landing_id}
    marks = {batch.query_id: new.last}
    if new.position is not None:
        before = delta_log.position_marks(batch.landing_id, known.position) if known.position is not None else {}
        now = delta_log.position_marks(batch.landing_id, new.position)
        marks |= {name: value for name, value in now.items() if before.get(name) != value}
        info |= {_POSITION: json.dumps(new.position.to_json(), separators=(",", ":"))}
    return CommitProperties(
        custom_metadata=info,
        app_transactions=[Transaction(name, value) for name, value in marks.items()],
    )


def _arrow(schema: object) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(schema)
