"""Decides which segments of a log may be deleted, the oldest first. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from highwater.config import LogConfig


class SegmentFacts(NamedTuple):
    base_offset: int
    next_base: int
    """The base offset of the next segment, or the log end for the active one."""
    size: int
    newest_ms: int
    """The largest record timestamp, or the time of the file if no record has one."""


def expired(
    segments: Sequence[SegmentFacts], config: LogConfig, now_ms: int, high_watermark: int, log_start: int
) -> int:
    """How many of the oldest segments to delete: those below the log start, and with the delete policy also by time and
    size.

    Nothing at or above the high watermark is deleted (KAFKA-5634). The active segment may be; it is rolled first.
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
    """The time by which the age of records is measured: the wall clock, but it follows a leap only slowly.

    Otherwise a clock that is set a year ahead by mistake would delete all data at the next check.
    """

    LEAP_MS = 3_600_000
    """By how much the wall clock may be ahead of the time that has really passed."""
    CATCH_UP = 24
    """A leap is followed this many times faster than real time."""

    def __init__(self, wall_ms: int, monotonic: float) -> None:
        self._bound = float(wall_ms)
        self._seen = monotonic

    def now_ms(self, wall_ms: int, monotonic: float) -> int:
        passed = (monotonic - self._seen) * 1000
        self._seen = monotonic
        self._bound = min(self._bound + passed * self.CATCH_UP, max(self._bound + passed, wall_ms))
        return min(wall_ms, int(self._bound) + self.LEAP_MS)
