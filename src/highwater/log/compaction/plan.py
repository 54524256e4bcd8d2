"""Decides which part of a log is dirty, whether to clean it, and which segments are merged. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from highwater.config import LogConfig
from highwater.model import Offset

MAX_SPAN = 2**31 - 1
"""The largest relative offset within a segment: indexes store it in 32 bits."""


class SegmentShape(NamedTuple):
    """What cleaning needs to know of a segment."""

    base_offset: Offset
    size: int
    offset_index_size: int
    time_index_size: int
    first_timestamp: int
    """The timestamp of its first batch; -1 if it has none."""
    largest_timestamp: int


class Dirt(NamedTuple):
    """The dirty part of a log: later records of a key are searched in [clean_end, dirty_end)."""

    clean_end: Offset
    dirty_end: Offset
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int
    """By how much the oldest dirty record exceeds max.compaction.lag.ms; 0 if it does not."""

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def wants_cleaning(self, config: LogConfig) -> bool:
        return self.dirty_bytes > 0 and (self.overdue_ms > 0 or self.ratio > config.min_cleanable_dirty_ratio)


def find_dirt(
    segments: Sequence[SegmentShape],
    config: LogConfig,
    checkpoint: Offset | None,
    log_start: Offset,
    log_end: Offset,
    stable_end: Offset,
    now_ms: int,
) -> Dirt:
    """Finds the dirty part. Not cleaned are: records at or beyond `stable_end`, the active segment, and records younger
    than min.compaction.lag.ms.

    A checkpoint outside of the log is ignored: the log was cut or emptied since.
    """
    clean_end = checkpoint if checkpoint is not None and log_start <= checkpoint <= log_end else log_start
    closed = segments[:-1]
    behind = [*(segment.base_offset for segment in segments[1:]), log_end]
    dirty = [segment for segment, end in zip(closed, behind, strict=False) if end > clean_end]
    dirty_end = min(stable_end, segments[-1].base_offset)
    if config.min_compaction_lag_ms > 0:
        young = (each for each in dirty if each.largest_timestamp > now_ms - config.min_compaction_lag_ms)
        dirty_end = min([dirty_end, *(segment.base_offset for segment in young)])
    dirty_end = max(dirty_end, clean_end)
    clean_bytes = sum(each.size for each, end in zip(closed, behind, strict=False) if end <= clean_end)
    # Only whole segments count: one that can be cleaned only in part would be found dirty again and again.
    dirty_bytes = sum(each.size for each, end in zip(closed, behind, strict=False) if clean_end < end <= dirty_end)
    oldest = min((each.first_timestamp for each in dirty if each.first_timestamp > 0), default=None)
    overdue_ms = 0 if oldest is None else max(now_ms - config.max_compaction_lag_ms - oldest, 0)
    return Dirt(clean_end, dirty_end, clean_bytes, dirty_bytes, overdue_ms)


def grouped(segments: Sequence[SegmentShape], end: Offset, config: LogConfig) -> list[list[SegmentShape]]:
    """Groups neighbours that fit into one segment by their sizes before cleaning. `end` is the end of the last one."""
    groups: list[list[SegmentShape]] = []
    ends = [*(segment.base_offset for segment in segments[1:]), end]
    size = offset_index = time_index = 0
    for segment, last in zip(segments, ends, strict=True):
        size += segment.size
        offset_index += segment.offset_index_size
        time_index += segment.time_index_size
        if (
            groups
            and size <= config.segment_bytes
            and max(offset_index, time_index) <= config.segment_index_bytes
            and last - 1 - groups[-1][0].base_offset <= MAX_SPAN
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size, offset_index, time_index = segment.size, segment.offset_index_size, segment.time_index_size
    return groups
