"""A folder of Parquet files that any reader of a partitioned folder can read, with nothing in it that has not landed.

A batch is one folder, `query_id=<query>/batch_id=<batch>`, and one rename makes it appear: a listing shows the whole
of it or nothing. That folder is all the record there is, so a batch that is tried again finds it and stops; and since
no rename replaces a folder with files in it, the same holds for two drivers at once.

Beside the batches there are `_staging` (a leading underscore hides it from readers) and `_common_metadata`, Parquet's
own name for a file that has the schema of all others: Spark shows its columns without having to merge schemas.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from highwater.pipeline.landing.folder import FolderStaging, make_folder, remove_old, sync
from highwater.pipeline.landing.table import NEVER, LandingError, StagedFile, has_landed

if TYPE_CHECKING:
    import pyarrow as pa

QUERY, BATCH = "query_id", "batch_id"
STAGING = "_staging"
SCHEMA_FILE = "_common_metadata"


@dataclass(frozen=True)
class ParquetTable:
    path: str

    @property
    def _staging(self) -> Path:
        return Path(self.path, STAGING)

    def prepare(self, schema: pa.Schema) -> FolderStaging:
        import pyarrow as pa

        from highwater.pipeline.landing.columns import additions

        taken = [name for name in schema.names if name.lower() in (QUERY, BATCH)]
        if taken:
            raise LandingError(f"column {taken[0]} has the name of a column that readers see for each batch's folder")
        make_folder(self._staging)
        present = self._schema()
        if present is None:
            self._write_schema(schema)
        elif new := additions(present, schema):
            self._write_schema(pa.schema([*present, *new]))
        return FolderStaging(str(self._staging), ".staged")

    def committed(self, query_id: str) -> int:
        prefix = f"{BATCH}="
        try:
            names = os.listdir(self._query_folder(query_id))
        except FileNotFoundError:
            return NEVER
        return max((int(name.removeprefix(prefix)) for name in names if name.startswith(prefix)), default=NEVER)

    def commit(self, query_id: str, batch_id: int, staged: Sequence[StagedFile], replace: bool = False) -> bool:
        if has_landed(query_id, batch_id, self.committed(query_id)):
            for file in staged:
                Path(file.location).unlink(missing_ok=True)
            return False
        gathered = self._staging / uuid.uuid4().hex
        gathered.mkdir()
        for number, file in enumerate(staged):
            os.rename(file.location, gathered / f"part-{number:05}.parquet")
        sync(gathered)
        if replace:
            self._remove_batches()
        return self._appear(gathered, query_id, batch_id)

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

    def _appear(self, gathered: Path, query_id: str, batch_id: int) -> bool:
        target = self._query_folder(query_id) / f"{BATCH}={batch_id}"
        make_folder(target.parent)
        try:
            os.rename(gathered, target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            shutil.rmtree(gathered)
            return False
        sync(target.parent)
        return True

    def _query_folder(self, query_id: str) -> Path:
        return Path(self.path, f"{QUERY}={query_id}")

    def _remove_batches(self) -> None:
        """First the old rows go, then the new ones come: a reader may find few or none, but none twice."""
        for folder in sorted(Path(self.path).glob(f"{QUERY}=*")):
            shutil.rmtree(folder)
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
