"""Cutting a log's tail off, as a follower does that has diverged from its leader. Never by high watermark."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import PurePath
from typing import NamedTuple

from highwater.log import names, producer_snapshot
from highwater.log.checkpoint import read_file
from highwater.log.durability import sync_with_directory
from highwater.log.log import Log
from highwater.log.peek import blocking
from highwater.log.producer_snapshot import BadSnapshot
from highwater.log.producer_state import ProducerState
from highwater.log.scan import replay, scan
from highwater.log.segment import Segment
from highwater.model import Offset
from highwater.world import Disk, Step, World
from highwater.world.jobs import finished


class Cut(NamedTuple):
    """Where to cut: the segment that stays last, the position in it, and the producers below."""

    keep: int
    position: int
    log_end: Offset
    producers: ProducerState


async def truncate_to(world: World, log: Log, offset: Offset) -> bool:
    """Keep only batches that end below `offset`; True if any went. The caller keeps all others from appending."""
    if offset < log.log_start:
        raise ValueError(f"{log.partition}: truncation to {offset}, below the log start {log.log_start}")
    if offset >= log.log_end:
        log.replace_tail(log.segments, log.log_end, log.producers)
        return False
    cut = await finished(world, find_cut, list(log.segments), log.segment_of(offset), offset, log.log_start)
    kept = log.segments[: cut.keep + 1]
    gone = [path for segment in log.segments[cut.keep + 1 :] for path in segment.rename(names.DELETED)]
    kept[-1].truncate(cut.position, cut.log_end, blocking)
    log.replace_tail(kept, cut.log_end, cut.producers)
    await finished(world, remove_files, gone)
    return True


async def restart_at(world: World, log: Log, offset: Offset) -> None:
    """Drop everything; the log begins anew, empty, at `offset` (the leader's log start lies beyond our end)."""
    gone = [path for segment in log.segments for path in segment.rename(names.DELETED)]
    fresh = Segment(world.disk, log.directory, offset, world.clock.wall_ms(), create=True)
    log.epoch_cache.clear()
    log.replace_tail([fresh], offset, ProducerState())
    log.log_start = log.high_watermark = offset
    await finished(world, sync_with_directory, fresh.files, log.directory)
    log.durability.settled(offset)
    await finished(world, remove_files, gone)


def find_cut(
    disk: Disk, segments: list[Segment], at: int, offset: Offset, log_start: Offset
) -> Generator[Step, None, Cut]:
    """A job: the place of the cut, and the producers' state rebuilt up to there."""
    found = segments[at].locate(offset, blocking)
    if found is None:
        position, log_end = segments[at].size, offset
    else:
        position, log_end = found.position, min(offset, found.base_offset)
    producers, start = _latest_snapshot(disk, segments[0], log_end, log_start)
    yield Step()
    for segment in segments[: at + 1]:
        first = segment.locate(start, blocking)
        if first is None:
            continue
        for batch in scan(segment.file, first.position, 0, check=False):
            if batch.header.base_offset >= log_end:
                break
            if batch.header.base_offset >= start:
                replay(batch, producers, None)
        yield Step()
    return Cut(at, position, log_end, producers)


def _latest_snapshot(disk: Disk, first: Segment, log_end: Offset, log_start: Offset) -> tuple[ProducerState, Offset]:
    producers = ProducerState()
    snapshots = [name for name in disk.list(first.directory) if name.endswith(names.SNAPSHOT)]
    for name in sorted(snapshots, reverse=True):
        offset = names.base_offset_of(name)
        if offset > log_end:
            disk.unlink(first.directory / name)
        elif offset >= log_start:
            try:
                producers.restore_all(producer_snapshot.decode(read_file(disk, first.directory / name) or b""))
            except BadSnapshot:
                disk.unlink(first.directory / name)
                continue
            return producers, offset
    return producers, log_start


def remove_files(disk: Disk, paths: list[PurePath]) -> Generator[Step, None, None]:
    """A job: unlinking a large file takes its time."""
    for path in paths:
        if disk.stat(path) is not None:
            disk.unlink(path)
        yield Step()
