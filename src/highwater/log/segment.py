"""One segment: a file of consecutive batches, and its indexes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import NamedTuple

from highwater.config import LogConfig
from highwater.log import names
from highwater.log.index import NO_TIMESTAMP, OffsetIndex, TimeIndex, TimestampOffset, TransactionIndex
from highwater.log.peek import Peek, blocking
from highwater.log.producer_state import AbortedTransaction
from highwater.log.scan import BadBatch, scan
from highwater.wire.records import HEADER_SIZE
from highwater.wire.records.header import LENGTH_PREFIX
from highwater.world import Buffer, Disk, File, Poisoned

MAX_RELATIVE_OFFSET = 2**31 - 1
_SCAN_CHUNK = 8192
_HEAD = struct.Struct(">qi11xi")
"""Base offset, length, and, after epoch, magic, CRC and attributes, the last offset delta."""


class BatchAt(NamedTuple):
    position: int
    size: int
    base_offset: int
    last_offset: int


class SegmentCut(NamedTuple):
    """What stays of a segment and its indexes when its tail is cut off."""

    position: int
    end: int
    """The offset after the last one that stays."""
    offset_entries: int
    time_entries: int
    time_index_last: TimestampOffset
    largest: TimestampOffset
    aborted: int
    bytes_since_index: int


class Segment:
    __slots__ = (
        "_disk",
        "aborted",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "directory",
        "file",
        "first_timestamp",
        "largest",
        "modified_ms",
        "offset_index",
        "suffix",
        "time_index",
    )

    def __init__(
        self,
        disk: Disk,
        directory: PurePath,
        base_offset: int,
        created_ms: int,
        create: bool = False,
        aborted: Sequence[AbortedTransaction] = (),
        suffix: str = "",
    ) -> None:
        """`suffix` is appended to the names of its files until the segment is part of the log."""
        self._disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self.created_ms = self.modified_ms = created_ms
        """When the segment was begun, and when a batch without a timestamp was last added. Its age is measured by these
        if its records have no timestamps."""
        self.file: File = disk.open(self._path(names.LOG), create)
        self.offset_index = OffsetIndex(disk.open(self._path(names.INDEX), True), base_offset)
        self.time_index = TimeIndex(disk.open(self._path(names.TIME_INDEX), True), base_offset)
        self.aborted = TransactionIndex(disk, self._path(names.TXN_INDEX), aborted)
        self.largest = NO_TIMESTAMP
        """The largest timestamp in the segment, and the last offset of its batch."""
        self.first_timestamp: int | None = None
        self.bytes_since_index = 0

    def _path(self, kind: str) -> PurePath:
        return names.segment_file(self.directory, self.base_offset, kind + self.suffix)

    @property
    def size(self) -> int:
        return self.file.size

    @property
    def files(self) -> list[File]:
        """All files that a sync must cover."""
        files = [self.file, self.offset_index.file, self.time_index.file]
        return files if self.aborted.file is None else [*files, self.aborted.file]

    def is_full_for(
        self,
        size: int,
        last_offset: int,
        max_timestamp: int,
        config: LogConfig,
        jitter_ms: int,
        wall_ms: Callable[[], int],
    ) -> bool:
        """Whether the batch needs a new segment: because of size, age, a full index, or an offset that is too far away.

        The age is that of the data, if its timestamps are known. The time index keeps room for the closing entry.
        """
        relative, written = last_offset - self.base_offset, self.file.size
        if written == 0:
            return relative > MAX_RELATIVE_OFFSET
        if written + size > config.segment_bytes or relative > MAX_RELATIVE_OFFSET:
            return True
        first = self.first_timestamp
        age = max_timestamp - first if first is not None and first >= 0 else wall_ms() - self.created_ms
        index_bytes = config.segment_index_bytes
        return (
            age > config.roll_ms - jitter_ms
            or self.offset_index.file.size > index_bytes - 8
            or self.time_index.file.size > index_bytes - 24
        )

    def append(self, data: Buffer, last_offset: int, max_timestamp: int, interval: int) -> int:
        """Appends one batch and returns its position. On an error nothing of it stays in the file or in an index."""
        position = self.file.append(data)
        rises = max_timestamp > self.largest[0]
        if self.bytes_since_index > interval:
            self._index(last_offset, position, TimestampOffset(max_timestamp, last_offset) if rises else self.largest)
            self.bytes_since_index = 0
        self.bytes_since_index += len(data)
        if rises:
            self.largest = TimestampOffset(max_timestamp, last_offset)
        if self.first_timestamp is None:
            self.first_timestamp = max_timestamp
        return position

    def index_batch(self, position: int, size: int, last_offset: int, max_timestamp: int, interval: int) -> None:
        """Indexes a batch that is in the file, or will be, and that is in no index yet."""
        if self.first_timestamp is None:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.largest.timestamp:
            self.largest = TimestampOffset(max_timestamp, last_offset)
        if self.bytes_since_index > interval:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.largest)
            self.bytes_since_index = 0
        self.bytes_since_index += size

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

    def close_indexes(self) -> None:
        """The segment is rolled or closed. Adds what its indexes still lack: the largest timestamp, and aborted
        transactions for which there was no room before."""
        if self.largest.timestamp >= 0:
            self.time_index.maybe_append(self.largest)
        self.aborted.write()

    def locate(self, offset: int, peek: Peek) -> BatchAt | None:
        """The first batch with a last offset at or beyond `offset`; None if all batches end before it."""
        return self.scan_for(offset, self.offset_index.floor(offset, peek), peek)

    def scan_for(self, offset: int, position: int, peek: Peek) -> BatchAt | None:
        """As `locate`, from a known batch on. Raises BadBatch if the bytes there are no batch."""
        end = self.file.size
        chunk: memoryview = memoryview(b"")
        chunk_at = position
        while position + _HEAD.size <= end:
            within = position - chunk_at
            if within + _HEAD.size > len(chunk):
                chunk_at, within = position, 0
                chunk = memoryview(peek(self.file, position, min(_SCAN_CHUNK, end - position)))
                if len(chunk) < _HEAD.size:
                    raise BadBatch(self.file.path, position, "the file is shorter than it was", cut_off=True)
            base_offset, length, delta = _HEAD.unpack_from(chunk, within)
            if length < HEADER_SIZE - LENGTH_PREFIX or delta < 0:
                raise BadBatch(self.file.path, position, f"length {length}, last offset delta {delta}")
            if base_offset + delta >= offset:
                return BatchAt(position, LENGTH_PREFIX + length, base_offset, base_offset + delta)
            position += LENGTH_PREFIX + length
        return None

    def plan_cut(self, position: int, next_offset: int) -> SegmentCut:
        """For jobs: what stays if only the batches before `position` stay, which end below `next_offset`."""
        offsets = self.offset_index.entries_below(next_offset, blocking)
        times = self.time_index.entries_below(next_offset, blocking)
        last = self.time_index.entry(times - 1, blocking) if times else NO_TIMESTAMP
        largest = last
        end = self.base_offset
        begin = self.locate(last.offset, blocking) if times else None
        for batch in scan(self.file, begin.position if begin else 0, 0, check=False):
            if batch.position >= position:
                break
            end = batch.header.next_offset
            if batch.header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(batch.header.max_timestamp, batch.header.last_offset)
        indexed = self.offset_index.entry(offsets - 1, blocking)[1] if offsets else 0
        aborted = sum(1 for entry in self.aborted.entries if entry.last_offset < next_offset)
        return SegmentCut(position, end, offsets, times, last, largest, aborted, position - indexed)

    def cut(self, cut: SegmentCut) -> None:
        self.file.truncate(cut.position)
        self.offset_index.keep(cut.offset_entries)
        self.time_index.keep(cut.time_entries, cut.time_index_last)
        self.aborted.keep(cut.aborted)
        self.largest = cut.largest
        self.bytes_since_index = cut.bytes_since_index
        if cut.position == 0:
            self.first_timestamp = None

    def rename(self, suffix: str, kinds: Sequence[str] = names.SEGMENT_FILES) -> list[PurePath]:
        """Gives the files another suffix, when a deletion begins or a swap ends. Returns the new paths. On OSError the
        files keep their names."""
        renamed: list[tuple[PurePath, PurePath]] = []
        try:
            for kind in kinds:
                path = self._path(kind)
                if self._disk.stat(path) is not None:
                    target = names.segment_file(self.directory, self.base_offset, kind + suffix)
                    self._disk.rename(path, target)
                    renamed.append((path, target))
        except OSError:
            for path, target in reversed(renamed):
                self._disk.rename(target, path)
            raise
        self.suffix = suffix
        self.aborted.path = self._path(names.TXN_INDEX)
        return [target for _, target in renamed]

    def close(self) -> None:
        for file in self.files:
            file.close()


def new_segment(disk: Disk, directory: PurePath, base_offset: int, now_ms: int, suffix: str = "") -> Segment:
    """Makes all files of a segment or none: the next start would find a half-made one."""
    try:
        return Segment(disk, directory, base_offset, now_ms, create=True, suffix=suffix)
    except OSError:
        for kind in (names.LOG, names.INDEX, names.TIME_INDEX):
            path = names.segment_file(directory, base_offset, kind + suffix)
            if disk.stat(path) is not None:
                disk.unlink(path)
        raise
