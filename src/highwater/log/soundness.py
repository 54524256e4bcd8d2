"""Checks whether the indexes of a segment are right. For jobs: it reads a limited number of entries and batches."""

from __future__ import annotations

from highwater.log.index import NO_TIMESTAMP
from highwater.log.peek import blocking
from highwater.log.scan import BadBatch, scan
from highwater.log.segment import Segment
from highwater.wire import records
from highwater.wire.records import HEADER_SIZE

SAMPLES = 64
READ_WHOLE = 4 << 20
"""If at most this many bytes follow the last time entry, every batch there is checked; otherwise only samples."""


def indexes_hold(segment: Segment, interval: int) -> bool:
    """Whether entries rise, match the batches that they point at, and none is missing at the end."""
    try:
        return entries_hold(segment) and _tail_is_indexed(segment, interval)
    except BadBatch:
        return False


def entries_hold(segment: Segment) -> bool:
    """Whether the entries that are there rise and match the batches. If not, the log file may have become shorter. A
    missing entry is no sign of that: the index interval may have been larger, and Kafka's cleaner adds one entry for
    each write, however large the write is."""
    try:
        return _offsets_hold(segment) and _times_hold(segment)
    except BadBatch:
        return False


def _offsets_hold(segment: Segment) -> bool:
    index = segment.offset_index
    if index.file.size % 8:
        return False
    previous = (segment.base_offset - 1, -1)
    for at in _sample(index.entries):
        offset, position = index.entry(at, blocking)
        if offset <= previous[0] or position <= previous[1] or position >= segment.size:
            return False
        found = segment.scan_for(segment.base_offset, position, blocking)
        if found is None or found.position != position or found.last_offset != offset:
            return False
        previous = (offset, position)
    return True


def _times_hold(segment: Segment) -> bool:
    index = segment.time_index
    if index.file.size % 12:
        return False
    last, position = NO_TIMESTAMP, 0
    for at in _sample(index.entries):
        entry = index.entry(at, blocking)
        if entry.timestamp <= last.timestamp or entry.offset < segment.base_offset:
            return False
        batch = segment.locate(entry.offset, blocking)
        if batch is None or batch.last_offset != entry.offset:
            return False
        if max_timestamp_at(segment, batch.position) != entry.timestamp:
            return False
        last, position = entry, batch.position
    return all(timestamp <= last.timestamp for timestamp in _timestamps_from(segment, position))


def _timestamps_from(segment: Segment, position: int) -> list[int]:
    """The timestamps of all batches from `position` on, or of samples if there are many."""
    if segment.size - position <= READ_WHOLE:
        return [batch.header.max_timestamp for batch in scan(segment.file, position, 0, check=False)]
    index = segment.offset_index
    places = [index.entry(at, blocking)[1] for at in _sample(index.entries)]
    return [max_timestamp_at(segment, place) for place in places if place > position]


def max_timestamp_at(segment: Segment, position: int) -> int:
    header = segment.file.read(position, HEADER_SIZE)
    if len(header) < HEADER_SIZE:
        raise BadBatch(segment.file.path, position, "no whole header", cut_off=True)
    return records.read_header(header).max_timestamp


def _tail_is_indexed(segment: Segment, interval: int) -> bool:
    """Whether no batch after the last entry should have had an entry."""
    entries = segment.offset_index.entries
    start = segment.offset_index.entry(entries - 1, blocking)[1] if entries else 0
    since = 0
    for batch in scan(segment.file, start, 0, check=False):
        if since > interval:
            return False
        since += batch.header.size
    return True


def _sample(entries: int) -> list[int]:
    """All entries if there are few; otherwise evenly spaced ones and the last one."""
    if entries <= SAMPLES:
        return list(range(entries))
    return [*range(0, entries - 1, entries // SAMPLES), entries - 1]
