"""The log of one partition: appended at its end, read anywhere, two ends (written, durable)."""

from __future__ import annotations

import errno
import logging
from bisect import bisect_right
from collections.abc import Callable
from enum import Enum
from pathlib import PurePath
from random import Random
from typing import NamedTuple

from highwater.config import LogConfig
from highwater.errors import Code, KafkaError
from highwater.log import names, producer_snapshot
from highwater.log.checkpoint import CheckpointFile, encode_epochs, replace_file
from highwater.log.durability import Durability
from highwater.log.epoch_cache import EpochCache
from highwater.log.loader import LoadedLog
from highwater.log.lookup import locate
from highwater.log.peek import Peek, WouldBlock
from highwater.log.producer_state import AbortedTransaction, BatchSeen, ProducerState
from highwater.log.scan import follow_producer
from highwater.log.segment import MAX_RELATIVE_OFFSET, BatchAt, Segment
from highwater.model import Epoch, Offset, TopicPartition, Uuid
from highwater.wire import records
from highwater.wire.records.append import Validated
from highwater.world import FileSlice, Poisoned, World

RECENT_BATCHES = 512
LOCATED_PLACES = 256
_log = logging.getLogger(__name__)


class Origin(Enum):
    """Who wrote a batch: decides what is checked on append."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICA = "replica"
    RAFT_LEADER = "raft-leader"


class Appended(NamedTuple):
    base_offset: Offset
    last_offset: Offset
    append_time: int
    duplicate: bool = False


class Generation:
    """Valid until the log is truncated: what a file slice that was handed out depends on."""

    __slots__ = ("valid",)

    def __init__(self) -> None:
        self.valid = True

    def __call__(self) -> bool:
        return self.valid


class Log:
    """Not thread-safe: the loop's alone. Blocking work on its files is done in jobs by its neighbours."""

    def __init__(
        self,
        world: World,
        partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        loaded: LoadedLog,
        jitter: Random,
        went_offline: Callable[[Log], None],
    ) -> None:
        self._world = world
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.directory = loaded.directory
        self._jitter = jitter
        self._went_offline = went_offline
        self.offline: OSError | None = None
        self.log_start = loaded.log_start
        self.log_end = loaded.log_end
        self.high_watermark = loaded.log_start
        self.segments: list[Segment] = []
        self._bases: list[Offset] = []
        for facts in loaded.segments:
            segment = Segment(world.disk, self.directory, facts.base_offset, facts.created_ms)
            segment.largest = facts.largest
            segment.time_index.last = facts.time_index_last
            segment.first_timestamp = facts.first_timestamp
            segment.bytes_since_index = facts.bytes_since_index
            self.segments.append(segment)
            self._bases.append(facts.base_offset)
        self._roll_jitter_ms = self._draw_jitter()
        self.epoch_cache = EpochCache(loaded.epochs)
        self.producers = ProducerState()
        self.producers.restore_all(loaded.producers)
        self._recent: dict[Offset, int] = {}
        """Base offset -> position of the newest batches of the active segment: where the readers at the tail are."""
        self._located: dict[Offset, tuple[int, int]] = {}
        """Places in closed segments that a job has looked up for readers."""
        self.generation = Generation()
        self.durability = Durability(
            world, self.directory, loaded.durable_end, self._durable_moved, self.storage_failed
        )
        self.durable_listener: Callable[[], None] = lambda: None
        self._epoch_file = CheckpointFile(
            world,
            self.directory / names.EPOCH_CHECKPOINT,
            lambda: encode_epochs(self.epoch_cache.entries),
            self._job_failed,
        )

    @property
    def durable_end(self) -> Offset:
        return self.durability.durable_end

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def flush_each_append(self) -> bool:
        """Flush mode: nothing counts before it is durable."""
        return self.config.flush_messages == 1

    # Appending

    def append_as_leader(self, batch: Validated, leader_epoch: Epoch, origin: Origin) -> Appended:
        """Give the batch the next offsets and write it. KafkaError says why not; then nothing of it is kept."""
        header = batch.header
        if header.producer_id >= 0 and origin is not Origin.RAFT_LEADER and not header.is_control:
            seen = self._check_producer(header)
            if seen is not None:
                return Appended(seen.first_offset, seen.last_offset, seen.timestamp, duplicate=True)
        base = self.log_end
        records.stamp(batch.data, 0, base, leader_epoch)
        self._write(batch.data, header._replace(base_offset=base, leader_epoch=leader_epoch))
        return Appended(base, self.log_end - 1, batch.log_append_time)

    def _check_producer(self, header: records.Header) -> BatchSeen | None:
        """The batch this one repeats, if it does; KafkaError where its sequence is out of order."""
        seen = self.producers.find_duplicate(
            header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence
        )
        if seen is None:
            self.producers.check(header.producer_id, header.producer_epoch, header.base_sequence)
        return seen

    def append_as_follower(self, data: memoryview) -> None:
        """Whole batches as the leader has them, offsets and all; checked, then written as they are."""
        for position, size, header in records.walk(data):
            batch = data[position : position + size]
            if not records.is_intact(batch):
                raise KafkaError(Code.CORRUPT_MESSAGE, f"a fetched batch at {header.base_offset} has a bad checksum")
            if header.base_offset < self.log_end:
                raise KafkaError(
                    Code.OFFSET_OUT_OF_RANGE, f"fetched offset {header.base_offset}, the log ends at {self.log_end}"
                )
            self._write(batch, header)

    def _write(self, data: bytearray | memoryview, header: records.Header) -> None:
        if self.offline is not None:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, f"the log is offline: {self.offline}")
        last_offset = header.last_offset
        try:
            if self._must_roll(len(data), last_offset, header.max_timestamp):
                self.roll(header.base_offset)
            position = self.active.append((data,), last_offset, header.max_timestamp, self.config.index_interval_bytes)
        except Poisoned as failed:
            self.storage_failed(failed)
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(failed)) from failed
        except OSError as failed:
            _log.error("%s: append failed, nothing was kept: %s", self.partition, failed)
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(failed)) from failed
        self.log_end = last_offset + 1
        self._remember(header.base_offset, position)
        if header.leader_epoch > self.epoch_cache.latest:
            self.assign_epoch(header.leader_epoch, header.base_offset)
        if header.producer_id >= 0:
            aborted = follow_producer(header, memoryview(data), self.producers)
            if aborted is not None:
                self._add_aborted(aborted)
        if self.log_end - self.durability.durable_end >= self.config.flush_messages:
            self.flush()

    def _add_aborted(self, aborted: AbortedTransaction) -> None:
        """Without its entry a reader would be shown aborted records: better no log than that (KAFKA-7866)."""
        try:
            self.active.add_aborted(aborted)
        except OSError as failed:
            self.storage_failed(failed)

    def _remember(self, base_offset: Offset, position: int) -> None:
        recent = self._recent
        recent[base_offset] = position
        if len(recent) > RECENT_BATCHES:
            for oldest in list(recent)[: RECENT_BATCHES // 2]:
                del recent[oldest]

    def assign_epoch(self, epoch: Epoch, start: Offset) -> None:
        if self.epoch_cache.assign(epoch, start):
            self._epoch_file.write()

    def write_epochs(self, done: Callable[[], None]) -> None:
        """`done` once the epochs known now are durable: what a flush-mode leader waits for on election."""
        self._epoch_file.write(done)

    # Rolling

    def _must_roll(self, size: int, last_offset: Offset, max_timestamp: int) -> bool:
        active, config = self.active, self.config
        if active.size == 0:
            return last_offset - active.base_offset > MAX_RELATIVE_OFFSET
        if active.size + size > config.segment_bytes:
            return True
        first = active.first_timestamp
        age = (
            max_timestamp - first
            if first is not None and first >= 0
            else self._world.clock.wall_ms() - active.created_ms
        )
        return (
            age > config.roll_ms - self._roll_jitter_ms
            or active.offset_index.entries >= config.segment_index_bytes // 8
            or active.time_index.entries >= config.segment_index_bytes // 12 - 1
            or last_offset - active.base_offset > MAX_RELATIVE_OFFSET
        )

    def roll(self, base_offset: Offset | None = None) -> None:
        """Close the active segment and begin the next; the old one is synced in the background."""
        base = self.log_end if base_offset is None else base_offset
        old = self.active
        if base <= old.base_offset:
            return
        old.close_time_index()
        self.segments.append(Segment(self._world.disk, self.directory, base, self._world.clock.wall_ms(), create=True))
        self._bases.append(base)
        self._recent.clear()
        self._roll_jitter_ms = self._draw_jitter()
        self.durability.directory_changed = True
        self.snapshot_producers()
        self.flush()

    def _draw_jitter(self) -> int:
        limit = min(self.config.segment_jitter_ms, self.config.roll_ms)
        return self._jitter.randrange(limit) if limit > 0 else 0

    def encode_producers(self) -> bytes:
        return producer_snapshot.encode(self.producers.producers.items())

    def snapshot_producers(self, done: Callable[[Exception | None], None] | None = None) -> None:
        """Write the producers' state at the log's end beside the segments."""
        self._world.run(
            replace_file,
            names.segment_file(self.directory, self.log_end, names.SNAPSHOT),
            self.encode_producers(),
            done=done or self._job_done,
        )

    # Durability

    def flush(self) -> None:
        """Begin to make all that is written durable.

        The active segment's indexes are left out: recovery rebuilds them for any segment the recovery point is in.
        """
        behind = self.segment_of(self.durability.durable_end)
        files = [file for segment in self.segments[behind:-1] for file in segment.files]
        self.durability.flush(self.log_end, [*files, self.active.file])

    def _durable_moved(self) -> None:
        self.durable_listener()

    def _job_done(self, result: Exception | None) -> None:
        if result is not None:
            self._job_failed(result)

    def _job_failed(self, failed: Exception) -> None:
        if not isinstance(failed, OSError):
            raise failed
        if failed.errno == errno.ENOSPC:
            _log.error("%s: no room for a file beside the log: %s", self.partition, failed)
            return
        if not isinstance(failed, FileNotFoundError):
            self.storage_failed(failed)

    def storage_failed(self, failed: OSError) -> None:
        if self.offline is None:
            _log.error("%s goes offline: %s", self.partition, failed)
            self.offline = failed
            self._went_offline(self)

    # Reading

    def segment_of(self, offset: Offset) -> int:
        return max(bisect_right(self._bases, offset) - 1, 0)

    def read(self, offset: Offset, max_bytes: int, limit: Offset, at_least_one: bool, peek: Peek) -> list[FileSlice]:
        """What a fetch at `offset` may carry: whole batches below `limit`, the last perhaps cut by `max_bytes`.

        Raises OFFSET_OUT_OF_RANGE, and `WouldBlock` where the place must be looked up on disk first.
        """
        if offset > self.log_end or offset < self.log_start:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE, f"offset {offset} is not in [{self.log_start}, {self.log_end}]")
        if self.offline is not None:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, f"the log is offline: {self.offline}")
        if offset >= limit:
            return []
        at = self.segment_of(offset)
        while at < len(self.segments):
            found = self._place(at, offset, peek)
            if found is not None:
                return self._slice(at, found[0], found[1], max_bytes, limit, at_least_one, peek)
            at += 1
        return []

    def _place(self, at: int, offset: Offset, peek: Peek) -> tuple[int, int | None] | None:
        """Position, and size if it was read, of the batch that holds `offset` or follows it in this segment."""
        segment = self.segments[at]
        if segment is self.active:
            position = self._recent.get(offset)
            if position is not None:
                return position, None
        known = self._located.get(offset)
        if known is not None:
            return known
        try:
            found = segment.locate(offset, peek)
        except WouldBlock as blocked:
            blocked.offset = offset
            raise
        return None if found is None else (found.position, found.size)

    def locate_later(self, offset: Offset, done: Callable[[], None]) -> None:
        """After `WouldBlock`: look the place up in a job, so that the same read succeeds when `done` is called."""
        segment = self.segments[self.segment_of(offset)]

        def located(result: BatchAt | Exception | None) -> None:
            if isinstance(result, OSError):
                self.storage_failed(result)
            elif isinstance(result, Exception):
                raise result
            elif result is not None and segment in self.segments:
                while len(self._located) >= LOCATED_PLACES:
                    del self._located[next(iter(self._located))]
                self._located[offset] = (result.position, result.size)
            done()

        self._world.run(locate, segment, offset, done=located)

    def _slice(
        self,
        at: int,
        position: int,
        batch_size: int | None,
        max_bytes: int,
        limit: Offset,
        at_least_one: bool,
        peek: Peek,
    ) -> list[FileSlice]:
        segment = self.segments[at]
        end = segment.size
        if at + 1 == len(self.segments):
            if limit < self.log_end:
                end = self._end_position(segment, at, limit, peek)
        elif limit < self._bases[at + 1]:
            end = self._end_position(segment, at, limit, peek)
        size = min(end - position, max_bytes)
        if at_least_one and size < end - position and size < (batch_size or max_bytes + 1):
            if batch_size is None:
                found = segment.scan_for(0, position, peek)
                batch_size = 0 if found is None else found.size
            size = min(max(size, batch_size), end - position)
        return [FileSlice(segment.file, position, size, self.generation)] if size > 0 else []

    def _end_position(self, segment: Segment, at: int, limit: Offset, peek: Peek) -> int:
        found = self._place(at, limit, peek)
        return segment.size if found is None else found[0]

    def aborted_transactions(self, start: Offset, end: Offset, peek: Peek) -> list[AbortedTransaction]:
        """Those with records in [start, end): what a read_committed reader must leave out."""
        found = []
        for segment in self.segments[self.segment_of(start) :]:
            index = segment.txn_index()
            if index is not None:
                found += [entry for entry in index.all(peek) if entry.last_offset >= start and entry.first_offset < end]
        return found

    @property
    def last_stable_offset(self) -> Offset:
        unstable = self.producers.first_unstable(self.high_watermark)
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    # Start and end

    def raise_log_start(self, offset: Offset) -> bool:
        """Records below `offset` no longer exist for readers; True if that is news."""
        if offset <= self.log_start:
            return False
        self.log_start = offset
        self.high_watermark = max(self.high_watermark, offset)
        if self.epoch_cache.truncate_start(offset):
            self._epoch_file.write()
        return True

    def drop_segments(self, count: int) -> list[PurePath]:
        """Take the oldest `count` segments out of the log; their renamed files are the caller's to remove."""
        self._located.clear()
        gone, self.segments = self.segments[:count], self.segments[count:]
        del self._bases[:count]
        renamed = [path for segment in gone for path in segment.rename(names.DELETED)]
        self.durability.directory_changed = True
        self.raise_log_start(self._bases[0])
        return renamed

    def replace_tail(self, segments: list[Segment], log_end: Offset, producers: ProducerState) -> None:
        """After a truncation: the log now consists of these segments and ends here."""
        self.generation.valid = False
        self.generation = Generation()
        self.segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._recent.clear()
        self._located.clear()
        self.log_end = log_end
        self.log_start = min(self.log_start, log_end)
        self.high_watermark = min(self.high_watermark, log_end)
        self.producers = producers
        self.durability.cut(log_end)
        self.durability.directory_changed = True
        if self.epoch_cache.truncate_end(log_end):
            self._epoch_file.write()

    def close(self) -> None:
        for segment in self.segments:
            segment.close()
