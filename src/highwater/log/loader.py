"""Opening a log: what is on disk is checked as far as the last stop makes it necessary, and mended. A job.

After an unclean stop every segment at or beyond the recovery point is read whole; at the first batch that is not
intact the log is cut, and what lies beyond goes. Below the recovery point and after a clean stop only the indexes are
tested, and rebuilt where they contradict the log. What was once synced is never cut because it is damaged: such a log
is refused (CorruptLog), unless its file simply ends early.
"""

from __future__ import annotations

import errno
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import PurePath

from highwater.log import names, producer_snapshot
from highwater.log.checkpoint import BadCheckpoint, decode_epochs, read_file
from highwater.log.epoch_cache import EpochCache
from highwater.log.index import NO_TIMESTAMP, TimestampOffset
from highwater.log.partition_metadata import read_topic_id
from highwater.log.peek import blocking
from highwater.log.producer_snapshot import BadSnapshot
from highwater.log.producer_state import Producer, ProducerState
from highwater.log.scan import BadBatch, ScannedBatch, replay, scan
from highwater.log.segment import Segment
from highwater.model import Epoch, Offset, Uuid
from highwater.world import Disk, Step

_STEP_BYTES = 8 << 20
_SAMPLES = 64


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What the rest of the node knows of a log before it is opened."""

    directory: PurePath
    recovery_point: Offset
    log_start: Offset
    clean: bool
    index_interval: int


@dataclass(frozen=True, slots=True)
class LoadedSegment:
    base_offset: Offset
    created_ms: int
    largest: TimestampOffset
    time_index_last: TimestampOffset
    first_timestamp: int | None
    bytes_since_index: int


@dataclass(slots=True)
class LoadedLog:
    """All that a Log needs to begin, as plain values: a worker process may have found them."""

    directory: PurePath
    segments: list[LoadedSegment]
    log_start: Offset
    log_end: Offset
    durable_end: Offset
    epochs: list[tuple[Epoch, Offset]]
    producers: list[tuple[int, Producer]]
    topic_id: Uuid | None
    repairs: list[str] = field(default_factory=list)
    """What was cut, dropped or rebuilt, for the operator."""


class CorruptLog(OSError):
    """Bytes that were synced once are damaged in the middle: not ours to cut, the log stays offline."""


def load_log(disk: Disk, request: LoadRequest) -> Generator[Step, None, LoadedLog]:
    return (yield from _Loading(disk, request).run())


class _Loading:
    def __init__(self, disk: Disk, request: LoadRequest) -> None:
        self.disk = disk
        self.request = request
        self.directory = request.directory
        self.repairs: list[str] = []
        self.segments: list[Segment] = []
        self.epochs = EpochCache()
        self.epochs_trusted = True
        self.log_end = 0
        self.mended = False

    def run(self) -> Generator[Step, None, LoadedLog]:
        bases = self._sweep_leftovers()
        self._open(bases or [self.request.log_start])
        self._read_epochs()
        yield from self._check_segments()
        log_start = self._settle_log_start()
        yield from self._rebuild_epochs(log_start)
        producers = yield from self._rebuild_producers(log_start)
        if self.mended or not self.request.clean:
            yield from self._make_durable()
        loaded = [self._facts(segment) for segment in self.segments]
        for segment in self.segments:
            segment.close()
        return LoadedLog(
            directory=self.directory,
            segments=loaded,
            log_start=log_start,
            log_end=self.log_end,
            durable_end=self.log_end,
            epochs=self.epochs.entries,
            producers=sorted(producers.producers.items()),
            topic_id=read_topic_id(self.disk, self.directory),
            repairs=self.repairs,
        )

    def _sweep_leftovers(self) -> list[Offset]:
        """Remove what a deletion or an aborted write left; the base offsets of the segments that are there."""
        present = self.disk.list(self.directory)
        for name in list(present):
            if name.endswith((names.DELETED, names.CLEANED, ".tmp")):
                self.disk.unlink(self.directory / name)
                present.remove(name)
        logs = {name[: -len(names.LOG)] for name in present if name.endswith(names.LOG)}
        for name in present:
            stem, _, kind = name.partition(".")
            if f".{kind}" in (names.INDEX, names.TIME_INDEX, names.TXN_INDEX) and stem not in logs:
                self.disk.unlink(self.directory / name)
                self.repairs.append(f"removed {name}, which belongs to no segment")
        return sorted(int(stem) for stem in logs)

    def _open(self, bases: list[Offset]) -> None:
        for base in bases:
            path = names.segment_file(self.directory, base, names.LOG)
            status = self.disk.stat(path)
            has_index = self.disk.stat(names.segment_file(self.directory, base, names.INDEX)) is not None
            has_time_index = self.disk.stat(names.segment_file(self.directory, base, names.TIME_INDEX)) is not None
            segment = Segment(self.disk, self.directory, base, 0 if status is None else status.modified_ms, create=True)
            if status is not None and status.size and not (has_index and has_time_index):
                segment.bytes_since_index = -1
            self.segments.append(segment)

    def _read_epochs(self) -> None:
        data = read_file(self.disk, self.directory / names.EPOCH_CHECKPOINT)
        try:
            self.epochs = EpochCache(decode_epochs(data or b""))
        except (BadCheckpoint, ValueError) as bad:
            self.epochs_trusted = False
            if data is not None:
                self.repairs.append(f"{names.EPOCH_CHECKPOINT} is unreadable ({bad}); rebuilt from the log")

    def _check_segments(self) -> Generator[Step, None, None]:
        at = 0
        while at < len(self.segments):
            segment = self.segments[at]
            last = at == len(self.segments) - 1
            following = None if last else self.segments[at + 1].base_offset
            beyond = following is None or following > self.request.recovery_point
            if not self.request.clean and beyond:
                intact = yield from self._recover(segment)
                if not intact or (following is not None and self.log_end > following):
                    self._drop_after(at)
            else:
                yield from self._trust(segment, following)
            at += 1

    def _recover(self, segment: Segment) -> Generator[Step, None, bool]:
        """Read the segment whole and rebuild its indexes; False where it had to be cut."""
        self.log_end = max(self.log_end, segment.base_offset)
        segment.offset_index.file.truncate(0)
        segment.time_index.file.truncate(0)
        segment.time_index.last = NO_TIMESTAMP
        segment.largest, segment.first_timestamp, segment.bytes_since_index = NO_TIMESTAMP, None, 0
        self.mended = True
        reported = 0
        try:
            for batch in scan(segment.file, 0, self.log_end):
                self._reindex(segment, batch)
                if batch.header.leader_epoch > self.epochs.latest:
                    self.epochs.assign(batch.header.leader_epoch, batch.header.base_offset)
                self.log_end = batch.header.next_offset
                if batch.position - reported >= _STEP_BYTES:
                    reported = batch.position
                    yield Step(progress=reported)
        except BadBatch as bad:
            synced = self.request.clean or self.log_end < self.request.recovery_point
            if synced and not bad.cut_off:
                raise CorruptLog(errno.EIO, f"damaged below the recovery point, {bad}", str(segment.file.path)) from bad
            cut = segment.size - bad.position
            self.repairs.append(f"cut {cut} bytes off {segment.file.path.name} {bad}")
            segment.file.truncate(bad.position)
            segment.close_time_index()
            return False
        segment.close_time_index()
        return True

    def _reindex(self, segment: Segment, batch: ScannedBatch) -> None:
        header = batch.header
        if segment.first_timestamp is None:
            segment.first_timestamp = header.max_timestamp
        if header.max_timestamp > segment.largest.timestamp:
            segment.largest = TimestampOffset(header.max_timestamp, header.last_offset)
        if segment.bytes_since_index > self.request.index_interval:
            segment.offset_index.append(header.last_offset, batch.position)
            segment.time_index.maybe_append(segment.largest)
            segment.bytes_since_index = 0
        segment.bytes_since_index += header.size

    def _drop_after(self, at: int) -> None:
        for segment in self.segments[at + 1 :]:
            self.repairs.append(f"dropped {segment.file.path.name}, which lies beyond the cut")
            for path in segment.rename(names.DELETED):
                self.disk.unlink(path)
        del self.segments[at + 1 :]

    def _trust(self, segment: Segment, following: Offset | None) -> Generator[Step, None, None]:
        """The batches are known to be whole: find the end, test the indexes, rebuild them where they lie."""
        if segment.bytes_since_index < 0 or not _indexes_hold(segment):
            self.repairs.append(f"rebuilt the indexes of {segment.file.path.name}")
            yield from self._recover(segment)
            return
        segment.time_index.last = segment.largest = (
            segment.time_index.entry(segment.time_index.entries - 1, blocking)
            if segment.time_index.entries
            else NO_TIMESTAMP
        )
        first = segment.locate(segment.base_offset, blocking)
        if first is not None:
            segment.first_timestamp = next(scan(segment.file, first.position, 0, check=False)).header.max_timestamp
        if following is not None:
            self.log_end = following
            return
        self.log_end = max(self.log_end, segment.base_offset)
        indexed = segment.offset_index.entries
        start = segment.offset_index.entry(indexed - 1, blocking)[1] if indexed else 0
        try:
            for batch in scan(segment.file, start, segment.base_offset, check=False):
                self.log_end = batch.header.next_offset
                if batch.header.max_timestamp > segment.largest.timestamp:
                    segment.largest = TimestampOffset(batch.header.max_timestamp, batch.header.last_offset)
        except BadBatch:
            yield from self._recover(segment)
            return
        segment.bytes_since_index = segment.size - start
        yield Step()

    def _settle_log_start(self) -> Offset:
        log_start = max(self.request.log_start, self.segments[0].base_offset)
        if log_start <= self.log_end:
            return log_start
        self.repairs.append(f"the log ended at {self.log_end}, before its start {log_start}: emptied")
        self._drop_after(-1)
        self.epochs.clear()
        self.segments.append(Segment(self.disk, self.directory, log_start, 0, create=True))
        self.log_end = log_start
        self.mended = True
        return log_start

    def _rebuild_epochs(self, log_start: Offset) -> Generator[Step, None, None]:
        if not self.epochs_trusted:
            self.epochs.clear()
            for segment in self.segments:
                for batch in scan(segment.file, 0, segment.base_offset, check=False):
                    if batch.header.leader_epoch > self.epochs.latest:
                        self.epochs.assign(batch.header.leader_epoch, batch.header.base_offset)
                yield Step()
        self.epochs.truncate_end(self.log_end)
        self.epochs.truncate_start(log_start)

    def _rebuild_producers(self, log_start: Offset) -> Generator[Step, None, ProducerState]:
        producers = ProducerState()
        start = log_start
        snapshots = [name for name in self.disk.list(self.directory) if name.endswith(names.SNAPSHOT)]
        for name in sorted(snapshots, reverse=True):
            offset = names.base_offset_of(name)
            if offset > self.log_end or offset < log_start:
                self.disk.unlink(self.directory / name)
                continue
            try:
                producers.restore_all(producer_snapshot.decode(read_file(self.disk, self.directory / name) or b""))
            except BadSnapshot as bad:
                self.repairs.append(f"removed {name}: {bad}")
                self.disk.unlink(self.directory / name)
                continue
            start = offset
            break
        self._prune_snapshots(start)
        for segment, following in zip(self.segments, [*self.segments[1:], None], strict=True):
            if following is not None and following.base_offset <= start:
                continue
            first = segment.locate(start, blocking)
            if first is not None:
                for batch in scan(segment.file, first.position, 0, check=False):
                    if batch.header.base_offset >= start:
                        replay(batch, producers, None)
            yield Step()
        return producers

    def _prune_snapshots(self, newest: Offset) -> None:
        """Snapshots of earlier stops, which no segment begins at, are of no more use."""
        bases = {segment.base_offset for segment in self.segments}
        for name in self.disk.list(self.directory):
            if name.endswith(names.SNAPSHOT) and names.base_offset_of(name) not in bases | {newest}:
                self.disk.unlink(self.directory / name)

    def _make_durable(self) -> Generator[Step, None, None]:
        """What was just found readable may still be in memory only: sync it before anyone is told of it."""
        for segment in self.segments:
            if segment.base_offset >= self.request.recovery_point or segment is self.segments[-1] or self.mended:
                for file in segment.files:
                    file.sync()
                yield Step()
        self.disk.sync_dir(self.directory)

    def _facts(self, segment: Segment) -> LoadedSegment:
        return LoadedSegment(
            segment.base_offset,
            segment.created_ms,
            segment.largest,
            segment.time_index.last,
            segment.first_timestamp,
            segment.bytes_since_index,
        )


def _indexes_hold(segment: Segment) -> bool:
    """Sampled, strictly rising entries that point at batches whose header says the same."""
    offsets, times = segment.offset_index, segment.time_index
    if offsets.file.size % 8 or times.file.size % 12:
        return False
    previous = (segment.base_offset - 1, -1)
    for at in _sample(offsets.entries):
        offset, position = offsets.entry(at, blocking)
        if offset <= previous[0] or position <= previous[1] or not 0 <= position < segment.size:
            return False
        found = segment.scan_for(segment.base_offset, position, blocking)
        if found is None or found.position != position or found.last_offset != offset:
            return False
        previous = (offset, position)
    previous_time = NO_TIMESTAMP
    for at in _sample(times.entries):
        entry = times.entry(at, blocking)
        if entry.timestamp <= previous_time.timestamp or entry.offset < segment.base_offset:
            return False
        batch = segment.locate(entry.offset, blocking)
        if batch is None or batch.last_offset != entry.offset:
            return False
        if next(scan(segment.file, batch.position, 0, check=False)).header.max_timestamp != entry.timestamp:
            return False
        previous_time = entry
    return True


def _sample(entries: int) -> list[int]:
    """All where there are few, evenly spaced ones and the last where there are many."""
    if entries <= _SAMPLES:
        return list(range(entries))
    return [*range(0, entries - 1, entries // _SAMPLES), entries - 1]
