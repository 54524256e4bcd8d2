"""A folder of Parquet files that any reader of a partitioned folder can read, with nothing in it that has not landed.

A batch is one folder, `query_id=<query>/batch_id=<batch>`, and one rename makes it appear: a listing shows the whole
of it or nothing. Where the source has offsets, the folder is `query_id=<landing>/batch_id=<number of the commit>`, and
`_position.json` in it is the position with the batch. That folder is all the record there is, so a batch that is tried
again finds it and stops; and since no rename replaces a folder with files in it, the same holds for two drivers at
once.

Beside the batches there are `_staging` (a leading underscore hides it from readers) and `_common_metadata`, Parquet's
own name for a file that has the schema of all others: Spark shows its columns without having to merge schemas.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from highwater.pipeline.landing.folder import FolderStaging, make_folder, remove_old, sync
from highwater.pipeline.landing.position import Position
from highwater.pipeline.landing.races import until_won
from highwater.pipeline.landing.rule import NEVER, Batch, Known, LandingError, after
from highwater.pipeline.landing.table import Contents, StagedFile

if TYPE_CHECKING:
    import pyarrow as pa

QUERY, BATCH = "query_id", "batch_id"
STAGING = "_staging"
SCHEMA_FILE = "_common_metadata"
POSITION_FILE = "_position.json"


class _Taken(Exception):
    """Another driver was faster."""


@dataclass(frozen=True)
class ParquetTable:
    path: str
    merges: bool = True
    """Whether new columns and fields are added."""

    @property
    def _staging(self) -> Path:
        return Path(self.path, STAGING)

    def prepare(self, schema: pa.Schema) -> FolderStaging:
        from highwater.pipeline.landing.columns import check_unchanged, grown

        taken = [name for name in schema.names if name.lower() in (QUERY, BATCH)]
        if taken:
            raise LandingError(
                f"column {taken[0]} has a name that is taken: readers get that column from the folders of batches"
            )
        make_folder(self._staging)
        present = self._schema()
        if present is None:
            self._write_schema(schema)
        elif not (wanted := grown(present, schema)).equals(present):
            if not self.merges:
                check_unchanged(present, wanted)
            self._write_schema(wanted)
        return FolderStaging(str(self._staging), ".staged")

    def exists(self) -> bool:
        return Path(self.path, SCHEMA_FILE).exists()

    def known(self, landing_id: str, query_id: str = "") -> Known:
        known, _ = self._known(landing_id, query_id)
        return known

    def contents(self) -> Contents:
        import pyarrow.parquet as pq

        files: list[Path] = []
        positions = {}
        for folder in sorted(Path(self.path).glob(f"{QUERY}=*")):
            landing = folder.name.removeprefix(f"{QUERY}=")
            last = self._last(landing)
            if (stored := self._stored(landing, last)) is not None:
                positions[landing] = Position.from_json(stored["position"])
            # Not what appears after the position was read.
            batches = [each for each in folder.glob(f"{BATCH}=*") if int(each.name.removeprefix(f"{BATCH}=")) <= last]
            files += [file for batch in batches for file in batch.glob("*.parquet")]
        columns = pq.read_schema(Path(self.path, SCHEMA_FILE)).names
        return Contents(tuple(map(str, sorted(files))), tuple(columns), positions)

    def commit(self, batch: Batch, staged: Sequence[StagedFile], replace: bool = False) -> bool:
        gathered = self._gathered(staged)

        def attempt() -> bool:
            known, number = self._known(batch.landing_id, batch.query_id)
            new = after(known, batch)
            if new is None:
                return False
            folder = self._query_folder(batch.query_id) / f"{BATCH}={batch.number}"
            if new.position is not None:
                folder = self._query_folder(batch.landing_id) / f"{BATCH}={number + 1}"
                self._write_position(gathered, batch, new.position)
            sync(gathered)
            if replace:
                self._remove_batches()
            self._appear(gathered, folder)
            return True

        landed = until_won(attempt, _Taken)
        if not landed:
            shutil.rmtree(gathered)
        return landed

    def _gathered(self, staged: Sequence[StagedFile]) -> Path:
        gathered = self._staging / uuid.uuid4().hex
        gathered.mkdir()
        for number, file in enumerate(staged):
            os.rename(file.location, gathered / f"part-{number:05}.parquet")
        return gathered

    def _known(self, landing_id: str, query_id: str) -> tuple[Known, int]:
        """And the number of the landing's last commit."""
        number = self._last(landing_id)
        stored = self._stored(landing_id, number)
        if stored is None:
            return Known(self._last(query_id), None, self._has_strangers()), number
        last = stored["batches"].get(query_id, self._last(query_id) if query_id != landing_id else NEVER)
        return Known(last, Position.from_json(stored["position"])), number

    def _stored(self, landing_id: str, number: int) -> dict[str, Any] | None:
        try:
            text = (self._query_folder(landing_id) / f"{BATCH}={number}" / POSITION_FILE).read_text()
        except FileNotFoundError:
            return None
        stored: dict[str, Any] = json.loads(text)
        return stored

    def _write_position(self, gathered: Path, batch: Batch, position: Position) -> None:
        before = self._stored(batch.landing_id, self._last(batch.landing_id)) or {"batches": {}}
        batches = before["batches"] | {batch.query_id: batch.number}
        file = gathered / POSITION_FILE
        file.write_text(json.dumps({"batches": batches, "position": position.to_json()}))
        sync(file)

    def _last(self, folder: str) -> int:
        prefix = f"{BATCH}="
        try:
            names = os.listdir(self._query_folder(folder))
        except FileNotFoundError:
            return NEVER
        return max((int(name.removeprefix(prefix)) for name in names if name.startswith(prefix)), default=NEVER)

    def _has_strangers(self) -> bool:
        """A write of a DataFrame counts from 0 and stays there; a stream has its first rows later."""
        folders = [folder.name.removeprefix(f"{QUERY}=") for folder in Path(self.path).glob(f"{QUERY}=*")]
        numbers = {folder: self._last(folder) for folder in folders}
        return any(numbers[folder] > 0 for folder in folders) and all(
            self._stored(folder, numbers[folder]) is None for folder in folders
        )

    def compact(self, target: int, is_stopped: Callable[[], bool]) -> int:
        """Rewrites none: readers list the folders, and would find old and new files side by side."""
        return 0

    def clean_up(self, older_than: timedelta) -> list[str]:
        """Also gathered files of a driver that died before the rename."""
        loose = [file for file in self._staging.glob("**/*") if file.is_file()]
        removed = remove_old(sorted(loose), older_than)
        for folder in sorted({Path(location).parent for location in removed} - {self._staging}):
            try:
                folder.rmdir()
            except OSError as error:
                # Something in it is younger; or another clean-up was faster.
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                    raise
        return removed

    def _appear(self, gathered: Path, target: Path) -> None:
        make_folder(target.parent)
        try:
            os.rename(gathered, target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            raise _Taken(str(target)) from error
        sync(target.parent)

    def _query_folder(self, query_id: str) -> Path:
        return Path(self.path, f"{QUERY}={query_id}")

    def _remove_batches(self) -> None:
        """First the old rows go, then the new ones come: a reader may find few or none, but none twice.

        Positions stay: what has landed and was replaced does not land again.
        """
        for folder in sorted(Path(self.path).glob(f"{QUERY}=*")):
            last = self._last(folder.name.removeprefix(f"{QUERY}="))
            for batch in sorted(folder.iterdir()):
                if batch.name != f"{BATCH}={last}" or not (batch / POSITION_FILE).exists():
                    shutil.rmtree(batch)
                    continue
                for file in sorted(batch.glob("*.parquet")):
                    file.unlink()
                sync(batch)
            sync(folder)
        sync(Path(self.path))

    def _schema(self) -> pa.Schema | None:
        import pyarrow.parquet as pq

        file = Path(self.path, SCHEMA_FILE)
        if not file.exists():
            if any(Path(self.path).glob("*.parquet")):
                raise LandingError(
                    f"{self.path} holds Parquet files that were not landed here: give a folder of its own"
                )
            return None
        return pq.read_schema(file)

    def _write_schema(self, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        new = self._staging / f"{uuid.uuid4().hex}.schema"
        pq.write_metadata(schema, new, store_schema=False)
        sync(new)
        os.replace(new, Path(self.path, SCHEMA_FILE))
        sync(Path(self.path))
