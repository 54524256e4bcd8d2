"""What the cleaner does now and has done, for the status page and the metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from highwater.log.compaction.plan import Dirt
from highwater.log.compaction.rewrite import Cleaned, CleaningProgress, Rewritten
from highwater.log.log import Log
from highwater.model import TopicPartition


@dataclass(eq=False)
class Cleaning:
    """A cleaning that is under way."""

    log: Log
    dirt: Dirt
    begun: float
    done: CleaningProgress = field(default_factory=CleaningProgress)
    news: asyncio.Queue[Rewritten | None] = field(default_factory=asyncio.Queue)
    """Segments to swap in; None to make the cleaner check whether the cleaning is over or must be given up."""
    layout: int = field(init=False)
    """The log's layout, unless something other than this cleaning has changed it."""

    @property
    def share(self) -> float:
        """The share of the reading that is done. The dirty part is read twice."""
        total = self.dirt.clean_bytes + 2 * self.dirt.dirty_bytes
        return min((self.done.mapped + self.done.read) / total, 1.0) if total else 0.0


@dataclass(frozen=True, slots=True)
class Pass:
    """A cleaning that succeeded."""

    log: Log
    ended: float
    seconds: float
    overdue_ms: int
    """How long max.compaction.lag.ms was exceeded when the cleaning began."""
    cleaned: Cleaned


@dataclass(frozen=True, slots=True)
class Setback:
    """A cleaning that failed. The log is unchanged."""

    log: Log
    at: float
    reason: str
    final: bool
    """The same would happen again, so the next attempt is made after the next start, as in Kafka."""


class Account:
    def __init__(self) -> None:
        self.under_way: dict[TopicPartition, Cleaning] = {}
        self.passes: dict[TopicPartition, Pass] = {}
        """The last successful cleaning of each log."""
        self.setbacks: dict[TopicPartition, Setback] = {}
        """The last failed cleaning of each log that was not cleaned since."""
        self.looked_at: float | None = None
        self.max_ratio = 0.0
        """The dirty ratio of the dirtiest log, at the last check."""
        self.cleanings = self.failures = self.bytes_read = self.bytes_written = 0

    def succeeded(self, log: Log, done: Pass) -> None:
        self.passes[log.partition] = done
        self.setbacks.pop(log.partition, None)
        self.cleanings += 1
        self.bytes_read += done.cleaned.bytes.mapped + done.cleaned.bytes.read
        self.bytes_written += done.cleaned.bytes.written

    def failed(self, setback: Setback) -> None:
        self.setbacks[setback.log.partition] = setback
        self.failures += 1

    def uncleanable(self, partition: TopicPartition) -> bool:
        setback = self.setbacks.get(partition)
        return setback is not None and setback.final

    def forget_gone(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Forgets deleted logs. A new topic with the name of a deleted one begins without a history."""
        known: dict[TopicPartition, Pass] | dict[TopicPartition, Setback]
        for known in (self.passes, self.setbacks):
            for partition in [each for each, entry in known.items() if logs.get(each) is not entry.log]:
                del known[partition]
