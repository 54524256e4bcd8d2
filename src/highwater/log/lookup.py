"""Finding a place by offset or by time. Jobs: they read the indexes and whole batches."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

from highwater.log.peek import blocking
from highwater.log.scan import scan
from highwater.log.segment import BatchAt, Segment
from highwater.model import Epoch, Offset
from highwater.wire import records
from highwater.world import Disk, Step


class Found(NamedTuple):
    offset: Offset
    timestamp: int
    leader_epoch: Epoch


def locate(disk: Disk, segment: Segment, offset: Offset) -> Generator[Step, None, BatchAt | None]:
    yield Step()
    return segment.locate(offset, blocking)


def first_at_or_after(
    disk: Disk, segments: Sequence[Segment], timestamp: int, start: Offset
) -> Generator[Step, None, Found | None]:
    """The first record at or beyond `start` whose timestamp is at or after `timestamp`."""
    for segment in segments:
        if segment.largest.timestamp < timestamp:
            continue
        begin = max(segment.time_index.floor(timestamp, blocking), start)
        batch = segment.locate(begin, blocking)
        if batch is None:
            continue
        for scanned in scan(segment.file, batch.position, 0, check=False):
            if scanned.header.max_timestamp >= timestamp and scanned.header.last_offset >= start:
                found = records.find_timestamp(scanned.data, timestamp, start)
                if found is not None:
                    return Found(found[0], found[1], scanned.header.leader_epoch)
        yield Step()
    return None


def with_largest_timestamp(
    disk: Disk, segments: Sequence[Segment], start: Offset
) -> Generator[Step, None, Found | None]:
    """The first record that carries the largest timestamp of the log (ListOffsets -3)."""
    if not segments:
        return None
    segment = max(segments, key=lambda each: each.largest.timestamp)
    if segment.largest.timestamp < 0:
        return None
    batch = segment.locate(segment.largest.offset, blocking)
    if batch is None:
        return None
    scanned = next(scan(segment.file, batch.position, 0, check=False))
    yield Step()
    found = records.max_timestamp_offset(scanned.data)
    return None if found is None else Found(found[0], found[1], scanned.header.leader_epoch)
