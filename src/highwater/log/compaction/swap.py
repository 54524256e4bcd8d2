"""Replaces segments by the rewritten one. A crash at any step leaves the old segments or the new one.

A `.cleaned` file is worthless after a crash. A `.swap` file is whole and durable, and from then on it wins over the
segments that it replaces. Those are renamed durably before it gets its final name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from pathlib import PurePath

from highwater.log import names
from highwater.log.compaction.rewrite import Rewritten
from highwater.log.durability import synced
from highwater.log.log import Log
from highwater.log.segment import Segment
from highwater.model import Offset
from highwater.world import Disk, Step, World
from highwater.world.jobs import finished


async def swap_in(world: World, log: Log, rewritten: Rewritten) -> list[PurePath] | None:
    """Returns the renamed files of the old segments, which the caller deletes; None if the log has changed meanwhile.

    Raises OSError if a step failed; the next start then finishes or undoes the swap. If there is no descriptor to sync
    the directory with, it tries again until there is one.
    """
    log.swapping = asyncio.get_running_loop().create_future()
    try:
        return await _swap_in(world, log, rewritten)
    finally:
        log.swapping.set_result(None)
        log.swapping = None


async def _swap_in(world: World, log: Log, rewritten: Rewritten) -> list[PurePath] | None:
    directory, facts = log.directory, rewritten.facts
    await finished(world, _promote, directory, facts.base_offset)
    await synced(world, [], directory)
    new = Segment(
        world.disk, directory, facts.base_offset, _created_ms(log, rewritten), aborted=facts.aborted, suffix=names.SWAP
    )
    new.largest, new.first_timestamp = facts.largest, facts.first_timestamp
    new.time_index.last, new.bytes_since_index = facts.time_index_last, facts.bytes_since_index
    gone = _take_place(log, rewritten.replaced, new)
    if gone is None:
        await finished(world, _discard, directory, facts.base_offset)
        await synced(world, [], directory)
        return None
    await synced(world, [], directory)
    if new in log.segments:  # else retention has removed it already
        new.rename("", names.SEGMENT_KINDS)
        await synced(world, [], directory)  # otherwise the next start may have to rename it again
    return gone


def _take_place(log: Log, bases: Sequence[Offset], new: Segment) -> list[PurePath] | None:
    """Puts the new segment in place, and renames the old ones. Slices of the old files stay valid."""
    at = log.segment_of(bases[0])
    old = log.segments[at : at + len(bases)]
    if [segment.base_offset for segment in old] != list(bases) or log.active in old or log.offline is not None:
        return None
    log.put_segment(new, at, len(old))
    gone: list[PurePath] = []
    for segment in old:
        # The producer snapshot at the base of the first old segment is also the one of the new segment, so it stays.
        kinds = names.SEGMENT_KINDS if segment.base_offset == new.base_offset else names.SEGMENT_FILES
        gone += segment.rename(names.DELETED, kinds)
    return gone


def _created_ms(log: Log, rewritten: Rewritten) -> int:
    """The new segment is as old as the youngest of the old ones: this is the age of records without a timestamp."""
    return max((s.created_ms for s in log.segments if s.base_offset in rewritten.replaced), default=0)


def _promote(disk: Disk, directory: PurePath, base: Offset) -> Generator[Step, None, None]:
    for kind in reversed(names.SEGMENT_KINDS):
        path = names.segment_file(directory, base, kind + names.CLEANED)
        if disk.stat(path) is not None:
            disk.rename(path, names.segment_file(directory, base, kind + names.SWAP))
        yield Step()


def _discard(disk: Disk, directory: PurePath, base: Offset) -> Generator[Step, None, None]:
    for kind in names.SEGMENT_KINDS:
        path = names.segment_file(directory, base, kind + names.SWAP)
        if disk.stat(path) is not None:
            disk.unlink(path)
        yield Step()
