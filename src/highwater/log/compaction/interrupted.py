"""Undoes or finishes an interrupted compaction when the log is opened."""

from __future__ import annotations

from pathlib import PurePath

from highwater.log import names
from highwater.log.scan import BadBatch, scan
from highwater.world import Disk


def finish_swaps(disk: Disk, directory: PurePath) -> list[str]:
    """For jobs. Returns what was done, for the operator.

    A `.swap` file is not whole if there is a `.cleaned` file with the same or a smaller base offset (Kafka's rule).
    """
    done: list[str] = []
    present = disk.list(directory)
    cleaned = [name for name in present if name.endswith(names.CLEANED)]
    undone = min((names.base_offset_of(name) for name in cleaned), default=None)
    for name in [*cleaned, *(name for name in present if name.endswith(names.SWAP))]:
        if name.endswith(names.CLEANED) or (undone is not None and names.base_offset_of(name) >= undone):
            disk.unlink(directory / name)
            done.append(f"removed {name}, which an interrupted compaction left")
    swaps = [name for name in disk.list(directory) if name.endswith(names.SWAP)]
    if not swaps:
        if done:
            disk.sync_dir(directory)
        return done
    for name in swaps:
        if name.endswith(names.LOG + names.SWAP):
            _remove_replaced(disk, directory, name)
    disk.sync_dir(directory)
    # The log file is renamed last: while it has its suffix, the swap is known to be unfinished.
    for name in sorted(swaps, key=lambda each: each.endswith(names.LOG + names.SWAP)):
        disk.rename(directory / name, directory / name[: -len(names.SWAP)])
        done.append(f"finished an interrupted compaction: {name[: -len(names.SWAP)]}")
    disk.sync_dir(directory)
    return done


def _remove_replaced(disk: Disk, directory: PurePath, swap: str) -> None:
    """Removes segments that begin within the compacted one. The producer snapshot at its base offset stays."""
    base = end = names.base_offset_of(swap)
    file = disk.open(directory / swap)
    try:
        for batch in scan(file, 0, base, check=False):
            end = batch.header.next_offset
    except BadBatch as bad:
        raise OSError(f"{swap} was synced before it got its name, and is damaged: {bad}") from bad
    finally:
        file.close()
    for name in disk.list(directory):
        stem, _, kind = name.partition(".")
        replaced = f".{kind}" in names.SEGMENT_KINDS and (int(stem) == base or base <= int(stem) < end)
        if replaced:
            disk.unlink(directory / name)
