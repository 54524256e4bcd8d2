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


class RetentionClock:
    """The time by which records grow old: the wall's, but a leap of it counts little by little.

    A clock set a year ahead by mistake would otherwise take all data with it at the next check.
    """

    LEAP_MS = 3_600_000
    """By how much the wall clock may be ahead of what has gone by."""
    CATCH_UP = 24
    """How many times faster than real time a leap is followed."""

    def __init__(self, wall_ms: int, monotonic: float) -> None:
        self._bound = float(wall_ms)
        self._seen = monotonic

    def now_ms(self, wall_ms: int, monotonic: float) -> int:
        passed = (monotonic - self._seen) * 1000
        self._seen = monotonic
        self._bound = min(self._bound + passed * self.CATCH_UP, max(self._bound + passed, wall_ms))
        return min(wall_ms, int(self._bound) + self.LEAP_MS)
