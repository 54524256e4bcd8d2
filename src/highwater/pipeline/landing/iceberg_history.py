"""How much of its past an Iceberg table carries along: each batch is a snapshot, and each commit handles them all.

Without a bound a pipeline with a batch every second becomes slower with every one of them. So tables that are created
here come with the rules of Iceberg's own that bound it, and every landing keeps to the rules that it finds. What a
query has landed is no part of this past: it is a property of the table.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table import Table as OpenTable
    from pyiceberg.table.metadata import TableMetadata

_AGE, _KEPT = "history.expire.max-snapshot-age-ms", "history.expire.min-snapshots-to-keep"
RULES = {
    _AGE: str(60 * 1000),
    _KEPT: "100",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
"""The properties of a new table. Users change them to keep a longer history."""
_SHARE = 5
"""A fifth of those that are kept expire together: a table has so many more than it should."""
QUERY_MARK, BATCH_MARK = "highwater.query-id", "highwater.batch-id"
LANDING_MARK, SEQ_MARK = "highwater.landing-id", "highwater.seq"
"""In the summary of a snapshot: what landed with it."""


def at_its_head(metadata: TableMetadata) -> TableMetadata:
    """The metadata without the snapshots that nothing is built upon.

    A transaction copies all of it more than a dozen times; what it sends to the catalog are changes alone.
    """
    heads = _heads(metadata)
    present = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id in heads]
    return metadata.model_copy(update={"snapshots": present, "snapshot_log": []})


def expire(table: OpenTable) -> None:
    """Expires snapshots by the table's rules, if it has any, and only those of landings: others may need theirs.

    Files stay for readers of now; the clean-up removes them when they are old.
    """
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.update import AssertTableUUID, RemoveSnapshotsUpdate

    kept = max(1, int(table.properties.get(_KEPT, 1)))
    due = _due(table.metadata, kept, int(time.time() * 1000))
    # Expiring takes a commit of its own, so it waits until some are due.
    if len(due) >= max(1, kept // _SHARE):
        # Another writer committed first: that writer expires them, or the next batch does.
        with suppress(CommitFailedException):
            # Not by `table.maintenance`: it copies all of the metadata twice for each snapshot that it is to expire.
            is_same = AssertTableUUID(uuid=table.metadata.table_uuid)
            table._do_commit((RemoveSnapshotsUpdate.model_validate({"snapshot-ids": due}),), (is_same,))


def was_restored(metadata: TableMetadata, marks: Mapping[str, str], last: Mapping[str, str]) -> bool:
    """Whether the table was rolled back behind a landing's last snapshot: then the nearest one below the head is
    another.

    If that snapshot has expired, it cannot be found out.
    """
    snapshot = metadata.current_snapshot()
    while snapshot is not None:
        summary = snapshot.summary
        if summary is not None and all(summary[name] == value for name, value in marks.items()):
            return any(summary[name] != value for name, value in last.items())
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else metadata.snapshot_by_id(parent)
    return False


def _due(metadata: TableMetadata, kept: int, now: int) -> list[int]:
    if _AGE not in metadata.properties:
        return []
    limit = now - int(metadata.properties[_AGE])
    oldest_first = sorted(metadata.snapshots, key=lambda snapshot: snapshot.timestamp_ms)
    heads = _heads(metadata)
    return [
        snapshot.snapshot_id
        for snapshot in oldest_first[:-kept]
        if snapshot.timestamp_ms < limit
        and snapshot.snapshot_id not in heads
        and snapshot.summary is not None
        and snapshot.summary[QUERY_MARK] is not None
    ]


def _heads(metadata: TableMetadata) -> set[int]:
    """What branches and tags name."""
    return {reference.snapshot_id for reference in metadata.refs.values()}


def named_files(table: OpenTable) -> set[str]:
    """Locations of all files that the table or a snapshot of it needs: of data, of manifests, of metadata."""
    named = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.snapshots():
        named.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in named:
                named.add(manifest.manifest_path)
                named.update(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io))
    return named
