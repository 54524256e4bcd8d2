"""Counters of the network: increased on the hot path, and read when metrics are scraped."""

from __future__ import annotations

from bisect import bisect_left
from enum import StrEnum

from highwater.world import Clock, Timer


class CloseReason(StrEnum):
    PEER = "peer"
    """The peer closed, or the connection broke."""
    IDLE = "idle"
    STALLED = "stalled"
    """A large request stopped arriving while other connections waited for its memory."""
    UNREAD = "unread"
    """The peer did not read its responses, and other connections needed their memory."""
    FRAME = "frame"
    """A frame had a forbidden size."""
    HEADER = "header"
    UNKNOWN_API = "unknown_api"
    """This listener does not have the API, or not in this version."""
    BODY = "body"
    HANDLER = "handler"
    """The handler raised an exception."""
    ASKED = "asked"
    """The handler closed the connection."""
    FILE = "file"
    """Bytes of a file for a response are gone or unreadable."""
    LIMIT = "limit"
    """Too many connections."""
    SHUTDOWN = "shutdown"


class NetStats:
    __slots__ = ("accepted", "bytes_in", "bytes_out", "closed", "connections", "file_reads_off_loop", "requests")

    def __init__(self) -> None:
        self.accepted = 0
        self.connections = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.file_reads_off_loop = 0
        self.requests: dict[int, int] = {}
        """By API key."""
        self.closed: dict[CloseReason, int] = dict.fromkeys(CloseReason, 0)


class LoopLag:
    """Samples how late the event loop runs a timer: the maximum, and a small histogram."""

    BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    """The upper bounds of the histogram in seconds. A last bucket holds larger values."""

    def __init__(self, clock: Clock, interval: float = 0.1) -> None:
        self._clock = clock
        self._interval = interval
        self._due = 0.0
        self._timer: Timer | None = None
        self.max = 0.0
        self.total = 0.0
        self.counts = [0] * (len(self.BOUNDS) + 1)

    def start(self) -> None:
        self._due = self._clock.monotonic() + self._interval
        self._timer = self._clock.call_later(self._interval, self._sample)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sample(self) -> None:
        lag = max(0.0, self._clock.monotonic() - self._due)
        self.max = max(self.max, lag)
        self.total += lag
        self.counts[bisect_left(self.BOUNDS, lag)] += 1
        self.start()
