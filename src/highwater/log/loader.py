"""Recovery: opens a log, checks as much of it as the last stop makes necessary, and repairs it. A job.

After an unclean stop every segment at or beyond the recovery point is read whole. The log is cut at the first batch
that is not intact, and at a gap that must not be there; everything after that is dropped. Below the recovery point, and
after a clean stop, only the indexes are checked, and rebuilt if they contradict the log. Data that was synced is never
cut because it is damaged. Such a log is refused (CorruptLog), unless its last file simply ends early.
"""

from __future__ import annotations

import contextlib
import errno
from bisect import bisect_right
from collections.abc import Generator, Iterator

from highwater.log import names, producer_snapshot
from highwater.log.checkpoint import BadCheckpoint, decode_epochs, encode_epochs, read_file, replace_file
from highwater.log.compaction.interrupted import finish_swaps
from highwater.log.epoch_cache import EpochCache
from highwater.log.index import NO_TIMESTAMP, TransactionIndex
from highwater.log.loaded import CorruptLog, LoadedLog, LoadedSegment, LoadRequest
from highwater.log.mark import Mark
from highwater.log.partition_metadata import read_topic_id
from highwater.log.peek import blocking
from highwater.log.producer_snapshot import BadSnapshot
from highwater.log.producer_state import AbortedTransaction, ProducerState
from highwater.log.scan import BadBatch, ScannedBatch, follow_producer, intact_batch_follows, scan
from highwater.log.segment import MAX_RELATIVE_OFFSET, Segment
from highwater.log.soundness import entries_hold, indexes_hold, max_timestamp_at
from highwater.model import Offset
from highwater.wire import records
from highwater.wire.records import HEADER_SIZE
from highwater.world import Disk, Step

_STEP_BYTES = 8 << 20


def load_log(disk: Disk, request: LoadRequest) -> Generator[Step, None, LoadedLog]:
    try:
        return (yield from _Loading(disk, request).run())
    except BadBatch as bad:
        raise CorruptLog(errno.EIO, f"damaged {bad}", str(request.directory)) from bad


class _Loading:
    def __init__(self, disk: Disk, request: LoadRequest) -> None:
        self.disk = disk
        self.request = request
        self.directory = request.directory
        self.repairs: list[str] = []
        self.segments: list[Segment] = []
        self.epochs = EpochCache()
        self.epochs_on_disk: bytes | None = None
        self.epochs_trusted = True
        self.log_end = 0
        self.gap: str | None = None
        self.lost: str | None = None
        self.begun: set[Offset] = set()
        """Where segments began whose log file is gone, by their indexes. A producer snapshot says less: each clean stop
        leaves one, amid a segment."""
        self.orphans: set[Offset] = set()
        self.written: set[Offset] = set()
        """Base offsets of segments whose files were written to."""
        self.contradicted: set[Offset] = set()
        """Base offsets of segments with index entries that do not match the batches."""
        self.unindexed: set[Offset] = set()
        """Base offsets of segments whose list of aborted transactions must be rebuilt."""

    def run(self) -> Generator[Step, None, LoadedLog]:
        bases = self._drop_deleted(self._sweep_leftovers())
        self._open(bases or [self.request.log_start])
        self._read_epochs()
        yield from self._check_segments()
        log_start = self._settle_log_start()
        yield from self._rebuild_epochs(log_start)
        producers = yield from self._rebuild_producers()
        if self.written or self.repairs or not self.request.clean:
            yield from self._make_durable()
        loaded = [LoadedSegment.of(segment) for segment in self.segments]
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
            gap=self.gap,
            lost=self.lost,
            orphans=tuple(sorted(self.orphans)),
            mark=self._read_mark(),
            repairs=self.repairs,
        )

    def _read_mark(self) -> Mark | None:
        """What an earlier start wrote down, unless it was about segments that are gone."""
        path = self.directory / names.DAMAGE_MARK
        data = read_file(self.disk, path)
        if data is None:
            return None
        mark = Mark.decode(data).holds_with([each.file.path.name for each in self.segments])
        if mark is None:
            self.disk.unlink(path)
        return mark

    def _sweep_leftovers(self) -> list[Offset]:
        """Removes leftovers of deletions and interrupted writes. Returns the base offsets of the segments."""
        self.repairs += finish_swaps(self.disk, self.directory)
        present = self.disk.list(self.directory)
        for name in list(present):
            if name.endswith((names.DELETED, names.ASIDE)):
                with contextlib.suppress(FileNotFoundError):  # an earlier process may still be deleting it
                    self.disk.unlink(self.directory / name)
                present.remove(name)
        logs = {name[: -len(names.LOG)] for name in present if name.endswith(names.LOG)}
        begun = (name.partition(".")[0] for name in present if name.endswith(names.INDEX))
        self.begun = {int(stem) for stem in begun if stem not in logs}
        for name in present:
            stem, _, kind = name.partition(".")
            if f".{kind}" in (names.INDEX, names.TIME_INDEX, names.TXN_INDEX) and stem not in logs:
                self.disk.unlink(self.directory / name)
                self.repairs.append(f"removed {name}, which belongs to no segment")
                self.orphans.add(int(stem))
        return sorted(int(stem) for stem in logs)

    def _drop_deleted(self, bases: list[Offset]) -> list[Offset]:
        """Deletes segments that end at or before the log start. A power cut may bring back some of the segments that
        retention had renamed, and the gaps between them would look like losses."""
        first = max(bisect_right(bases, self.request.log_start) - 1, 0)
        for base in bases[:first]:
            for path in Segment(self.disk, self.directory, base, 0).rename(names.DELETED):
                self.disk.unlink(path)
        return bases[first:]

    def _open(self, bases: list[Offset]) -> None:
        for base in bases:
            path = names.segment_file(self.directory, base, names.LOG)
            status = self.disk.stat(path)
            has_index = self.disk.stat(names.segment_file(self.directory, base, names.INDEX)) is not None
            has_time_index = self.disk.stat(names.segment_file(self.directory, base, names.TIME_INDEX)) is not None
            modified_ms = 0 if status is None else status.modified_ms
            aborted = self._read_aborted(base)
            segment = Segment(self.disk, self.directory, base, modified_ms, create=True, aborted=aborted)
            if status is not None and status.size and not (has_index and has_time_index):
                segment.bytes_since_index = -1
            self.segments.append(segment)

    def _read_aborted(self, base: Offset) -> list[AbortedTransaction]:
        path = names.segment_file(self.directory, base, names.TXN_INDEX)
        data = read_file(self.disk, path)
        if data is None:
            return []
        try:
            entries = TransactionIndex.decode(data)
            if entries[0].last_offset < base:
                raise ValueError(f"{entries[0]} lies before the segment")
            return entries
        except ValueError as bad:
            self.repairs.append(f"{path.name} is unreadable ({bad}); rebuilt from the log")
            self.unindexed.add(base)
            self.disk.unlink(path)
            return []

    def _read_epochs(self) -> None:
        data = self.epochs_on_disk = read_file(self.disk, self.directory / names.EPOCH_CHECKPOINT)
        try:
            entries = decode_epochs(data or b"")
            self.epochs = EpochCache(entries)
            if self.epochs.entries != entries:
                raise BadCheckpoint("its entries do not rise")
        except ValueError as bad:
            self.epochs.clear()
            self.epochs_trusted = False
            if data is not None:
                self.repairs.append(f"{names.EPOCH_CHECKPOINT} is unreadable ({bad}); rebuilt from the log")

    def _check_segments(self) -> Generator[Step, None, None]:
        at = 0
        while at < len(self.segments):
            segment = self.segments[at]
            following = None if at == len(self.segments) - 1 else self.segments[at + 1].base_offset
            if self.request.clean or (following is not None and following <= self.request.recovery_point):
                yield from self._trust(segment, following)
                intact = True
            else:
                intact = yield from self._recover(segment, following)
            if following is not None and self._ends_the_log(segment, following, intact):
                self._drop_after(at)
            at += 1

    def _ends_the_log(self, segment: Segment, following: Offset, intact: bool) -> bool:
        """Whether the segments after this one do not continue it and must be dropped. If they were synced, the log is
        refused instead."""
        if intact and self.log_end == following:
            return False
        if intact and self.log_end < following:
            # The kernel writes files back in any order: the end of this segment may be lost while the next one is
            # there. This holds for compacted topics, too: a segment begins where the last one ended, and cleaning keeps
            # that.
            unsynced = self.log_end >= self.request.recovery_point and not self.request.clean
            if unsynced and following > self.request.clean_end:
                self.repairs.append(f"{segment.file.path.name} ends at {self.log_end}, before {following}")
                return True
            if segment.base_offset in self.contradicted:
                why = f"ends at {self.log_end}, before its indexes do; the next begins at {following}"
                raise CorruptLog(errno.EIO, why, str(segment.file.path))
            missing = f"has no records from {self.log_end} to {following - 1}: a segment is missing"
            if self.log_end in self.begun and self.lost is None:
                self.lost = missing
            if following > self.request.clean_end and self.gap is None:
                self.gap = missing
            return False  # compaction by other programs and by earlier versions leaves gaps between segments
        behind = self.segments[self.segments.index(segment) + 1 :]
        synced = self.request.clean or following < self.request.recovery_point
        if synced and any(each.size for each in behind):
            raise CorruptLog(errno.EIO, f"ends at {self.log_end}, the next begins at {following}", str(self.directory))
        return True

    def _recover(self, segment: Segment, following: Offset | None) -> Generator[Step, None, bool]:
        """Reads the whole segment and rebuilds its indexes. False if it had to be cut.

        No checksum covers the base offset of a batch. A batch with an offset beyond its segment is damaged. If a batch
        left a gap and the next one goes back, the first of the two is the damaged one.
        """
        self.log_end = max(self.log_end, segment.base_offset)
        segment.offset_index.keep(0)
        segment.time_index.keep(0, NO_TIMESTAMP)
        segment.largest, segment.first_timestamp, segment.bytes_since_index = NO_TIMESTAMP, None, 0
        self.written.add(segment.base_offset)
        if segment.aborted.entries:
            self.unindexed.add(segment.base_offset)
        reported = 0
        leapt: tuple[int, Offset] | None = None
        """The last batch, if there is a gap before it: its position, and the log end before it."""
        try:
            for batch in _batches(segment, 0, self.log_end, following):
                leapt = (batch.position, self.log_end) if batch.header.base_offset > self.log_end else None
                self._reindex(segment, batch)
                self.log_end = batch.header.next_offset
                if batch.position - reported >= _STEP_BYTES:
                    reported = batch.position
                    yield Step(progress=reported)
        except BadBatch as bad:
            position = bad.position
            if leapt is not None and bad.goes_back:
                position, self.log_end = leapt
            self._judge(segment, following, bad)
            self.repairs.append(f"cut {segment.size - position} bytes off {segment.file.path.name} {bad}")
            if position < bad.position:
                segment.cut(segment.plan_cut(position, self.log_end))
            else:
                segment.file.truncate(position)
            segment.close_indexes()
            return False
        segment.close_indexes()
        return True

    def _judge(self, segment: Segment, following: Offset | None, bad: BadBatch) -> None:
        """Raises CorruptLog if the bad batch was synced and is not just the cut-off end of the last file."""
        if not self.request.clean and self.log_end >= self.request.recovery_point:
            return
        ends_early = bad.cut_off and following is None
        if not ends_early or intact_batch_follows(segment.file, bad.position, self.log_end):
            raise CorruptLog(errno.EIO, f"damaged below the recovery point, {bad}", str(segment.file.path)) from bad

    def _reindex(self, segment: Segment, batch: ScannedBatch) -> None:
        header = batch.header
        self._check_epoch(header)
        if header.is_control and header.producer_id >= 0:
            self.unindexed.add(segment.base_offset)
        segment.index_batch(
            batch.position, header.size, header.last_offset, header.max_timestamp, self.request.index_interval
        )

    def _check_epoch(self, header: records.Header) -> None:
        """The checkpoint of the epochs may lack the last ones, or have one that the log has corrected since."""
        epoch, log_start = header.leader_epoch, self.request.log_start
        if epoch > self.epochs.latest:
            self.epochs.assign(epoch, header.base_offset)
        elif header.next_offset > log_start and self.epochs.epoch_at(max(header.base_offset, log_start)) != epoch:
            self.epochs_trusted = False

    def _drop_after(self, at: int) -> None:
        for segment in reversed(self.segments[at + 1 :]):
            self.repairs.append(f"dropped {segment.file.path.name}, which lies beyond the cut")
            for path in segment.rename(names.DELETED):
                self.disk.unlink(path)
        del self.segments[at + 1 :]

    def _trust(self, segment: Segment, following: Offset | None) -> Generator[Step, None, None]:
        """The batches are known to be whole. Finds the end, checks the indexes, and rebuilds them if they are wrong."""
        is_indexed = segment.bytes_since_index >= 0
        if not is_indexed or not indexes_hold(segment, self.request.index_interval):
            if is_indexed and not entries_hold(segment):
                self.contradicted.add(segment.base_offset)
            self.repairs.append(f"rebuilt the indexes of {segment.file.path.name}")
            yield from self._recover(segment, following)
            return
        entries = segment.time_index.entries
        segment.time_index.last = segment.largest = (
            segment.time_index.entry(entries - 1, blocking) if entries else NO_TIMESTAMP
        )
        if segment.size:
            segment.first_timestamp = max_timestamp_at(segment, 0)
        self.log_end = max(self.log_end, segment.base_offset)
        indexed = segment.offset_index.entries
        start = segment.offset_index.entry(indexed - 1, blocking)[1] if indexed else 0
        for batch in _batches(segment, start, segment.base_offset, check=False):
            self.log_end = batch.header.next_offset
        segment.bytes_since_index = segment.size - start
        yield Step()

    def _settle_log_start(self) -> Offset:
        log_start = max(self.request.log_start, self.segments[0].base_offset)
        if log_start <= self.log_end:
            return log_start
        self.repairs.append(f"the log ended at {self.log_end}, before its start {log_start}: emptied")
        self._drop_after(-1)
        self.epochs.clear()
        self.unindexed.clear()
        self.segments.append(Segment(self.disk, self.directory, log_start, 0, create=True))
        self.log_end = log_start
        return log_start

    def _rebuild_epochs(self, log_start: Offset) -> Generator[Step, None, None]:
        if not self.epochs_trusted or self._epochs_begin_late(log_start):
            self.epochs.clear()
            for segment in self.segments:
                for batch in scan(segment.file, 0, segment.base_offset, check=False):
                    self.epochs.follow(batch.header.leader_epoch, batch.header.base_offset)
                yield Step()
        self.epochs.truncate_end(self.log_end)
        self.epochs.truncate_start(log_start)
        content = encode_epochs(self.epochs.entries)
        if content != self.epochs_on_disk and (self.epochs.entries or self.epochs_on_disk is not None):
            yield from replace_file(self.disk, self.directory / names.EPOCH_CHECKPOINT, content)

    def _epochs_begin_late(self, log_start: Offset) -> bool:
        """Whether epochs are missing at the log start. A raised log start removes the epochs below it, but it may not
        have reached its own checkpoint."""
        for segment in self.segments:
            first = segment.locate(log_start, blocking)
            if first is not None:
                header = records.read_header(segment.file.read(first.position, HEADER_SIZE))
                return self.epochs.epoch_at(max(first.base_offset, log_start)) < header.leader_epoch
        return False

    def _rebuild_producers(self) -> Generator[Step, None, ProducerState]:
        """Rebuilds the producers from the newest usable snapshot and the batches after it, even those below the log
        start."""
        producers = ProducerState()
        start = self._restore_snapshot(producers)
        for segment in self.segments:
            if segment.base_offset in self.unindexed:
                segment.aborted.keep(0)
                self.written.add(segment.base_offset)
        for segment, following in zip(self.segments, [*self.segments[1:], None], strict=True):
            if following is not None and following.base_offset <= start:
                continue
            first = segment.locate(start, blocking)
            if first is not None:
                for batch in scan(segment.file, first.position, 0, check=False):
                    if batch.header.base_offset >= start:
                        aborted = follow_producer(batch.header, batch.data, producers)
                        if aborted is not None and segment.base_offset in self.unindexed:
                            segment.aborted.append(aborted)
            yield Step()
        return producers

    def _restore_snapshot(self, producers: ProducerState) -> Offset:
        """Restores the snapshot to begin with, and returns its offset. Removes snapshots that are no longer useful."""
        bases = [segment.base_offset for segment in self.segments]
        not_beyond = min(self.unindexed, default=self.log_end)
        newest, start = None, None
        for name in reversed(self.disk.list(self.directory)):
            if not name.endswith(names.SNAPSHOT):
                continue
            offset = names.base_offset_of(name)
            useful = bases[0] <= offset <= self.log_end and (newest is None or offset in bases)
            if useful and start is None:
                try:
                    found = producer_snapshot.decode(read_file(self.disk, self.directory / name) or b"")
                    newest = offset if newest is None else newest
                    if offset <= not_beyond:
                        producers.restore_all(found)
                        start = offset
                except BadSnapshot as bad:
                    self.repairs.append(f"removed {name}: {bad}")
                    useful = False
            if not useful:
                self.disk.unlink(self.directory / name)
        return bases[0] if start is None else start

    def _make_durable(self) -> Generator[Step, None, None]:
        """What was just read may be in memory only, so it is synced before it is reported to other nodes.

        Files below the recovery point are durable, and there may be thousands of them. They are left out."""
        for segment in self.segments:
            if segment.base_offset in self.written or segment is self.segments[-1]:
                for file in segment.files:
                    file.sync()
                yield Step()
        self.disk.sync_dir(self.directory)


def _batches(
    segment: Segment, position: int, next_offset: Offset, following: Offset | None = None, check: bool = True
) -> Iterator[ScannedBatch]:
    """As `scan`, with an upper bound for offsets: an index cannot hold an offset that is too far from the base offset,
    and offsets from `following` on belong to the next segment."""
    end = segment.base_offset + MAX_RELATIVE_OFFSET + 1 if following is None else following
    return scan(segment.file, position, next_offset, check=check, below=end)
