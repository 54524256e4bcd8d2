"""A metadata log in memory that knows what it has synced, as the quorum's `LogView`."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from highwater.quorum import LogPosition


class Entry(NamedTuple):
    epoch: int
    value: str


class MemoryLog:
    """One record per offset. Entries below the start are kept, as the content of the snapshot that ends there."""

    def __init__(self, entries: list[Entry] | None = None, start: int = 0) -> None:
        self.written = list(entries or [])
        self.synced = list(self.written)
        self.start_offset = start
        self._durable = len(self.written)

    @classmethod
    def of_epochs(cls, *epochs: int, start: int = 0) -> MemoryLog:
        return cls([Entry(epoch, f"{offset}@{epoch}") for offset, epoch in enumerate(epochs)], start)

    # LogView

    @property
    def written_end(self) -> int:
        return len(self.written)

    @property
    def durable_end(self) -> int:
        return self._durable

    @property
    def last_epoch(self) -> int:
        return self.written[self.durable_end - 1].epoch if self.durable_end else 0

    @property
    def earliest_snapshot(self) -> LogPosition | None:
        return self.latest_snapshot

    @property
    def latest_snapshot(self) -> LogPosition | None:
        if self.start_offset == 0:
            return None
        return LogPosition(self.written[self.start_offset - 1].epoch, self.start_offset)

    def end_of_epoch(self, epoch: int) -> LogPosition:
        end = self.durable_end
        if self.start_offset == end:
            return LogPosition(self.last_epoch, end)
        offset = end
        while offset > self.start_offset and self.written[offset - 1].epoch > epoch:
            offset -= 1
        if offset == self.start_offset:
            return LogPosition(epoch, offset)
        return LogPosition(self.written[offset - 1].epoch, offset)

    # What a driver does to it

    def append(self, *entries: Entry) -> None:
        self.written.extend(entries)

    def truncate(self, offset: int) -> None:
        del self.written[offset:]
        self._durable = min(self._durable, offset)

    def sync(self, content: list[Entry] | None = None) -> None:
        """Make `content`, the log as it was when the sync began, durable."""
        self.synced = list(self.written if content is None else content)
        common = min(len(self.synced), len(self.written))
        while common and self.synced[common - 1] != self.written[common - 1]:
            common -= 1
        self._durable = common

    def install(self, entries: list[Entry]) -> None:
        self.written = list(entries)
        self.sync()
        self.start_offset = len(entries)

    def take_snapshot(self, offset: int) -> None:
        if self.start_offset < offset <= self.durable_end:
            self.start_offset = offset

    def after_crash(self, random: Random) -> MemoryLog:
        """What the disk holds: all that was synced, and any part of what was written after it."""
        kept = list(self.synced)
        if self.written[: len(kept)] == kept:
            tail = self.written[len(kept) :]
            kept += tail[: random.randint(0, len(tail))]
        return MemoryLog(kept, self.start_offset)
