"""Cutting a log's tail off, as a follower does that has diverged from its leader. Never by high watermark."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import PurePath
from typing import NamedTuple

from highwater.errors import Code, KafkaError
from highwater.log import names, producer_snapshot
from highwater.log.checkpoint import read_file
from highwater.log.log import Log
from highwater.log.peek import blocking
from highwater.log.producer_snapshot import BadSnapshot
from highwater.log.producer_state import ProducerState
from highwater.log.scan import replay, scan
from highwater.log.segment import Segment, SegmentCut
from highwater.model import Offset
from highwater.world import Disk, Step, World
from highwater.world.jobs import finished


class Cut(NamedTuple):
    """Where to cut: the segment that stays last, what of it stays, and the producers below."""

    keep: int
    segment: SegmentCut
    log_end: Offset
    producers: ProducerState


async def truncate_to(world: World, log: Log, offset: Offset) -> bool:
    """Keep only batches that end below `offset`; True if any went. The caller keeps all others from appending.

    Whoever calls it has the recovery points written before it appends again: one beyond the end would make damage of
    what a power cut takes.
    """
    if offset < log.log_start:
        raise ValueError(f"{log.partition}: truncation to {offset}, below the log start {log.log_start}")
    if offset >= log.log_end:
        log.forget_epochs_from(offset)
        return False
    await _swap_ended(log)
    await _snapshots_written(log)
    try:
        cut = await finished(world, find_cut, list(log.segments), log.segment_of(offset), offset, log.log_start)
        gone = log.replace_tail(cut.keep + 1, cut.log_end, cut.producers)
        log.active.cut(cut.segment)
        await finished(world, remove_files, gone)
    except OSError as failed:
        log.storage_failed(failed)
        raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(failed)) from failed
    return True


async def restart_at(world: World, log: Log, offset: Offset) -> None:
    """Drop everything; the log begins anew, empty, at `offset` (the leader's log start lies beyond our end)."""
    await _swap_ended(log)
    await _snapshots_written(log)
    try:
        gone = log.begin_anew(offset)
        await finished(world, remove_files, [*gone, *await finished(world, _all_snapshots, log.directory)])
    except OSError as failed:
        log.storage_failed(failed)
        raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(failed)) from failed


async def _swap_ended(log: Log) -> None:
    """A compacted segment that is on its way would bring back what is cut."""
    while log.swapping is not None:
        await log.swapping


async def _snapshots_written(log: Log) -> None:
    """One still under way could appear behind our back, above the cut."""
    idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    log.snapshots.when_idle(lambda: None if idle.done() else idle.set_result(None))
    await idle


def _all_snapshots(disk: Disk, directory: PurePath) -> Generator[Step, None, list[PurePath]]:
    yield Step()
    return [directory / name for name in disk.list(directory) if name.endswith(names.SNAPSHOT)]


def find_cut(
    disk: Disk, segments: list[Segment], at: int, offset: Offset, log_start: Offset
) -> Generator[Step, None, Cut]:
    """A job: the place of the cut, and the producers' state rebuilt up to there."""
    found = segments[at].locate(offset, blocking)
    if found is None:
        position, log_end = segments[at].size, offset
    else:
        position, log_end = found.position, max(min(offset, found.base_offset), log_start)
    plan = segments[at].plan_cut(position, log_end)
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
                replay(batch, producers, None)
        yield Step()
    return Cut(at, plan, log_end, producers)


def _latest_snapshot(disk: Disk, first: Segment, log_end: Offset) -> tuple[ProducerState, Offset]:
    """The producers at an offset not beyond the cut; the snapshots beyond it, which would lie, go for good."""
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
    """A job: unlinking a large file takes its time."""
    for path in paths:
        if disk.stat(path) is not None:
            disk.unlink(path)
        yield Step()
