"""Jobs that find a batch or record by offset or timestamp. They read the indexes and whole batches."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

from highwater.log.index import NO_TIMESTAMP, TimestampOffset
from highwater.log.peek import blocking
from highwater.log.places import Place
from highwater.log.scan import scan
from highwater.log.segment import Segment
from highwater.model import Epoch, Offset
from highwater.wire import records
from highwater.world import Disk, Step

_BATCHES_PER_STEP = 100


class Found(NamedTuple):
    offset: Offset
    timestamp: int
    leader_epoch: Epoch


def locate(disk: Disk, segments: Sequence[Segment], offset: Offset) -> Generator[Step, None, Place | None]:
    """The batch that contains `offset`, or the first one after it."""
    for segment in segments:
        yield Step()
        found = segment.locate(offset, blocking)
        if found is not None:
            return Place(segment.base_offset, found.position, found.size)
    return None


def first_at_or_after(
    disk: Disk, segments: Sequence[Segment], timestamp: int, start: Offset
) -> Generator[Step, None, Found | None]:
    """The first record at or beyond `start` with a timestamp at or after `timestamp`."""
    for segment in segments:
        if segment.largest.timestamp < timestamp:
            continue
        begin = max(segment.time_index.floor(timestamp, blocking), start)
        batch = segment.locate(begin, blocking)
        if batch is None:
            continue
        for scanned in scan(segment.file, batch.position, 0):
            if scanned.header.max_timestamp >= timestamp and scanned.header.last_offset >= start:
                found = records.find_timestamp(scanned.data, timestamp, start)
                if found is not None:
                    return Found(found[0], found[1], scanned.header.leader_epoch)
                yield Step()  # the batch may have been decompressed for nothing, and so may the next
        yield Step()
    return None


def with_largest_timestamp(
    disk: Disk, segments: Sequence[Segment], start: Offset
) -> Generator[Step, None, Found | None]:
    """The first record at or beyond `start` with the largest timestamp (ListOffsets -3)."""
    best, holder = NO_TIMESTAMP, None
    for segment in segments:
        largest = segment.largest if segment.base_offset >= start else (yield from _largest_from(segment, start))
        if largest.timestamp > best.timestamp:
            best, holder = largest, segment
        yield Step()
    if holder is None:
        return None
    batch = holder.locate(best.offset, blocking)
    if batch is None:
        return None
    scanned = next(scan(holder.file, batch.position, 0))
    found = records.find_timestamp(scanned.data, best.timestamp, start)
    return None if found is None else Found(found[0], found[1], scanned.header.leader_epoch)


def _largest_from(segment: Segment, start: Offset) -> Generator[Step, None, TimestampOffset]:
    """The largest timestamp from `start` on. That of the whole segment may belong to a deleted record."""
    largest = NO_TIMESTAMP
    first = segment.locate(start, blocking)
    if first is not None:
        for count, batch in enumerate(scan(segment.file, first.position, 0)):
            if count % _BATCHES_PER_STEP == _BATCHES_PER_STEP - 1:
                yield Step()
            timestamp = batch.header.max_timestamp
            if batch.header.base_offset < start:
                left = records.max_timestamp_offset(batch.data, start)
                timestamp = NO_TIMESTAMP.timestamp if left is None else left[1]  # compaction may have left none
            if timestamp > largest.timestamp:
                largest = TimestampOffset(timestamp, batch.header.last_offset)
    return largest
