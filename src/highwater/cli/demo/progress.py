"""The present state of the run, for the screen and for decisions. Each field has one writer."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

RATE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class PartitionState:
    leader: int
    in_sync: tuple[int, ...]
    high_watermark: int


@dataclass(slots=True)
class Arrivals:
    """How far the orders have arrived: in the table, or at the plain reader."""

    state: str = ""
    batch: int = -1
    """The last batch that has landed."""
    rows: int = 0
    reached: Mapping[int, int] = field(default_factory=dict)
    """The next offset of each partition."""
    failed: str = ""
    """The reason why no more will arrive."""


def is_reached(reached: Mapping[int, int], ends: Mapping[int, int]) -> bool:
    return all(reached.get(partition, 0) >= end for partition, end in ends.items())


@dataclass(slots=True)
class DemoProgress:
    started: float = field(default_factory=time.monotonic)
    acked: int = 0
    acked_in: dict[int, int] = field(default_factory=dict)
    """By partition."""
    trouble: str = ""
    """The trouble of the feed, which goes on."""
    partitions: tuple[PartitionState, ...] = ()
    alive: dict[int, bool] = field(default_factory=dict)
    """By broker."""
    arrivals: Arrivals = field(default_factory=Arrivals)
    revenue: dict[str, int] = field(default_factory=dict)
    """Cents by product, as last read from the topic of revenues."""
    events: list[str] = field(default_factory=list)
    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._samples.append((self.started, 0))

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @property
    def lag(self) -> int:
        """Records that are committed in the log and have not arrived yet."""
        reached = self.arrivals.reached
        return sum(max(0, each.high_watermark - reached.get(at, 0)) for at, each in enumerate(self.partitions))

    def add_event(self, event: str) -> None:
        self.events.append(f"{self.elapsed:6.1f} s  {event}")

    def acked_per_second(self) -> float:
        """The rate of the last few seconds. The screen calls this each time it draws."""
        now = time.monotonic()
        self._samples.append((now, self.acked))
        while len(self._samples) > 2 and self._samples[0][0] < now - RATE_SECONDS:
            self._samples.popleft()
        since, before = self._samples[0]
        return (self.acked - before) / max(now - since, 0.1)
