"""Which segments a log may let go, oldest first. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from highwater.config import LogConfig


class SegmentFacts(NamedTuple):
    base_offset: int
    next_base: int
    """The next segment's base offset, or the log's end for the active one."""
    size: int
    newest_ms: int
    """Largest record timestamp, or the file's time where no record has one."""


def expired(
    segments: Sequence[SegmentFacts], config: LogConfig, now_ms: int, high_watermark: int, log_start: int
) -> int:
    """How many of the oldest segments go: by log start, and under the delete policy by time and size too.

    None at or above the high watermark goes (KAFKA-5634); the active one may, and is rolled first.
    """
    total = sum(segment.size for segment in segments)
    gone = 0
    for at, segment in enumerate(segments):
        if segment.next_base > high_watermark:
            break
        active = at == len(segments) - 1
        if active and segment.size == 0:
            break
        before_start = not active and segment.next_base <= log_start
        by_time = config.delete and 0 <= config.retention_ms < now_ms - segment.newest_ms
        by_size = config.delete and config.retention_bytes >= 0 and total - segment.size >= config.retention_bytes
        if not (before_start or by_time or by_size):
            break
        total -= segment.size
        gone += 1
    return gone
