"""The present state of the run, for the screen and for decisions. Each field has one writer."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from highwater.cli.demo.orders import PARTITIONS
from highwater.cli.demo.replicas import Look, PartitionState, partition_state

RATE_SECONDS = 3.0


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


class Served(NamedTuple):
    """The broker that acknowledges writes to a partition, and when it began."""

    leader: int
    since: float


def is_reached(reached: Mapping[int, int], ends: Mapping[int, int]) -> bool:
    return all(reached.get(partition, 0) >= end for partition, end in ends.items())


@dataclass(slots=True)
class DemoProgress:
    started: float = field(default_factory=time.monotonic)
    acked: int = 0
    acked_in: dict[int, int] = field(default_factory=dict)
    """By partition."""
    served: dict[int, Served] = field(default_factory=dict)
    """By partition."""
    trouble: str = ""
    """The trouble of the feed, which goes on."""
    acked_seen: int = 0
    """What was acknowledged when the present picture was made."""
    looks: dict[int, Look] = field(default_factory=dict)
    """By broker."""
    partitions: tuple[PartitionState, ...] = ()
    brokers: dict[int, str] = field(default_factory=dict)
    """The state of each: alive, dead or paused."""
    links: dict[int, str] = field(default_factory=dict)
    """What was done to the links of a broker: cut, or slow."""
    chosen: int = 1
    """The broker to which the next key does something."""
    caption: list[str] = field(default_factory=list)
    """The last failure: cause and effect, one line for each step."""
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
    def committed(self) -> int:
        """Never less than what was acknowledged or has arrived, as the present picture counts it."""
        return sum(each.high_watermark for each in self.partitions)

    @property
    def lag(self) -> int:
        """Records that are committed in the log and have not arrived yet."""
        return max(0, self.committed - self.arrivals.rows)

    def take_looks(self) -> None:
        """Makes one state of what brokers, feed and destination know now. All that is drawn comes from it."""
        if not self.looks:
            return
        states, acked_in = [], dict(self.acked_in)
        self.acked_seen = sum(acked_in.values())
        for at in range(len(PARTITIONS)):
            before = self.partitions[at] if self.partitions else None
            floor = max(acked_in.get(at, 0), self.arrivals.reached.get(at, 0), before.high_watermark if before else 0)
            states.append(partition_state(self.looks, at, before, floor))
        self.partitions = tuple(states)

    def led_by(self, broker: int) -> list[int]:
        return [at for at, each in enumerate(self.partitions) if each.leader == broker]

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
