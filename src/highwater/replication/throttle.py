"""The throttle of replication (KIP-73): whether more bytes may pass now, and which replicas it is for. Pure.

Kafka judges the rate over eleven samples of a second each, which lets ten seconds' bytes pass at once, again and again.
Here one second's bytes may pass at once. Over Kafka's window the rate is the same.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf

from highwater.model import NodeId

BURST_SECONDS = 1.0
ALL = "*"


class Flow:
    """A flow of bytes that may be ahead of its rate by one burst. What comes on top of it is paid off before more may
    pass: a fetch brings whole batches."""

    __slots__ = ("_at", "_debt")

    def __init__(self) -> None:
        self._debt = 0.0
        """Bytes above the rate; below zero if the flow may be ahead of it."""
        self._at: float | None = None

    def record(self, size: int, rate: int, now: float) -> None:
        self._pay(rate, now)
        self._debt += size

    def is_exceeded(self, rate: int, now: float) -> bool:
        self._pay(rate, now)
        return self._debt > 0

    def seconds_left(self, rate: int, now: float) -> float:
        """The time until more bytes may pass, if none pass meanwhile; infinity at a rate of zero."""
        if not self.is_exceeded(rate, now):
            return 0.0
        return self._debt / rate if rate else inf

    def _pay(self, rate: int, now: float) -> None:
        passed = BURST_SECONDS if self._at is None else now - self._at
        self._debt = max(self._debt - rate * passed, -rate * BURST_SECONDS)
        self._at = now


def names(listed: Collection[str], partition: int, broker: NodeId) -> bool:
    """Whether a topic's list of throttled replicas has the replica of this partition on this broker."""
    return ALL in listed or f"{partition}:{broker}" in listed
