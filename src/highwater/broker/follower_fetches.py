"""The last fetches of followers at the partitions that somebody watches: for /status and for lanes that are drawn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from highwater.model import Offset
from highwater.partition.partition import Partition

KEPT: Final = 64
WATCHED_SECONDS: Final = 60.0
"""A partition is watched for this long after the last question about it."""
MOST_WATCHED: Final = 256
"""Beyond it, the partition that was asked for longest ago is watched no more."""

Fetched = tuple[float, int, Offset, Offset, int]
"""(time, follower, offset asked for, high watermark answered, bytes of records answered)"""


class FollowerFetches:
    """A partition is recorded from the first question about it on. So a partition that nobody looks at costs neither
    time nor memory."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.watched: dict[Partition, deque[Fetched]] = {}
        self._asked_at: dict[Partition, float] = {}

    def note(self, partition: Partition, replica: int, offset: Offset, high_watermark: Offset, size: int) -> None:
        """The answer to a fetch carries news of this partition. On the hot path."""
        kept = self.watched.get(partition)
        if kept is not None:
            kept.append((self._now(), replica, offset, high_watermark, size))

    def of(self, partition: Partition) -> list[dict[str, Any]]:
        """The last fetches, the oldest first. Watches the partition from now on."""
        now = self._now()
        self._forget(now)
        self._asked_at.pop(partition, None)
        self._asked_at[partition] = now
        kept = self.watched.setdefault(partition, deque(maxlen=KEPT))
        return [
            {
                "seconds_ago": round(now - at, 4),
                "follower": replica,
                "offset": offset,
                "high_watermark": high_watermark,
                "bytes": size,
            }
            for at, replica, offset, high_watermark, size in kept
        ]

    def _forget(self, now: float) -> None:
        """The oldest questions come first."""
        for partition, asked_at in list(self._asked_at.items()):
            if now - asked_at <= WATCHED_SECONDS and len(self._asked_at) <= MOST_WATCHED:
                break
            del self._asked_at[partition], self.watched[partition]
