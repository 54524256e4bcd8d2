"""One segment: a file of batches back to back, and the indexes beside it."""

from __future__ import annotations

import struct
from pathlib import PurePath
from typing import NamedTuple

from highwater.log import names
from highwater.log.index import NO_TIMESTAMP, OffsetIndex, TimeIndex, TimestampOffset, TransactionIndex
from highwater.log.peek import Peek
from highwater.log.producer_state import AbortedTransaction
from highwater.world import Disk, File, Poisoned

MAX_RELATIVE_OFFSET = 2**31 - 1
_SCAN_CHUNK = 8192
_HEAD = struct.Struct(">qi11xi")
"""Base offset, length, and behind epoch, magic, CRC and attributes the last offset's delta."""


class BatchAt(NamedTuple):
    position: int
    size: int
    base_offset: int
    last_offset: int


class Segment:
    __slots__ = (
        "_disk",
        "_txn_index",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "directory",
        "file",
        "first_timestamp",
        "largest",
        "offset_index",
        "time_index",
    )

    def __init__(
        self, disk: Disk, directory: PurePath, base_offset: int, created_ms: int, create: bool = False
    ) -> None:
        self._disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.file: File = disk.open(names.segment_file(directory, base_offset, names.LOG), create)
        self.offset_index = OffsetIndex(
            disk.open(names.segment_file(directory, base_offset, names.INDEX), True), base_offset
        )
        self.time_index = TimeIndex(
            disk.open(names.segment_file(directory, base_offset, names.TIME_INDEX), True), base_offset
        )
        self._txn_index: TransactionIndex | None = None
        self.largest = NO_TIMESTAMP
        """The largest timestamp in it, and the last offset of the batch that has it."""
        self.first_timestamp: int | None = None
        self.bytes_since_index = 0

    @property
    def size(self) -> int:
        return self.file.size

    @property
    def files(self) -> list[File]:
        """All that a sync must cover."""
        files = [self.file, self.offset_index.file, self.time_index.file]
        return files if self._txn_index is None else [*files, self._txn_index.file]

    def append(
        self, parts: tuple[memoryview | bytes | bytearray, ...], last_offset: int, max_timestamp: int, interval: int
    ) -> int:
        """One batch. On an error nothing of it stays, in the file or in an index; returns its position."""
        position = self.file.append(*parts)
        largest = (
            TimestampOffset(max_timestamp, last_offset) if max_timestamp > self.largest.timestamp else self.largest
        )
        if self.bytes_since_index > interval:
            self._index(last_offset, position, largest)
            self.bytes_since_index = 0
        self.bytes_since_index += self.file.size - position
        self.largest = largest
        if self.first_timestamp is None:
            self.first_timestamp = max_timestamp
        return position

    def _index(self, last_offset: int, position: int, largest: TimestampOffset) -> None:
        before = self.offset_index.file.size
        try:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(largest)
        except OSError as failed:
            try:
                self.file.truncate(position)
                self.offset_index.file.truncate(before)
            except OSError as trim_failed:
                raise Poisoned(failed.errno, f"index and trim failed: {trim_failed}", str(self.file.path)) from failed
            raise

    def close_time_index(self) -> None:
        """The last entry of a segment that is rolled or closed: its largest timestamp."""
        if self.largest.timestamp >= 0:
            self.time_index.maybe_append(self.largest)

    def locate(self, offset: int, peek: Peek) -> BatchAt | None:
        """The first batch whose last offset is at or beyond `offset`; None where all end before it."""
        return self.scan_for(offset, self.offset_index.floor(offset, peek), peek)

    def scan_for(self, offset: int, position: int, peek: Peek) -> BatchAt | None:
        end = self.file.size
        chunk: memoryview = memoryview(b"")
        chunk_at = position
        while position + _HEAD.size <= end:
            within = position - chunk_at
            if within < 0 or within + _HEAD.size > len(chunk):
                chunk_at, within = position, 0
                chunk = memoryview(peek(self.file, position, min(_SCAN_CHUNK, end - position)))
            base_offset, length, delta = _HEAD.unpack_from(chunk, within)
            if base_offset + delta >= offset:
                return BatchAt(position, 12 + length, base_offset, base_offset + delta)
            position += 12 + length
        return None

    @property
    def txn_index_path(self) -> PurePath:
        return names.segment_file(self.directory, self.base_offset, names.TXN_INDEX)

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        if self._txn_index is None:
            self._txn_index = TransactionIndex(self._disk.open(self.txn_index_path, create=True))
        self._txn_index.append(aborted)

    def txn_index(self) -> TransactionIndex | None:
        if self._txn_index is None and self._disk.stat(self.txn_index_path) is not None:
            self._txn_index = TransactionIndex(self._disk.open(self.txn_index_path))
        return self._txn_index

    def truncate(self, position: int, next_offset: int, peek: Peek) -> None:
        """Keep what is below `position`, whose next offset would be `next_offset`."""
        self.file.truncate(position)
        self.offset_index.truncate_to(next_offset, peek)
        self.time_index.truncate_to(next_offset, peek)
        index = self.txn_index()
        if index is not None:
            index.truncate_to(next_offset, peek)
        self.largest = self.time_index.last
        self.bytes_since_index = 0
        if position == 0:
            self.first_timestamp = None

    def rename(self, suffix: str) -> list[PurePath]:
        """Give every file the suffix, as a deletion begins; returns the new paths."""
        renamed = []
        for kind in (names.LOG, names.INDEX, names.TIME_INDEX, names.TXN_INDEX):
            path = names.segment_file(self.directory, self.base_offset, kind)
            if self._disk.stat(path) is not None:
                aside = path.with_name(path.name + suffix)
                self._disk.rename(path, aside)
                renamed.append(aside)
        return renamed

    def close(self) -> None:
        for file in self.files:
            file.close()
