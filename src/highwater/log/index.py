"""The sparse indexes beside a segment. Look-ups are binary searches on the file: no index is held in memory."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from highwater.log.peek import Peek
from highwater.log.producer_state import AbortedTransaction
from highwater.world import File


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


NO_TIMESTAMP = TimestampOffset(-1, -1)


class OffsetIndex:
    """8-byte entries: relative offset of a batch's last record, position of that batch."""

    ENTRY = struct.Struct(">ii")

    def __init__(self, file: File, base_offset: int) -> None:
        self.file = file
        self._base = base_offset

    @property
    def entries(self) -> int:
        return self.file.size // 8

    def append(self, offset: int, position: int) -> None:
        self.file.append(self.ENTRY.pack(offset - self._base, position))

    def entry(self, at: int, peek: Peek) -> tuple[int, int]:
        relative, position = self.ENTRY.unpack(peek(self.file, at * 8, 8))
        return self._base + relative, position

    def floor(self, offset: int, peek: Peek) -> int:
        """Where to begin scanning for `offset`: the position of the last indexed batch that ends at or before it."""
        low, high, position = 0, self.entries, 0
        while low < high:
            middle = (low + high) // 2
            last_offset, at = self.entry(middle, peek)
            if last_offset <= offset:
                position, low = at, middle + 1
            else:
                high = middle
        return position

    def truncate_to(self, offset: int, peek: Peek) -> None:
        """Drop entries at or beyond `offset`."""
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle, peek)[0] < offset:
                low = middle + 1
            else:
                high = middle
        self.file.truncate(low * 8)


class TimeIndex:
    """12-byte entries: largest timestamp so far, relative offset of the batch that has it. Timestamps strictly rise."""

    ENTRY = struct.Struct(">qi")

    def __init__(self, file: File, base_offset: int, last: TimestampOffset = NO_TIMESTAMP) -> None:
        self.file = file
        self._base = base_offset
        self.last = last

    @property
    def entries(self) -> int:
        return self.file.size // 12

    def maybe_append(self, entry: TimestampOffset) -> None:
        if entry.timestamp > self.last.timestamp:
            self.file.append(self.ENTRY.pack(entry.timestamp, entry.offset - self._base))
            self.last = entry

    def entry(self, at: int, peek: Peek) -> TimestampOffset:
        timestamp, relative = self.ENTRY.unpack(peek(self.file, at * 12, 12))
        return TimestampOffset(timestamp, self._base + relative)

    def floor(self, timestamp: int, peek: Peek) -> int:
        """An offset from which on a record with a timestamp at or after `timestamp` may be found."""
        low, high, offset = 0, self.entries, self._base
        while low < high:
            middle = (low + high) // 2
            entry = self.entry(middle, peek)
            if entry.timestamp < timestamp:
                offset, low = entry.offset, middle + 1
            else:
                high = middle
        return offset

    def truncate_to(self, offset: int, peek: Peek) -> None:
        """Drop entries at or beyond `offset`."""
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle, peek).offset < offset:
                low = middle + 1
            else:
                high = middle
        self.file.truncate(low * 12)
        self.last = self.entry(low - 1, peek) if low else NO_TIMESTAMP


class TransactionIndex:
    """34-byte entries of aborted transactions, in the order of their markers. The file exists once there is one."""

    ENTRY = struct.Struct(">hqqqq")
    VERSION = 0

    def __init__(self, file: File) -> None:
        self.file = file

    def append(self, aborted: AbortedTransaction) -> None:
        self.file.append(self.ENTRY.pack(self.VERSION, *aborted))

    def all(self, peek: Peek) -> Iterator[AbortedTransaction]:
        whole = self.file.size // self.ENTRY.size * self.ENTRY.size
        for version, *fields in self.ENTRY.iter_unpack(bytes(peek(self.file, 0, whole)) if whole else b""):
            if version != self.VERSION:
                raise ValueError(f"transaction index entry of version {version}")
            yield AbortedTransaction(*fields)

    def truncate_to(self, offset: int, peek: Peek) -> None:
        kept = sum(1 for entry in self.all(peek) if entry.last_offset < offset)
        self.file.truncate(kept * self.ENTRY.size)
