"""The metadata log: a partition log as the quorum sees it. Only durable records count."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import PurePath

from highwater import config as settings
from highwater.config import LogConfig, NodeConfig
from highwater.errors import Code, KafkaError
from highwater.kernel import BadRecords
from highwater.log.appended import Origin
from highwater.log.durability import synced
from highwater.log.log import Log
from highwater.log.peek import cached
from highwater.log.truncation import QUORUM, restart, truncate
from highwater.metadata.pieces import Pieces
from highwater.model import METADATA_TOPIC, METADATA_TOPIC_ID, Epoch, Offset, TopicPartition
from highwater.quorum import EpochStart, LogPosition, VoterSet
from highwater.raft_node.committed_batch import CommittedBatch, decoded, voters_in
from highwater.raft_node.metadata_loader import LoadedMetadata
from highwater.raft_node.recovery_point import RecoveryPoint
from highwater.raft_node.snapshots import CONTROL_VERSION
from highwater.wire import records
from highwater.wire.codec import Message
from highwater.wire.records.append import Validated
from highwater.wire.records.control import ControlType, build_control
from highwater.world import FileSlice, World, is_passing

PARTITION = TopicPartition(METADATA_TOPIC, 0)
_log = logging.getLogger(__name__)


def metadata_log_config(config: NodeConfig) -> LogConfig:
    """The settings of the metadata log, as in Kafka. `MetadataLog` itself syncs it after each append."""
    base = LogConfig.resolve(config, {})
    internal = config.get(settings.INTERNAL_METADATA_LOG_SEGMENT_BYTES)
    return replace(
        base,
        segment_bytes=internal or config.get(settings.METADATA_LOG_SEGMENT_BYTES),
        segment_ms=config.get(settings.METADATA_LOG_SEGMENT_MS),
        segment_jitter_ms=0,
        flush_messages=2**63 - 1,
        cleanup_policy=("delete",),
        retention_ms=-1,
        retention_bytes=-1,
        file_delete_delay_ms=config.get(settings.INTERNAL_METADATA_DELETE_DELAY_MILLIS),
    )


@dataclass(slots=True)
class Fetched:
    """The batches of a fetch response that were appended: all, or those before the one that `failure` stopped."""

    batches: list[CommittedBatch] = field(default_factory=list)
    voters: list[tuple[Offset, VoterSet]] = field(default_factory=list)
    failure: KafkaError | None = None


def open_metadata_log(
    world: World,
    config: NodeConfig,
    loaded: LoadedMetadata,
    durable: Callable[[], None],
    failed: Callable[[BaseException], None],
) -> MetadataLog:
    """Calls `durable` whenever more of the log is synced, and `failed` when the log can no longer be written."""
    for repair in loaded.log.repairs:
        _log.warning("%s: %s", PARTITION, repair)
    log = Log(
        world,
        PARTITION,
        METADATA_TOPIC_ID,
        metadata_log_config(config),
        loaded.log,
        world.random("metadata-log"),
        lambda log: failed(log.trouble or OSError("the metadata log failed")),
    )
    log.durable_listener = durable
    interval = config.get(settings.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS) / 1000
    return MetadataLog(log, loaded.snapshots, RecoveryPoint(world, log, loaded.recovery_point, interval))


class MetadataLog:
    """The log for the quorum: what it reads of it, and what the leader and followers append."""

    def __init__(self, log: Log, snapshots: list[LogPosition], recovery_point: RecoveryPoint) -> None:
        self._log = log
        self.snapshots = snapshots
        self._recovery_point = recovery_point

    @property
    def files(self) -> Log:
        """The log itself, for tests and the simulation. No other part of a node uses it."""
        return self._log

    @property
    def high_watermark(self) -> Offset:
        return self._log.high_watermark

    def commit_up_to(self, offset: Offset) -> None:
        self._log.high_watermark = offset

    @property
    def start_offset(self) -> Offset:
        return self._log.log_start

    @property
    def written_end(self) -> Offset:
        return self._log.log_end

    @property
    def durable_end(self) -> Offset:
        return self._log.durable_end

    @property
    def last_epoch(self) -> Epoch:
        if self._log.durable_end > self._log.log_start:
            return max(self._log.epoch_cache.epoch_at(self._log.durable_end - 1), 0)
        return self.snapshots[-1].epoch if self.snapshots else 0

    @property
    def earliest_snapshot(self) -> LogPosition | None:
        return self.snapshots[0] if self.snapshots else None

    @property
    def latest_snapshot(self) -> LogPosition | None:
        return self.snapshots[-1] if self.snapshots else None

    def end_of_epoch(self, epoch: Epoch) -> LogPosition:
        known, end = self._log.epoch_cache.end_of(epoch, self._log.durable_end)
        if known < 0:
            return LogPosition(self.last_epoch, self._log.durable_end)
        return LogPosition(known, end)

    async def truncate_to(self, world: World, offset: Offset) -> None:
        """Raises KafkaError if the log has failed: a node that cannot keep its metadata stops."""
        await self._recovery_point.lower(offset)
        self._require(await truncate(world, self._log, offset, QUORUM))
        self._recovery_point.release()

    async def restart_at(self, world: World, offset: Offset) -> None:
        """Replaces the log by an empty one that begins at `offset`. A whole snapshot up to there is on disk, so what a
        crash leaves of the old log does not matter. Raises KafkaError, as `truncate_to` does."""
        await self._recovery_point.lower(0)
        self._require(await restart(world, self._log, offset, places=QUORUM))
        self._recovery_point.release()

    def _require(self, done: bool) -> None:
        if not done:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, f"the metadata log cannot be cut: {self._log.trouble}")

    async def close(self) -> None:
        await self._recovery_point.close()
        self._log.close()

    # For fetches

    def read(self, offset: Offset, max_bytes: int) -> list[FileSlice]:
        """Durable batches from `offset` on. Raises WouldBlock if the disk must be read to find them: see
        `locate_later`."""
        return self._log.read(offset, max_bytes, self.durable_end, True, cached)

    def locate_later(self, offset: Offset, then: Callable[[], None]) -> None:
        """Calls `then` when a read from `offset` need not wait for the disk."""
        self._log.reads.locate_later(offset, then)

    # Deleting what a snapshot holds

    @property
    def size(self) -> int:
        return self._log.size

    def begin_at(self, snapshot: LogPosition) -> None:
        """Raises the log start: nothing below the snapshot is served any more."""
        self._log.raise_log_start(snapshot.offset)

    def size_below(self, snapshot: LogPosition) -> int | None:
        """The size of the oldest segment, if it may be deleted. None if it has records that are not in the snapshot, or
        if it is the only segment."""
        segments = self._log.segments
        if len(segments) > 1 and segments[1].base_offset <= snapshot.offset:
            return segments[0].size
        return None

    async def drop_oldest(self, world: World, remove: Callable[[list[PurePath]], None]) -> bool:
        """Deletes the oldest segment durably, before the next one may be deleted. Of several renames a power cut may
        keep only the later ones, and recovery would cut the log at such a hole. `remove` gets the renamed files. False
        if nothing more may be deleted now."""
        try:
            remove(self._log.drop_oldest())
        except OSError as failed:
            if not is_passing(failed):  # else the next snapshot tries it again
                self._log.storage_failed(failed)
            return False
        try:
            await synced(world, [], self._log.directory)
        except OSError as failed:
            self._log.storage_failed(failed)
            return False
        return True

    # Appending

    def append(self, values: Sequence[Message], encoded: Sequence[bytes], epoch: Epoch, now_ms: int) -> CommittedBatch:
        batch = records.build([(now_ms, None, value, ()) for value in encoded], leader_epoch=epoch)
        header = self._append(batch, epoch)
        return CommittedBatch(header.last_offset, epoch, tuple(values), header.size, now_ms)

    def append_fetched(self, data: bytes, epoch: Epoch) -> Pieces[Fetched]:
        """Appends whole batches of the leader. All are checked and decoded before the first is written.

        A batch of a later epoch than the fetch's is left for the next fetch (KAFKA-18723).
        """
        view = memoryview(data)
        batches = [(header, view[at : at + size]) for at, size, header in records.walk(view)]
        checked = []
        for header, batch in takewhile(lambda each: each[0].leader_epoch <= epoch, batches):
            content = yield from decoded(header, batch)
            checked.append((batch, content, voters_in(header, batch)))
        if not checked:
            raise BadRecords("no whole batch was fetched")
        fetched = Fetched()
        for batch, content, voters in checked:
            try:
                self._log.append_as_follower(batch)
            except KafkaError as failed:
                fetched.failure = failed
                break
            fetched.batches.append(content)
            fetched.voters += voters
        self._log.flush()
        return fetched

    def append_epoch_start(self, start: EpochStart, now_ms: int) -> CommittedBatch:
        """Appends the control batch with which a leader begins its epoch."""
        controls = [(ControlType.LEADER_CHANGE, start.leader_change.encode(CONTROL_VERSION))]
        if start.kraft_version is not None:
            controls.append((ControlType.KRAFT_VERSION, start.kraft_version.encode(CONTROL_VERSION)))
        if start.voters is not None:
            controls.append((ControlType.KRAFT_VOTERS, start.voters.encode(CONTROL_VERSION)))
        header = self._append(build_control(controls, timestamp=now_ms, leader_epoch=start.epoch), start.epoch)
        return CommittedBatch(header.last_offset, start.epoch, (), header.size, now_ms)

    def _append(self, batch: bytearray, epoch: Epoch) -> records.Header:
        validated = Validated(batch, records.read_header(batch), -1)
        appended = self._log.append_as_leader(validated, epoch, Origin.RAFT_LEADER)
        self._log.flush()
        return validated.header._replace(base_offset=appended.base_offset)
