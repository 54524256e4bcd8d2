"""The log of one replica in a search: batches without bytes."""

from __future__ import annotations

from typing import NamedTuple

from highwater.log.epoch_cache import EpochCache
from highwater.model import Epoch, Offset


class Batch(NamedTuple):
    base_offset: Offset
    last_offset: Offset
    leader_epoch: Epoch
    name: str
    """The number of the write: two leaders may give the same offset to different writes."""


class Log:
    __slots__ = ("batches", "checkpoint", "durable_end", "end", "epochs", "high_watermark", "kept_start", "start")

    def __init__(self) -> None:
        self.batches: tuple[Batch, ...] = ()
        self.epochs: tuple[tuple[Epoch, Offset], ...] = ()
        self.start = self.end = self.durable_end = self.high_watermark = 0
        self.checkpoint = 0
        """The high watermark after a restart."""
        self.kept_start = 0
        """The log start after a restart, if the batches are still there."""

    def history(self) -> EpochCache:
        return EpochCache(self.epochs)

    def append(self, batch: Batch) -> None:
        self.batches = (*self.batches, batch)
        self.end = batch.last_offset + 1
        history = self.history()
        if batch.leader_epoch != history.latest and history.follow(batch.leader_epoch, batch.base_offset):
            self.epochs = tuple(history.entries)

    def assign_epoch(self, epoch: Epoch) -> None:
        history = self.history()
        if history.assign(epoch, self.end):
            self.epochs = tuple(history.entries)

    def cut(self, offset: Offset) -> None:
        """Durable when it returns."""
        self.batches = tuple(batch for batch in self.batches if batch.last_offset < offset)
        self.end = min(self.end, max(offset, self.start)) if not self.batches else self.batches[-1].last_offset + 1
        self.end = max(self.end, self.start)
        self.durable_end = min(self.durable_end, self.end)
        self.high_watermark = min(self.high_watermark, self.end)
        self.checkpoint = min(self.checkpoint, self.end)
        history = self.history()
        history.truncate_end(self.end)
        self.epochs = tuple(history.entries)

    def begin_anew(self, offset: Offset, batches: tuple[Batch, ...] = ()) -> None:
        start = self.start
        self.batches, self.epochs = (), ()
        self.start = self.end = self.durable_end = self.high_watermark = self.checkpoint = offset
        for batch in batches:
            self.append(batch)
        if batches:
            self.durable_end = self.end
            self.raise_start(min(start, self.end))
        self.kept_start = self.start

    def raise_start(self, offset: Offset) -> None:
        self.start = max(self.start, offset)
        self.high_watermark = max(self.high_watermark, self.start)
        self.batches = tuple(batch for batch in self.batches if batch.last_offset >= self.start)
        history = self.history()
        history.truncate_start(self.start)
        self.epochs = tuple(history.entries)

    def forget_start(self) -> None:
        """The log start as a new life finds it."""
        self.start = min(max(self.kept_start, self.batches[0].base_offset if self.batches else self.end), self.start)
        if self.epochs:
            self.epochs = ((self.epochs[0][0], self.start), *self.epochs[1:])

    def frozen(self) -> tuple[object, ...]:
        return (
            *(self.batches, self.epochs, self.start, self.kept_start, self.end, self.durable_end),
            *(self.high_watermark, self.checkpoint),
        )
