"""What a cleaner does and has done, for whoever asks: the status page and the metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from highwater.log.compaction.plan import Dirt
from highwater.log.compaction.rewrite import Cleaned, Progress, Rewritten
from highwater.log.log import Log
from highwater.model import TopicPartition


@dataclass(eq=False)
class Cleaning:
    """One under way."""

    log: Log
    dirt: Dirt
    begun: float
    done: Progress = field(default_factory=Progress)
    news: asyncio.Queue[Rewritten | None] = field(default_factory=asyncio.Queue)
    """Segments to be put in their places; None to look whether it is over, or to be given up."""
    layout: int = field(init=False)
    """That of the log, unless somebody else has changed it."""

    @property
    def share(self) -> float:
        """How much of the reading is done: the dirty part is read twice."""
        total = self.dirt.clean_bytes + 2 * self.dirt.dirty_bytes
        return min((self.done.mapped + self.done.read) / total, 1.0) if total else 0.0


@dataclass(frozen=True, slots=True)
class Pass:
    """A cleaning that came to its end."""

    log: Log
    ended: float
    seconds: float
    overdue_ms: int
    """How long max.compaction.lag.ms had been over when it began."""
    cleaned: Cleaned


@dataclass(frozen=True, slots=True)
class Setback:
    """A cleaning that failed: the log is as it was."""

    log: Log
    at: float
    reason: str
    final: bool
    """The same would happen again: it is not tried before the next start, as in Kafka."""


class Account:
    def __init__(self) -> None:
        self.under_way: dict[TopicPartition, Cleaning] = {}
        self.passes: dict[TopicPartition, Pass] = {}
        """The last one of each log."""
        self.setbacks: dict[TopicPartition, Setback] = {}
        """Of logs that were not cleaned since."""
        self.looked_at: float | None = None
        self.max_ratio = 0.0
        """Of the dirtiest log, when it was last looked for."""
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
        """A topic that is made again under the name of a deleted one has no past."""
        known: dict[TopicPartition, Pass] | dict[TopicPartition, Setback]
        for known in (self.passes, self.setbacks):
            for partition in [each for each, told in known.items() if logs.get(each) is not told.log]:
                del known[partition]
