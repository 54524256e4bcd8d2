"""Cuts off the tail of a log, when a follower has diverged from its leader. The high watermark never decides where."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from pathlib import PurePath
from typing import NamedTuple

from highwater.log import names, producer_snapshot
from highwater.log.checkpoint import read_file
from highwater.log.durability import synced
from highwater.log.log import Log
from highwater.log.peek import blocking
from highwater.log.producer_snapshot import BadSnapshot
from highwater.log.producer_state import ProducerState
from highwater.log.scan import BadBatch, follow_producer, scan
from highwater.log.segment import Segment, SegmentCut
from highwater.model import Offset
from highwater.world import Disk, Place, Step, World, is_passing
from highwater.world.jobs import finished, is_exhausted, patiently


class Workplaces(NamedTuple):
    """Where the jobs of a truncation run."""

    files: Place
    syncs: Place


Announcement = Callable[[Offset], Awaitable[None]]
"""Called with the new log end before anything is changed. Raises OSError if the checkpoints cannot be written."""
StillMeant = Callable[[], bool]
"""Whether the truncation is still wanted: it may wait long for a full disk. Once it returns false, it stays false."""


def always_meant() -> bool:
    return True


async def _not_announced(_: Offset) -> None:
    pass


PASSING_SECONDS = 1.0
DATA = Workplaces("thread", "sync")
QUORUM = Workplaces("quorum", "quorum")


class Cut(NamedTuple):
    """Where to cut: the last segment that stays, what stays of it, and the producers up to there."""

    keep: int
    segment: SegmentCut
    log_end: Offset
    producers: ProducerState


async def truncate(
    world: World,
    log: Log,
    offset: Offset,
    places: Workplaces = DATA,
    still_meant: StillMeant = always_meant,
    announce: Announcement = _not_announced,
) -> bool:
    """Keeps only batches that end below `offset`; the log then ends with the last of them. The caller makes sure that
    nothing is appended meanwhile. After `announce`, no recovery point may lie beyond the new end. A power cut may undo
    some of the cuts and renames. Recovery would take what comes back for synced data, with holes.

    The cut is durable on return. Otherwise a power cut could bring an old batch back in the place of the batch that is
    appended next. That old batch would be whole, and its checksum does not cover the epoch that distinguishes the two.

    False if the log was deleted meanwhile or has failed: then it is offline, or known to be damaged. Also False if the
    truncation is no longer wanted: there may be another leader by the time the position is found.
    """
    if offset < log.log_start:
        raise ValueError(f"{log.partition}: truncation to {offset}, below the log start {log.log_start}")
    if offset >= log.log_end:
        log.forget_epochs_from(offset)
        return True
    try:
        cut = await _found(world, log, offset, places, announce)
        if cut is None or not still_meant():
            return False
        if cut.log_end < log.log_start:  # nothing that counts is left
            return await restart(world, log, log.log_start, None, places, still_meant, announce)
        gone = log.replace_tail(cut.keep + 1, cut.log_end, cut.producers)
        log.active.cut(cut.segment)
        log.reads.forget_beyond(cut.segment.position)
        await finished(world, remove_files, gone, where=places.files)
        await synced(world, [log.active.file], log.directory, where=places.syncs)
    except BadBatch as bad:
        log.found_damaged(bad)
        return False
    except OSError as failed:
        log.storage_failed(failed)
        return False
    return log.is_usable


async def restart(
    world: World,
    log: Log,
    offset: Offset,
    batches: memoryview | None = None,
    places: Workplaces = DATA,
    still_meant: StillMeant = always_meant,
    announce: Announcement = _not_announced,
) -> bool:
    """Deletes everything. The log begins anew at `offset`: empty, or with `batches`. These may begin below the log
    start, which then stays where it was. Everything is durable on return. False if the log was deleted meanwhile, or
    has failed and is offline, or if this is no longer wanted: then the log is unchanged."""
    try:
        await announce(0)
        gone = await _begun_anew(log, offset, batches, still_meant)
        if gone is None:
            return False
        snapshots = await finished(world, _all_snapshots, log.directory, where=places.files)
        await finished(world, remove_files, [*gone, *snapshots], where=places.files)
        await synced(world, [log.active.file], log.directory, where=places.syncs)
        log.durability.start_kept(log.segments[0].base_offset)
    except OSError as failed:
        log.storage_failed(failed)
        return False
    return log.is_usable


async def _begun_anew(
    log: Log, offset: Offset, batches: memoryview | None, still_meant: StillMeant
) -> list[PurePath] | None:
    """Tries again while disk space or descriptors are short: the log is unchanged until there is a new segment. None if
    the log failed meanwhile, or if this is no longer wanted. Compaction goes on meanwhile, so each attempt waits for a
    segment swap first."""
    while True:
        await _settled(log)
        if not (log.is_usable and still_meant()):
            return None
        try:
            return log.begin_anew(offset, batches)
        except OSError as failed:
            if not is_passing(failed) or not log.segments:
                raise
            await asyncio.sleep(PASSING_SECONDS)


async def _found(world: World, log: Log, offset: Offset, places: Workplaces, announce: Announcement) -> Cut | None:
    """Finds the position of the cut. Retention and compaction go on meanwhile: if they changed the segments, the
    position is looked up again, and errors in deleted files are no damage. None if the log can no longer be cut."""
    while True:
        await _settled(log)
        if not log.is_usable:
            return None
        layout, at = log.reads.layout, log.segment_of(offset)
        found: Cut | Exception
        wanted = (list(log.segments), at, offset, log.log_start, log.config.compact or log.clean_end is not None)
        try:
            found = await patiently(partial(finished, world, find_cut, *wanted, where=places.files), is_exhausted)
        except (BadBatch, OSError) as failed:
            found = failed
        if layout == log.reads.layout and log.swapping is None and log.is_usable:
            if isinstance(found, Exception):
                raise found
            await announce(found.log_end)
            if layout == log.reads.layout and log.swapping is None:
                return found


async def _settled(log: Log) -> None:
    """Waits for a segment swap and for producer snapshots that are under way: they would bring back what is cut."""
    while log.swapping is not None:
        await log.swapping
    await _snapshots_written(log)


async def _snapshots_written(log: Log) -> None:
    """Waits for a snapshot that is still being written: it could appear above the cut later."""
    idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    log.snapshots.when_idle(lambda: None if idle.done() else idle.set_result(None))
    await idle


def _all_snapshots(disk: Disk, directory: PurePath) -> Generator[Step, None, list[PurePath]]:
    yield Step()
    return [directory / name for name in disk.list(directory) if name.endswith(names.SNAPSHOT)]


def find_cut(
    disk: Disk, segments: list[Segment], at: int, offset: Offset, log_start: Offset, compacted: bool
) -> Generator[Step, None, Cut]:
    """A job: finds the position of the cut, and rebuilds the producers up to there. The log ends with the last batch in
    its file. In a compacted log, or if the log start lies inside a batch, that end may be below `offset` and even below
    the log start. In any other log it raises BadBatch: the records in the gap would never be fetched again."""
    found = segments[at].locate(offset, blocking)
    if found is None:
        position, log_end = segments[at].size, offset
    else:
        position, log_end = found.position, max(min(offset, found.base_offset), log_start)
    plan = segments[at].plan_cut(position, log_end)
    if plan.end < log_end:
        if log_end > log_start and not compacted:
            # Only compaction leaves gaps. A batch has a wrong offset here, which no checksum covers.
            raise BadBatch(segments[at].file.path, position, f"{plan.end} to {log_end - 1} are missing before it")
        # The leader may still have records that compaction removed here: the records that replaced them are cut now.
        # And after a crash a segment that begins after a gap looks as if the end of the segment before it were lost.
        log_end = plan.end
    yield Step()
    producers, start = _latest_snapshot(disk, segments[0], log_end)
    yield Step()
    for segment in segments[: at + 1]:
        first = segment.locate(start, blocking)
        if first is None:
            continue
        for batch in scan(segment.file, first.position, 0, check=False):
            if batch.header.base_offset >= log_end:
                break
            if batch.header.base_offset >= start:
                follow_producer(batch.header, batch.data, producers)
        yield Step()
    return Cut(at, plan, log_end, producers)


def _latest_snapshot(disk: Disk, first: Segment, log_end: Offset) -> tuple[ProducerState, Offset]:
    """The producers of the latest snapshot that is not beyond the cut. Snapshots beyond it are deleted: they are wrong
    now."""
    producers, start = ProducerState(), first.base_offset
    for name in reversed(disk.list(first.directory)):
        if not name.endswith(names.SNAPSHOT):
            continue
        offset = names.base_offset_of(name)
        if offset > log_end:
            disk.unlink(first.directory / name)
        elif offset >= first.base_offset:
            try:
                producers.restore_all(producer_snapshot.decode(read_file(disk, first.directory / name) or b""))
            except BadSnapshot:
                disk.unlink(first.directory / name)
                continue
            start = offset
            break
    disk.sync_dir(first.directory)
    return producers, start


def remove_files(disk: Disk, paths: list[PurePath]) -> Generator[Step, None, None]:
    """A job, because deleting a large file takes a while."""
    for path in paths:
        if disk.stat(path) is not None:
            disk.unlink(path)
        yield Step()
