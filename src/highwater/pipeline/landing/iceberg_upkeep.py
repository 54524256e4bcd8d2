"""Small files of an Iceberg table become large ones, by snapshots that change no row."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from highwater.pipeline.landing.compaction import SmallFile, groups
from highwater.pipeline.landing.files import FileShape, stage
from highwater.pipeline.landing.iceberg_files import described
from highwater.pipeline.landing.iceberg_history import QUERY_MARK
from highwater.pipeline.landing.partitioning import Values
from highwater.pipeline.landing.races import until_won
from highwater.pipeline.landing.rule import LandingError
from highwater.pipeline.landing.table import Staging

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask
    from pyiceberg.table import Table as OpenTable

_MARKS = {QUERY_MARK: "compaction"}
"""So that its snapshots expire as those of batches do."""


def compact(opened: Callable[[], OpenTable], staging: Staging, target: int, is_stopped: Callable[[], bool]) -> int:
    """See `Table`. `opened` gives the table for one transaction, which is tried once."""
    tasks = sorted(opened().scan().plan_files(), key=lambda task: str(task.file.file_path))
    if any(task.delete_files for task in tasks):
        raise LandingError("the table has files that delete rows of others: let its own engine rewrite them")
    files = {task.file.file_path: task.file for task in tasks}
    gone = 0
    for partition in _by_partition(opened(), files.values()).values():
        for group in groups(partition, target):
            if is_stopped():
                return gone
            gone += _merged(opened, staging, [files[file.location] for file in group], target)
    return gone


def _by_partition(table: OpenTable, files: Iterable[DataFile]) -> dict[Values, list[SmallFile]]:
    """Files of an earlier way to partition the table stay as they are."""
    found: dict[Values, list[SmallFile]] = {}
    for file in files:
        if file.spec_id == table.metadata.default_spec_id:
            found.setdefault(_values(file), []).append(SmallFile(file.file_path, file.file_size_in_bytes))
    return found


def _values(file: DataFile) -> Values:
    return tuple(file.partition[number] for number in range(len(file.partition)))


def _merged(opened: Callable[[], OpenTable], staging: Staging, group: list[DataFile], target: int) -> int:
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow

    table = opened()
    if (tasks := _present(table, group)) is None:
        return 0
    scan = table.scan()
    rows = ArrowScan(table.metadata, table.io, scan.projection(), scan.row_filter).to_record_batches(tasks)
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    shape = FileShape(max_file_bytes=2 * target)
    written = stage(rows, schema, shape, staging, f"part-compacted-{uuid.uuid4().hex}")
    data = table.location_provider().data_path
    files = [(f"{data}/{file.location.rpartition('/')[2]}", _values(group[0])) for file in written]

    def attempt() -> int:
        now = opened()
        if _present(now, group) is None:
            return 0
        with now.transaction() as change, change.update_snapshot(_MARKS).overwrite() as rewrite:
            for file in group:
                rewrite.delete_data_file(file)
            for added in described(now, files):
                rewrite.append_data_file(added)
        return len(group)

    # Batches that land meanwhile go first.
    return until_won(attempt, CommitFailedException)


def _present(table: OpenTable, group: list[DataFile]) -> list[FileScanTask] | None:
    """How to read the files; None where another writer has removed one of them, or rows of one."""
    present = {task.file.file_path: task for task in table.scan().plan_files() if not task.delete_files}
    tasks = [present[file.file_path] for file in group if file.file_path in present]
    return tasks if len(tasks) == len(group) else None
