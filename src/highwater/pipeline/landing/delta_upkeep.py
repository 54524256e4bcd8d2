"""Small files of a Delta table become large ones, by entries that change no row.

`deltalake` can do the same, but does not sync what it writes: after a loss of power the log could name a file that is
not whole, in place of files that were.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from highwater.pipeline.landing.compaction import SmallFile, groups
from highwater.pipeline.landing.delta_actions import added
from highwater.pipeline.landing.delta_limits import check_plain, check_writable, required
from highwater.pipeline.landing.files import FileShape, stage
from highwater.pipeline.landing.partitioning import PartitionField, text_of
from highwater.pipeline.landing.races import until_won
from highwater.pipeline.landing.table import StagedFile, Staging

if TYPE_CHECKING:
    from deltalake import DeltaTable as OpenTable

_Values = tuple[tuple[str, str | None], ...]
_OPERATION = {"highwater": "compaction"}


@dataclass(frozen=True, slots=True)
class DataFolder:
    """Where the files of a table are."""

    prefix: str
    """Before the names of files."""
    filesystem: Any
    """None: this machine's."""
    staging: Callable[[tuple[str, ...]], Staging]
    """By the columns that may not be null."""


def compact(opened: Callable[[], OpenTable], folder: DataFolder, target: int, is_stopped: Callable[[], bool]) -> int:
    """See `Table`."""
    table = opened()
    check_writable(table)
    check_plain(table)
    gone = 0
    for values, files in _by_partition(table).items():
        for group in groups(files, target):
            if is_stopped():
                return gone
            gone += _merged(opened, folder, group, dict(values), target)
    return gone


def constants(table: OpenTable, files: Iterable[str]) -> dict[str, dict[str, str | None]]:
    """By file: the columns that are not in it. Names of files are unique; paths may be written in several ways."""
    if not table.metadata().partition_columns:
        return {}
    by_name = {PurePosixPath(each["path"]).name: dict(_values(each)) for each in _actions(table)}
    return {file: by_name[PurePosixPath(file).name] for file in files}


def _by_partition(table: OpenTable) -> dict[_Values, list[SmallFile]]:
    """Oldest first."""
    found: dict[_Values, list[SmallFile]] = {}
    for each in _actions(table):
        found.setdefault(_values(each), []).append(SmallFile(each["path"], each["size_bytes"]))
    return found


def _actions(table: OpenTable) -> list[dict[str, Any]]:
    import pyarrow as pa

    actions = pa.table(table.get_add_actions()).sort_by("modification_time").to_pylist()
    return list(actions)


def _values(action: Mapping[str, Any]) -> _Values:
    """As the log says them."""
    return tuple(
        (name, text_of(PartitionField(name), value)) for name, value in (action.get("partition") or {}).items()
    )


def _merged(
    opened: Callable[[], OpenTable],
    folder: DataFolder,
    group: list[SmallFile],
    values: dict[str, str | None],
    target: int,
) -> int:
    import pyarrow as pa
    import pyarrow.dataset as ds
    from deltalake.exceptions import CommitFailedError

    table = opened()
    schema = pa.schema([field for field in pa.schema(table.schema()) if field.name not in values])
    files = [f"{folder.prefix}{file.location}" for file in group]
    rows = ds.dataset(files, schema=schema, format="parquet", filesystem=folder.filesystem).to_batches()
    staging = folder.staging(required(table.schema()))
    shape = FileShape(max_file_bytes=2 * target)
    written = stage(rows, schema, shape, staging, f"part-compacted-{uuid.uuid4().hex}")
    # Batches that land meanwhile go first.
    return until_won(lambda: _replaced(opened(), group, values, written), CommitFailedError)


def _replaced(
    table: OpenTable, group: list[SmallFile], values: dict[str, str | None], written: list[StagedFile]
) -> int:
    """In the next version or not at all: `deltalake` would put the entry on top of another one that has removed the
    same files, and their rows would be there twice."""
    from deltalake import CommitProperties, PostCommitHookProperties
    from deltalake.transaction import AddAction, RemoveAction

    if not {file.location for file in group} <= {each["path"] for each in _actions(table)}:
        return 0  # another writer has removed some of them
    now = int(time.time() * 1000)
    changes: list[AddAction | RemoveAction] = [added(file, values, now, is_change=False) for file in written]
    changes += [RemoveAction(file.location, False, now, file.size, values) for file in group]
    table.create_write_transaction(
        changes,
        "append",
        table.schema(),
        table.metadata().partition_columns,
        commit_properties=CommitProperties(custom_metadata=dict(_OPERATION), max_commit_retries=0),
        post_commithook_properties=PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False),
    )
    return len(group)
