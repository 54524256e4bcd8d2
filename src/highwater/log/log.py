"""The log of one partition. It is appended at its end and read anywhere. It has two ends: written and durable."""

from __future__ import annotations

import logging
from asyncio import Future
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from highwater.config import LogConfig
from highwater.errors import Code, KafkaError
from highwater.log import names
from highwater.log.appended import Appended, Origin
from highwater.log.checkpoint import CheckpointFile, encode_epochs
from highwater.log.durability import Durability
from highwater.log.epoch_cache import EpochCache
from highwater.log.integrity import Damaged
from highwater.log.loaded import Incomplete, LoadedLog
from highwater.log.peek import Peek
from highwater.log.places import Generation, Place
from highwater.log.producer_state import AbortedTransaction, BatchSeen, ProducerState
from highwater.log.reads import Reads
from highwater.log.scan import BadBatch, follow_producer
from highwater.log.segment import MAX_RELATIVE_OFFSET, Segment, new_segment
from highwater.log.snapshots import ProducerSnapshots
from highwater.model import Epoch, Offset, TopicPartition, Uuid
from highwater.wire import records
from highwater.wire.records.append import Validated
from highwater.world import Exhausted, File, FileSlice, Poisoned, World, is_passing
from highwater.world.boundary import as_os_error

if TYPE_CHECKING:
    from random import Random

_log = logging.getLogger(__name__)


class Log:
    """Not thread-safe: only the event loop uses it. Blocking work on its files runs in jobs of other modules."""

    def __init__(
        self,
        world: World,
        partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        loaded: LoadedLog,
        jitter: Random,
        troubled: Callable[[Log], None],
    ) -> None:
        self._world, self.failures = world, world.failures
        self._wall_ms = world.clock.wall_ms
        self.partition, self.topic_id = partition, topic_id
        self.config = config
        self.directory = loaded.directory
        self._jitter, self._troubled = jitter, troubled
        self.offline: OSError | None = None
        self.incomplete: Incomplete | None = None
        self.unwritten: OSError | None = None  # why the last append failed, if the next one may succeed
        self.log_start, self.log_end = loaded.log_start, loaded.log_end
        self.high_watermark = loaded.log_start
        self.segments = [facts.opened(world.disk, self.directory) for facts in loaded.segments]
        self._bases = [facts.base_offset for facts in loaded.segments]
        self._roll_jitter_ms = self._draw_jitter()
        self.epoch_cache = EpochCache(loaded.epochs)
        self.producers = ProducerState()
        self.producers.restore_all(loaded.producers)
        self.reads = Reads(world, self)
        self.is_only_copy: Callable[[], bool] = lambda: True
        """Whether no other replica is known to have every committed record. The partition sets it."""
        self.generation = Generation()
        ends = (self.log_start, loaded.durable_end)
        callbacks = (self._durable_moved, self.storage_failed)
        self.durability = Durability(world, self.directory, *ends, self.unsynced, *callbacks)
        self.durable_listener: Callable[[], None] = lambda: None
        self.epoch_file = CheckpointFile(
            world,
            self.directory / names.EPOCH_CHECKPOINT,
            lambda: encode_epochs(self.epoch_cache.entries),
            self._job_failed,
        )
        self._recovery_point = loaded.durable_end
        self.snapshots = ProducerSnapshots(world, self.directory)
        self.clean_end: Offset | None = None
        """The end of the compacted part: below it each key has one record. None if the log was never compacted."""
        self.swapping: Future[None] | None = None
        """Set while a compacted segment replaces others: the log must not be cut until then."""
        self._closed = False

    @property
    def durable_end(self) -> Offset:
        return self.durability.durable_end

    @property
    def recovery_point(self) -> Offset:
        """Where recovery may begin. Below it batches, closed indexes and epochs are durable."""
        if self.epoch_file.in_step:
            self._recovery_point = self.durable_end
        return self._recovery_point

    @property
    def trouble(self) -> OSError | None:
        """The reason why another copy should replace this log: it is offline, lacks records, or a read found damage."""
        return self.offline or self.incomplete or next(iter(self.reads.damage.values()), None)

    @property
    def is_usable(self) -> bool:  # it is neither offline nor closed, so work on its files still matters
        return self.offline is None and not self._closed

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def flush_each_append(self) -> bool:  # flush mode: nothing counts before it is durable
        return self.config.flush_messages == 1

    # Appending

    def append_as_leader(self, batch: Validated, leader_epoch: Epoch, origin: Origin) -> Appended:
        """Give the batch the next offsets and write it. If that raises KafkaError, nothing of the batch is kept."""
        header = batch.header
        if header.producer_id >= 0 and origin is not Origin.RAFT_LEADER and not header.is_control:
            seen = self._check_producer(header)
            if seen is not None:
                return Appended(seen.first_offset, seen.last_offset, seen.timestamp, duplicate=True)
        base = self.log_end
        records.stamp(batch.data, 0, base, leader_epoch)
        # The same as header._replace, in a fifth of the time.
        self._write(batch.data, records.Header._make((base, header[1], leader_epoch, *header[3:])))
        return Appended(base, self.log_end - 1, batch.log_append_time)

    def _check_producer(self, header: records.Header) -> BatchSeen | None:
        """The earlier batch that this one repeats, if any. Raises KafkaError if the sequence is out of order."""
        seen = self.producers.find_duplicate(
            header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence
        )
        if seen is None:
            self.producers.check(header.producer_id, header.producer_epoch, header.base_sequence)
        return seen

    def append_as_follower(self, data: memoryview) -> None:
        """Append whole batches of the leader, with its offsets. They are checked and then written unchanged."""
        try:
            batches = list(records.walk(data))
        except records.BadRecords as bad:
            raise KafkaError(Code.CORRUPT_MESSAGE, str(bad)) from bad
        for position, size, header in batches:
            batch = data[position : position + size]
            if not records.is_intact(batch):
                raise KafkaError(Code.CORRUPT_MESSAGE, f"a fetched batch at {header.base_offset} has a bad checksum")
            if header.base_offset < self.log_end or header.last_offset_delta < 0:
                why = f"fetched offset {header.base_offset}, the log ends at {self.log_end}"
                raise KafkaError(Code.OFFSET_OUT_OF_RANGE, why)
            self._write(batch, header)

    def _write(self, data: bytearray | memoryview, header: records.Header) -> None:
        if self.offline is not None:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, f"the log is offline: {self.offline}")
        base, last_offset, max_timestamp = header.base_offset, header.last_offset, header.max_timestamp
        config, active = self.config, self.segments[-1]
        try:
            if active.is_full_for(len(data), last_offset, max_timestamp, config, self._roll_jitter_ms, self._wall_ms):
                # A segment begins at the log end, even if the batch is after a gap: a gap between segments is a loss.
                self.roll(base if last_offset - self.log_end > MAX_RELATIVE_OFFSET else self.log_end)
                active = self.segments[-1]
            position = active.append(data, last_offset, max_timestamp, config.index_interval_bytes)
        except Exception as failed:  # the partition's boundary
            self._not_written(failed)
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(failed)) from failed
        self.unwritten = None
        self.log_end = last_offset + 1
        self.reads.written(base, Place(active.base_offset, position, len(data)))
        if max_timestamp < 0:
            active.modified_ms = self._wall_ms()
        if header.leader_epoch != self.epoch_cache.latest and self.epoch_cache.follow(header.leader_epoch, base):
            self.epoch_file.write()
        if header.producer_id >= 0:
            aborted = follow_producer(header, memoryview(data), self.producers)
            if aborted is not None:
                self._add_aborted(aborted)
        if self.log_end - self.durability.durable_end >= config.flush_messages:
            self.flush()

    def _not_written(self, failed: Exception) -> None:
        """If room was short and nothing was kept, a later append may succeed. Any other failure takes the log offline:
        it must not keep the lead from replicas that can be written. But the only copy can be read at least."""
        is_poisoned = isinstance(failed, Poisoned)
        if isinstance(failed, OSError) and not is_poisoned and (is_passing(failed) or self.is_only_copy()):
            self.unwritten = failed
            if self.failures.is_news(line := f"{self.partition}: append failed, nothing was kept: {failed}"):
                _log.error("%s", line)
        else:
            self.storage_failed(failed)

    def _add_aborted(self, aborted: AbortedTransaction) -> None:
        """Without the entry readers would see aborted records: better no log than that (KAFKA-7866). If only room or
        descriptors are short, it is written when the segment is closed, or recovery rebuilds it."""
        try:
            self.active.aborted.append(aborted)
        except OSError as failed:
            if is_passing(failed) and not isinstance(failed, Poisoned):
                _log.error("%s: an aborted transaction is not in its index yet: %s", self.partition, failed)
            else:
                self.storage_failed(failed)

    def assign_epoch(self, epoch: Epoch, start: Offset) -> None:
        if self.epoch_cache.assign(epoch, start):
            self.epoch_file.write()

    # Rolling

    def roll(self, base_offset: Offset | None = None) -> None:
        """Close the active segment and begin the next one. The old one is synced in the background."""
        base = self.log_end if base_offset is None else base_offset
        old = self.active
        if base <= old.base_offset:
            return
        old.close_indexes()
        self.segments.append(self._new_segment(base))
        self._bases.append(base)
        self._roll_jitter_ms = self._draw_jitter()
        self.durability.directory_changed = True
        self.snapshots.write(base, self.producers.snapshot(), self._snapshot_written)
        self.flush()

    def _draw_jitter(self) -> int:
        limit = min(self.config.segment_jitter_ms, self.config.roll_ms)
        return self._jitter.randrange(limit) if limit > 0 else 0

    def _snapshot_written(self, result: Exception | None) -> None:
        if result is not None:
            self._job_failed(result)

    # Durability

    def flush(self) -> None:
        """Begin to sync everything that is written now."""
        if self.offline is None:
            self.durability.flush()

    def unsynced(self) -> tuple[Offset, Sequence[File]]:
        """The log end, and the files to sync. Recovery rebuilds the indexes of the active segment, so they are left
        out. The segment of the last durable record is included again: it may have been rolled since."""
        behind = self.segment_of(self.durability.durable_end - 1)
        files = [file for segment in self.segments[behind:-1] for file in segment.files]
        return self.log_end, [*files, self.active.file]

    def _durable_moved(self) -> None:
        self.durable_listener()

    def _job_failed(self, failed: Exception) -> bool:
        """A file beside the log was not written. True if it should be tried again, because room was short."""
        if self._closed:
            return False
        if is_passing(failed):
            _log.error("%s: a file beside the log is not written yet: %s", self.partition, failed)
            return True
        self.storage_failed(failed)
        return False

    def storage_failed(self, failed: Exception) -> None:
        """The disk failed, or the program has a bug. The log goes offline, so that another replica leads."""
        if self.offline is None and not self._closed:
            if not isinstance(failed, OSError):
                self._world.failures.note("partition", str(self.partition), failed)
                failed = as_os_error(failed)
            _log.error("%s goes offline: %s", self.partition, failed)
            self.offline = failed
            self.durability.stop()
            self._troubled(self)

    def read_failed(self, failed: OSError) -> None:
        """A job could not read the log. A lack of file descriptors is no fault of the disk."""
        if isinstance(failed, Exhausted):
            _log.warning("%s is not read yet: %s", self.partition, failed)
        else:
            self.storage_failed(failed)

    def found_damaged(self, bad: BadBatch) -> None:
        """The batch and what follows it are no longer read. The owner of the log decides what replaces it."""
        base = names.base_offset_of(bad.path.name)
        known = self.reads.damage.get(base)
        if base in self._bases and (known is None or bad.position < known.position):
            damage = self.reads.damage[base] = Damaged(bad)
            _log.error("%s: %s", self.partition, damage)
            self._troubled(self)

    def contradicted(self, why: str, highest: Epoch) -> None:
        """The leader's log shows that this one is damaged: where an epoch above the `highest` one begins, or at the
        end. No checksum covers the offset and the epoch of a batch."""
        is_strange = self.epoch_cache.latest > highest
        offset = self.epoch_cache.entries[-1][1] if is_strange else self.log_end - 1
        segment = self.segments[self.segment_of(offset)]
        self.found_damaged(BadBatch(segment.file.path, 0, why))

    # Reading

    def segment_of(self, offset: Offset) -> int:
        return max(bisect_right(self._bases, offset) - 1, 0)

    def end_of(self, at: int) -> Offset:
        """Where the segment at this index ends: at the base of the next one, or at the log end."""
        return self._bases[at + 1] if at + 1 < len(self._bases) else self.log_end

    def read(self, offset: Offset, max_bytes: int, limit: Offset, at_least_one: bool, peek: Peek) -> list[FileSlice]:
        """The bytes for a fetch at `offset`: whole batches below `limit`, the last one perhaps cut by `max_bytes`.

        Raises OFFSET_OUT_OF_RANGE, or `WouldBlock` if the position must be looked up on disk first.
        """
        if offset > self.log_end or offset < self.log_start:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE, f"offset {offset} is not in [{self.log_start}, {self.log_end}]")
        if self.offline is not None:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, f"the log is offline: {self.offline}")
        if offset >= limit:
            return []
        try:
            return self.reads.slices(offset, max_bytes, limit, at_least_one, peek)
        except BadBatch as bad:
            self.found_damaged(bad)
            code = Code.CORRUPT_MESSAGE if self.is_only_copy() else Code.KAFKA_STORAGE_ERROR
            raise KafkaError(code, f"{self.partition}: {bad}") from bad

    def aborted_transactions(self, start: Offset, end: Offset) -> list[AbortedTransaction]:
        """Aborted transactions with records in [start, end). A read_committed reader must skip them."""
        return [
            entry
            for segment in self.segments[self.segment_of(start) :]
            for entry in segment.aborted.entries
            if entry.last_offset >= start and entry.first_offset < end
        ]

    @property
    def last_stable_offset(self) -> Offset:
        unstable = self.producers.first_unstable(self.high_watermark)
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    # Start and end

    def move_high_watermark(self, offset: Offset) -> None:
        """Move the high watermark, which lies within this log. Only truncation moves it back."""
        assert self.log_start <= offset <= self.log_end, f"{self.partition}: high watermark {offset}"
        self.high_watermark = offset

    def raise_log_start(self, offset: Offset) -> bool:
        """Records below `offset` no longer exist for readers. True if the log start has moved."""
        if offset <= self.log_start:
            return False
        self.log_start = offset
        self.move_high_watermark(max(self.high_watermark, offset))
        if self.epoch_cache.truncate_start(offset):
            self.epoch_file.write()
        return True

    def drop_oldest(self) -> list[PurePath]:
        """Remove the oldest segment from the log. The caller deletes its renamed files. On OSError the segment
        stays."""
        renamed = self.segments[0].rename(names.DELETED)
        self.reads.forget(self.segments[:1])
        del self.segments[0], self._bases[0]
        self.durability.directory_changed = True
        self.raise_log_start(self._bases[0])
        return renamed

    def put_segment(self, new: Segment, at: int, replaced: int) -> None:
        """Put a compacted segment in the place of the segments it was made of. The caller handles their files."""
        self.reads.forget(self.segments[at : at + replaced])
        self.segments[at : at + replaced] = [new]
        self._bases = [segment.base_offset for segment in self.segments]

    def _rename_away(self, gone: Sequence[Segment]) -> list[PurePath]:
        try:
            return [path for segment in gone for path in segment.rename(names.DELETED)]
        except OSError as failed:
            self.storage_failed(failed)
            return []

    def replace_tail(self, kept: int, log_end: Offset, producers: ProducerState) -> list[PurePath]:
        """Truncate: keep only the first `kept` segments. Returns the renamed files, which the caller deletes.

        The last segment is renamed first, so that a crash in between leaves a log without a hole.
        """
        self.generation.valid = False
        self.generation = Generation()
        self.reads.forget(self.segments[kept:])
        gone = self._rename_away(self.segments[: kept - 1 if kept else None : -1])
        del self.segments[kept:]
        self._bases = [segment.base_offset for segment in self.segments]
        self.log_end = log_end
        self.log_start = min(self.log_start, log_end)
        self.clean_end = None if self.clean_end is None else min(self.clean_end, log_end)
        self.move_high_watermark(min(self.high_watermark, log_end))
        self.producers = producers
        self.durability.cut(log_end)
        self.durability.directory_changed = True
        self._recovery_point = min(self._recovery_point, log_end)  # the file of epochs still has those that are cut
        self.forget_epochs_from(log_end)
        return gone

    def begin_anew(self, offset: Offset, batches: memoryview | None = None) -> list[PurePath]:
        """Delete everything and begin again at `offset`. Returns the renamed files, as `replace_tail` does. `batches`
        may begin below the log start. If they cannot be written, the log is empty and begins where it began."""
        start = self.log_start
        gone = self._begin_empty(offset)
        if batches is not None:
            try:
                self.append_as_follower(batches)
            except KafkaError as failed:
                _log.error("%s begins anew at %d: %s", self.partition, start, failed)
                return [*gone, *self._begin_empty(start)]
            self.raise_log_start(min(start, self.log_end))
        return gone

    def _begin_empty(self, offset: Offset) -> list[PurePath]:
        # The new segment is made first, under another name. If that fails, the log stays as it was.
        new = self._new_segment(offset, names.ASIDE)
        gone = self.replace_tail(0, 0, ProducerState())
        new.rename("")
        self.segments, self._bases = [new], [offset]
        self.log_start = self.log_end = offset
        self.move_high_watermark(offset)
        self.clean_end = None
        self.flush()
        return gone

    def _new_segment(self, base: Offset, suffix: str = "") -> Segment:
        return new_segment(self._world.disk, self.directory, base, self._wall_ms(), suffix)

    def forget_epochs_from(self, end: Offset) -> None:
        if self.epoch_cache.truncate_end(end):
            self.epoch_file.write()

    def close(self) -> None:
        """Close the files. The results of writes and syncs that are still under way are ignored."""
        self._closed = True
        self.durability.stop()
        self.epoch_file.close()
        self.snapshots.stop()
        for segment in self.segments:
            segment.close()

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Calls `callback` when the closed log has no job that writes in its directory: another log may use it then."""
        self.snapshots.when_idle(lambda: self.epoch_file.when_idle(callback))
