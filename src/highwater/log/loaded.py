"""What is asked of the loading of a log, and what it finds, as plain values: they cross to worker processes."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from pathlib import PurePath

from highwater.log.index import TimestampOffset
from highwater.log.mark import Mark
from highwater.log.producer_state import AbortedTransaction, Producer
from highwater.log.segment import Segment
from highwater.model import Epoch, Offset, Uuid
from highwater.world import Disk


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What is known of a log before it is opened."""

    directory: PurePath
    recovery_point: Offset
    log_start: Offset
    clean: bool
    index_interval: int
    clean_end: Offset = 0
    """Below it the cleaner may have left gaps."""


@dataclass(frozen=True, slots=True)
class LoadedSegment:
    base_offset: Offset
    created_ms: int
    largest: TimestampOffset
    time_index_last: TimestampOffset
    first_timestamp: int | None
    bytes_since_index: int
    aborted: tuple[AbortedTransaction, ...] = ()

    @classmethod
    def of(cls, segment: Segment) -> LoadedSegment:
        return cls(
            segment.base_offset,
            segment.created_ms,
            segment.largest,
            segment.time_index.last,
            segment.first_timestamp,
            segment.bytes_since_index,
            tuple(segment.aborted.entries),
        )

    def opened(self, disk: Disk, directory: PurePath) -> Segment:
        segment = Segment(disk, directory, self.base_offset, self.created_ms, aborted=self.aborted)
        segment.largest = self.largest
        segment.time_index.last = self.time_index_last
        segment.first_timestamp = self.first_timestamp
        segment.bytes_since_index = self.bytes_since_index
        return segment


@dataclass(slots=True)
class LoadedLog:
    """Everything that a Log needs to begin, as plain values: they may come from a worker process."""

    directory: PurePath
    segments: list[LoadedSegment]
    log_start: Offset
    log_end: Offset
    durable_end: Offset
    epochs: list[tuple[Epoch, Offset]]
    producers: list[tuple[int, Producer]]
    topic_id: Uuid | None
    gap: str | None = None
    """What is missing between two segments, above the compacted part."""
    lost: str | None = None
    """What is missing between two segments, where another one began: its index is there."""
    orphans: tuple[Offset, ...] = ()
    """The base offsets of segments that were missing and had left their indexes."""
    mark: Mark | None = None
    """What an earlier start found wrong with the log."""
    repairs: list[str] = field(default_factory=list)
    """For the operator: what was cut, dropped or rebuilt."""


class CorruptLog(OSError):
    """Bytes that were synced are damaged. They must not be cut, so the log stays offline."""


class Incomplete(OSError):
    """The log lacks records that it had when it was closed, or that were synced."""

    def __init__(self, why: str, directory: PurePath, is_refilled: bool, is_gap: bool = False) -> None:
        """`is_refilled`: what is missing is the end of the log, and the leader sends it again. Nothing else is sent
        again: the replica would be in sync without those records. `is_gap`: all that is known is a gap between two
        segments, which in a compacted log may be the cleaner's."""
        super().__init__(errno.EIO, why, str(directory))
        self.is_refilled = is_refilled
        self.is_gap = is_gap


def find_incomplete(loaded: LoadedLog, request: LoadRequest, begin: Offset | None) -> Incomplete | None:
    """`begin`: where the log began at a clean stop; None if that is unknown."""
    first = loaded.segments[0].base_offset
    why = None if loaded.mark is None else loaded.mark.why
    if why is None and begin is not None and first > begin:
        why = f"begins at {first}, but began at {begin} when it was closed"
    if why is None and request.clean and loaded.orphans and loaded.orphans[0] < loaded.log_end:
        why = f"lacks a segment, which began at {loaded.orphans[0]}"
    why = why or loaded.lost
    is_gap = why is None and loaded.gap is not None
    why = why or loaded.gap
    is_refilled = why is None
    if why is None and loaded.log_end < request.recovery_point:
        why = f"ends at {loaded.log_end}, but had been synced up to {request.recovery_point}"
    elif why is None and request.clean and loaded.orphans:
        why = f"lacks its last segment, which began at {loaded.orphans[0]}"
    return None if why is None else Incomplete(why, loaded.directory, is_refilled, is_gap)
