"""The sparse indexes of a segment. A look-up is a binary search in the file; offset and time indexes are not in
memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

from highwater.log.peek import Peek
from highwater.log.producer_state import AbortedTransaction
from highwater.world import Disk, File


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


NO_TIMESTAMP = TimestampOffset(-1, -1)


class OffsetIndex:
    """8-byte entries: the relative offset of a batch's last record, and the position of that batch."""

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
        """Where to begin a scan for `offset`: the position of the last indexed batch that ends at or before it."""
        low, high, position = 0, self.entries, 0
        while low < high:
            middle = (low + high) // 2
            last_offset, at = self.entry(middle, peek)
            if last_offset <= offset:
                position, low = at, middle + 1
            else:
                high = middle
        return position

    def entries_below(self, offset: int, peek: Peek) -> int:
        """How many entries a log that ends at `offset` keeps."""
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle, peek)[0] < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def keep(self, entries: int) -> None:
        self.file.truncate(entries * 8)


class TimeIndex:
    """12-byte entries: the largest timestamp so far, and the relative offset of its batch. Timestamps rise strictly."""

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
        """The offset from which to search for a record with a timestamp at or after `timestamp`."""
        low, high, offset = 0, self.entries, self._base
        while low < high:
            middle = (low + high) // 2
            entry = self.entry(middle, peek)
            if entry.timestamp < timestamp:
                offset, low = entry.offset, middle + 1
            else:
                high = middle
        return offset

    def entries_below(self, offset: int, peek: Peek) -> int:
        """How many entries a log that ends at `offset` keeps."""
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle, peek).offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def keep(self, entries: int, last: TimestampOffset) -> None:
        """`last` is the last entry that is kept."""
        self.file.truncate(entries * 12)
        self.last = last


class TransactionIndex:
    """34-byte entries of aborted transactions, in the order of their markers. Without entries there is no file.

    All entries are in memory: they are few, and every read_committed reader needs them.
    """

    ENTRY = struct.Struct(">hqqqq")
    VERSION = 0

    def __init__(self, disk: Disk, path: PurePath, entries: Sequence[AbortedTransaction] = ()) -> None:
        self._disk = disk
        self.path = path
        self.entries = list(entries)
        self.file: File | None = disk.open(path) if entries else None

    def append(self, aborted: AbortedTransaction) -> None:
        self.entries.append(aborted)
        self.write()

    def write(self) -> None:
        """Writes the entries that the file lacks because an earlier attempt failed. On OSError the next call tries
        again."""
        written = 0 if self.file is None else self.file.size // self.ENTRY.size
        if written < len(self.entries):
            if self.file is None:
                self.file = self._disk.open(self.path, create=True)
            self.file.append(*(self.ENTRY.pack(self.VERSION, *entry) for entry in self.entries[written:]))

    def keep(self, entries: int) -> None:
        del self.entries[entries:]
        if self.file is not None:
            self.file.truncate(min(entries * self.ENTRY.size, self.file.size))

    @classmethod
    def decode(cls, data: bytes) -> list[AbortedTransaction]:
        """Raises ValueError unless the data holds whole entries in the order of their markers."""
        if not data or len(data) % cls.ENTRY.size:
            raise ValueError(f"{len(data)} bytes are no whole entries")
        found: list[AbortedTransaction] = []
        for version, *fields in cls.ENTRY.iter_unpack(data):
            entry = AbortedTransaction(*fields)
            if version != cls.VERSION or entry.producer_id < 0 or not 0 <= entry.first_offset <= entry.last_offset:
                raise ValueError(f"version {version}, {entry}")
            if found and entry.last_offset <= found[-1].last_offset:
                raise ValueError(f"{entry} behind {found[-1]}")
            found.append(entry)
        return found
