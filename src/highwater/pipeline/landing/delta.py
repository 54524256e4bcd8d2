"""Delta tables, by the `deltalake` package: the transaction log itself remembers each query's last batch.

Files are written where they will stay, and the log is what makes them rows. The identifiers of application
transactions (`txn` actions) are part of Delta's protocol: two commits of one query conflict, whoever writes them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from highwater.pipeline.landing.folder import FolderStaging, make_folder, remove_old
from highwater.pipeline.landing.races import until_won
from highwater.pipeline.landing.table import NEVER, LandingError, StagedFile, has_landed

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable as OpenTable


@dataclass(frozen=True)
class DeltaTable:
    path: str

    def prepare(self, schema: pa.Schema) -> FolderStaging:
        from deltalake.exceptions import CommitFailedError

        make_folder(Path(self.path))
        until_won(lambda: self._create_or_widen(schema), CommitFailedError)
        return FolderStaging(self.path, ".parquet")

    def committed(self, query_id: str) -> int:
        return _committed(self._open(), query_id)

    def commit(self, query_id: str, batch_id: int, staged: Sequence[StagedFile], replace: bool = False) -> bool:
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction, RemoveAction

        now = int(time.time() * 1000)
        adds: list[AddAction | RemoveAction] = [
            AddAction(Path(file.location).name, file.size, {}, now, True, json.dumps({"numRecords": file.rows}))
            for file in staged
        ]
        marks = CommitProperties(
            custom_metadata={"queryId": query_id, "batchId": str(batch_id)},
            app_transactions=[Transaction(query_id, batch_id)],
        )

        def attempt() -> bool:
            table = self._open()
            if has_landed(query_id, batch_id, _committed(table, query_id)):
                return False
            mode = "overwrite" if replace else "append"
            table.create_write_transaction(adds, mode, table.schema(), commit_properties=marks)
            return True

        landed = until_won(attempt, CommitFailedError)
        if not landed:
            for file in staged:
                Path(file.location).unlink(missing_ok=True)
        return landed

    def clean_up(self, older_than: timedelta) -> list[str]:
        """Older versions of the table are kept readable: what they need goes by the table's own retention."""
        table = self._open()
        hours = -(-int(older_than.total_seconds()) // 3600)
        by_age = table.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)
        by_retention = set(table.vacuum(dry_run=True, full=True))
        files = [Path(self.path, name) for name in sorted(by_age) if name in by_retention]
        return remove_old(files, older_than)

    def _create_or_widen(self, schema: pa.Schema) -> None:
        from deltalake import DeltaTable as Delta
        from deltalake import Schema

        from highwater.pipeline.landing.columns import additions

        stored = Schema.from_arrow(schema)
        if not Delta.is_deltatable(self.path):
            Delta.create(self.path, stored, mode="ignore")
        table = self._open()
        if partitions := table.metadata().partition_columns:
            raise LandingError(
                f"{self.path} is partitioned by {', '.join(partitions)}: only a table without is landed in"
            )
        new = {field.name for field in additions(_arrow(table.schema()), _arrow(stored))}
        if new:
            table.alter.add_columns([field for field in stored.fields if field.name in new])

    def _open(self) -> OpenTable:
        from deltalake import DeltaTable as Delta

        return Delta(self.path)


def _committed(table: OpenTable, query_id: str) -> int:
    version = table.transaction_version(query_id)
    return NEVER if version is None else version


def _arrow(schema: object) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(schema)
