"""Small files of a Delta table become large ones, by entries that change no row.

`deltalake` can do the same, but does not sync what it writes: after a loss of power the log could name a file that is
not whole, in place of files that were.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from highwater.pipeline.landing.compaction import SmallFile, groups
from highwater.pipeline.landing.delta_limits import check_plain, check_writable, required
from highwater.pipeline.landing.files import FileShape, stage
from highwater.pipeline.landing.folder import FolderStaging
from highwater.pipeline.landing.races import until_won
from highwater.pipeline.landing.statistics import delta_statistics
from highwater.pipeline.landing.table import StagedFile

if TYPE_CHECKING:
    from deltalake import DeltaTable as OpenTable

_OPERATION = {"highwater": "compaction"}


def compact(opened: Callable[[], OpenTable], path: str, target: int, is_stopped: Callable[[], bool]) -> int:
    """See `Table`."""
    table = opened()
    check_writable(table)
    check_plain(table)
    gone = 0
    for group in groups(_files(table), target):
        if is_stopped():
            break
        gone += _merged(opened, path, group, target)
    return gone


def _files(table: OpenTable) -> list[SmallFile]:
    """Oldest first."""
    import pyarrow as pa

    actions = pa.table(table.get_add_actions(flatten=True)).sort_by("modification_time").to_pylist()
    return [SmallFile(each["path"], each["size_bytes"]) for each in actions]


def _merged(opened: Callable[[], OpenTable], path: str, group: list[SmallFile], target: int) -> int:
    import pyarrow as pa
    import pyarrow.dataset as ds
    from deltalake.exceptions import CommitFailedError

    table = opened()
    schema = pa.schema(table.schema())
    rows = ds.dataset([f"{path}/{file.location}" for file in group], schema=schema, format="parquet").to_batches()
    staging = FolderStaging(path, ".parquet", required(table.schema()))
    shape = FileShape(max_file_bytes=2 * target)
    written = stage(rows, schema, shape, staging, f"part-compacted-{uuid.uuid4().hex}")
    # Batches that land meanwhile go first.
    return until_won(lambda: _replaced(opened(), group, written), CommitFailedError)


def _replaced(table: OpenTable, group: list[SmallFile], written: list[StagedFile]) -> int:
    """In the next version or not at all: `deltalake` would put the entry on top of another one that has removed the
    same files, and their rows would be there twice."""
    from deltalake import CommitProperties, PostCommitHookProperties
    from deltalake.transaction import AddAction, RemoveAction

    if not {file.location for file in group} <= {file.location for file in _files(table)}:
        return 0  # another writer has removed some of them
    now = int(time.time() * 1000)
    changes: list[AddAction | RemoveAction] = [
        AddAction(Path(file.location).name, file.size, {}, now, False, delta_statistics(file.rows, file.ranges))
        for file in written
    ]
    changes += [RemoveAction(file.location, False, now, file.size, {}) for file in group]
    table.create_write_transaction(
        changes,
        "append",
        table.schema(),
        commit_properties=CommitProperties(custom_metadata=dict(_OPERATION), max_commit_retries=0),
        post_commithook_properties=PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False),
    )
    return len(group)
