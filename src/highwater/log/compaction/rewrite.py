"""Writes new segments, under another name, without records that later records of the same key replace. A job."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

from highwater.config import LogConfig
from highwater.kernel import KeyTable
from highwater.log import names
from highwater.log.compaction.plan import SegmentShape, grouped
from highwater.log.compaction.thinning import LastWritten, Thinning
from highwater.log.compaction.transactions import CleanedTransactions
from highwater.log.loaded import LoadedSegment
from highwater.log.peek import blocking
from highwater.log.producer_state import AbortedTransaction
from highwater.log.scan import ScannedBatch, scan
from highwater.log.segment import Segment
from highwater.model import Offset
from highwater.wire.records import parse_control, read_header, section
from highwater.world import Buffer, Disk, Step

SLOT_BYTES = 24
_STEP_BYTES = 1 << 20
_STEP_SECONDS = 0.3
"""The longest time between two steps, even with a strong throttle: larger pieces would make no steady rate."""


@dataclass(frozen=True, slots=True)
class Work:
    """One cleaning. It finds the last record of each key in [clean_end, dirty_end), and then drops earlier records of
    these keys."""

    directory: PurePath
    segments: Sequence[SegmentShape]
    """The segments that begin below `dirty_end`."""
    end: Offset
    """The end of the last segment. Its records from `dirty_end` on are copied unchanged."""
    clean_end: Offset
    dirty_end: Offset
    config: LogConfig
    now_ms: int
    producers: dict[int, LastWritten]
    aborted: Sequence[AbortedTransaction]
    table_bytes: int
    load_factor: float
    bytes_per_second: float
    seed: bytes


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A new segment that will replace others. It is durable under another name."""

    replaced: tuple[Offset, ...]
    facts: LoadedSegment


class CleaningProgress(NamedTuple):
    """Bytes of batches: read for their keys (mapped), read again, and written."""

    mapped: int = 0
    read: int = 0
    written: int = 0


@dataclass(frozen=True, slots=True)
class Cleaned:
    clean_end: Offset
    bytes: CleaningProgress
    keys: int
    table_share: float
    """How full the table of keys became. If it reached log.cleaner.io.buffer.load.factor, another cleaning is
    needed."""


def discard_cleaned(disk: Disk, directory: PurePath) -> None:
    """Deletes the files of a cleaning that was given up."""
    for name in disk.list(directory):
        if name.endswith(names.CLEANED):
            disk.unlink(directory / name)


def rewrite(disk: Disk, work: Work) -> Generator[Step, None, Cleaned]:
    """A job. When a new segment can be swapped in, a step reports it as its progress."""
    return (yield from _Rewriting(disk, work).run())


class _Rewriting:
    def __init__(self, disk: Disk, work: Work) -> None:
        self._disk = disk
        self._work = work
        bases = [shape.base_offset for shape in work.segments]
        self._ends = dict(zip(bases, [*bases[1:], work.end], strict=True))
        """The upper limit of each segment's end, by its base offset."""
        slots = max(work.table_bytes // SLOT_BYTES, 2)
        self._table = KeyTable(slots, work.seed)
        self._limit = max(min(int(slots * work.load_factor), slots - 1), 1)
        self._mapped = self._read = self._written = self._unpaid = 0
        self._piece = min(_STEP_BYTES, work.bytes_per_second * _STEP_SECONDS)

    def run(self) -> Generator[Step, None, Cleaned]:
        discard_cleaned(self._disk, self._work.directory)
        end = yield from self._map_keys()
        thin = Thinning(
            self._table,
            end - 1,
            self._work.now_ms,
            self._work.config.delete_retention_ms,
            self._work.producers,
            transactions := CleanedTransactions(self._work.aborted),
        )
        below = [shape for shape in self._work.segments if shape.base_offset < end]
        for group in grouped(below, self._work.end, self._work.config):
            yield from self._rewrite(group, thin, transactions)
        return Cleaned(end, self._progress(), self._table.size, self._table.size / self._table.slots)

    def _progress(self) -> CleaningProgress:
        return CleaningProgress(self._mapped, self._read, self._written)

    def _map_keys(self) -> Generator[Step, None, Offset]:
        """Puts the last offset of each key in the dirty part into the table. Returns where that part ends; earlier than
        planned if the table is full."""
        work = self._work
        transactions = CleanedTransactions(each for each in work.aborted if each.last_offset >= work.clean_end)
        end = work.clean_end
        ends = [*(shape.base_offset for shape in work.segments[1:]), work.dirty_end]
        for shape, segment_end in zip(work.segments, ends, strict=True):
            if segment_end <= work.clean_end:
                continue
            for batch in self._batches_from(shape, work.clean_end):
                full_at = self._put(batch, transactions)
                if full_at is not None:
                    return max(end, full_at)
                end = max(end, batch.header.next_offset)
                self._mapped += batch.header.size
                if step := self._paid(batch.header.size):
                    yield step
            end = max(end, segment_end)
        return end

    def _batches_from(self, shape: SegmentShape, start: Offset) -> Iterator[ScannedBatch]:
        base = shape.base_offset
        segment = Segment(self._disk, self._work.directory, base, 0)
        first = segment.locate(start, blocking)
        if first is not None:
            for batch in scan(segment.file, first.position, base, below=self._ends[base]):
                if batch.header.base_offset >= self._work.dirty_end:
                    break
                yield batch
        segment.close()

    def _put(self, batch: ScannedBatch, transactions: CleanedTransactions) -> Offset | None:
        """The offset of the first record for which the table had no room; None if there is none."""
        header = batch.header
        if header.is_control:
            transactions.marker_met(header, parse_control(batch.data)[0].type if header.record_count else None)
            return None
        if transactions.data_met(header) or not header.record_count:
            return None
        return self._table.put_all(section(header, batch.data), self._work.clean_end, self._limit)

    def _rewrite(
        self, group: Sequence[SegmentShape], thin: Thinning, transactions: CleanedTransactions
    ) -> Generator[Step, None, None]:
        output = _Output(self._disk, self._work, group[0].base_offset)
        last_filled = max((at for at, shape in enumerate(group) if shape.size), default=-1)
        for at, shape in enumerate(group):
            file = self._disk.open(names.segment_file(self._work.directory, shape.base_offset, names.LOG))
            for batch in scan(file, 0, shape.base_offset, below=self._ends[shape.base_offset]):
                left: Buffer | None = batch.data
                if batch.header.base_offset < self._work.dirty_end:
                    # The last batch shows where the segment ends, and `interrupted` relies on that. So it stays.
                    is_last = at == last_filled and batch.position + batch.header.size == file.size
                    left = thin(batch.header, batch.data, is_last)
                size = 0 if left is None else len(left)
                if left is not None:
                    output.add(left)
                self._read += batch.header.size
                self._written += size
                if step := self._paid(batch.header.size + size):
                    yield step
            file.close()
        facts = yield from output.finish(self._aborted_in(group, transactions))
        yield Step(progress=Rewritten(tuple(shape.base_offset for shape in group), facts))

    def _aborted_in(self, group: Sequence[SegmentShape], transactions: CleanedTransactions) -> list[AbortedTransaction]:
        """The entries for the new segment's transaction index. Transactions that end beyond the cleaned part keep
        theirs."""
        kept = transactions.take_kept()
        if group[-1] == self._work.segments[-1]:
            untouched = range(self._work.dirty_end, self._work.end)
            kept += [each for each in self._work.aborted if each.last_offset in untouched]
        return kept

    def _paid(self, size: int) -> Step | None:
        """A step now and then, with the duration that log.cleaner.io.max.bytes.per.second demands."""
        self._unpaid += size
        if self._unpaid < self._piece:
            return None
        takes, self._unpaid = self._unpaid / self._work.bytes_per_second, 0
        return Step(progress=self._progress(), takes=takes)


class _Output:
    """A new segment with its indexes. The next start would delete files with these names."""

    def __init__(self, disk: Disk, work: Work, base: Offset) -> None:
        self._disk = disk
        self._interval = work.config.index_interval_bytes
        self._segment = Segment(disk, work.directory, base, 0, create=True, suffix=names.CLEANED)
        self._buffer = bytearray()
        self.size = 0

    def add(self, batch: Buffer) -> None:
        header = read_header(batch)
        self._segment.index_batch(self.size, header.size, header.last_offset, header.max_timestamp, self._interval)
        self._buffer += batch
        self.size += header.size
        if len(self._buffer) >= _STEP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._buffer:
            self._segment.file.append(self._buffer)
            self._buffer = bytearray()

    def finish(self, aborted: Sequence[AbortedTransaction]) -> Generator[Step, None, LoadedSegment]:
        self._flush()
        self._segment.close_indexes()
        for each in aborted:
            self._segment.aborted.append(each)
        yield Step()
        for file in self._segment.files:
            file.sync()
        yield Step()
        self._disk.sync_dir(self._segment.directory)
        facts = LoadedSegment.of(self._segment)
        self._segment.close()
        return facts
