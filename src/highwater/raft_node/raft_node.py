"""Drives the pure quorum machine: its Readies are carried out in their order, its inputs fed one at a time."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import PurePath

from highwater.config import LogConfig, NodeConfig
from highwater.errors import KafkaError
from highwater.log.checkpoint import read_file, replace_file
from highwater.log.log import Log
from highwater.metadata.changes import Changes
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.replay import apply
from highwater.model import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    Epoch,
    NodeId,
    Offset,
    TopicPartition,
)
from highwater.quorum import (
    NEVER_LOGGED,
    ElectionState,
    Identity,
    Leadership,
    LogPosition,
    Quorum,
    Ready,
    Timing,
    VoterSet,
)
from highwater.raft_node.metadata_log import CommittedBatch, LoadedMetadata, MetadataLog, load_metadata
from highwater.raft_node.snapshotter import Snapshotter
from highwater.wire.codec import Message
from highwater.world import Disk, Step, Timer, World
from highwater.world.jobs import finished

QUORUM_STATE = "quorum-state"
PARTITION = TopicPartition(METADATA_TOPIC, 0)
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Listeners:
    """Who is told what. All are called on the loop, never from within a call into the RaftNode."""

    committed: Callable[[MetadataImage, Changes], None]
    leadership: Callable[[Leadership], None]
    failed: Callable[[BaseException], None]


def _read_quorum_state(disk: Disk, path: PurePath) -> Generator[Step, None, bytes | None]:
    yield Step()
    return read_file(disk, path)


class RaftNode:
    def __init__(self, world: World, config: NodeConfig, identity: Identity, log_config: LogConfig) -> None:
        self._world = world
        self._config = config
        self.identity = identity
        self._log_config = log_config
        self.directory = PurePath(config.metadata_log_dir) / str(PARTITION)
        self.committed = MetadataImage(identity.cluster_id)
        self._listeners: Listeners | None = None
        self._pending: deque[CommittedBatch] = deque()
        """Batches in the log that are not applied yet, oldest first."""
        self._inputs: deque[Callable[[float], Ready]] = deque()
        self._storing = False
        self._timer: Timer | None = None
        self._stopped = False

    # Opening

    async def open(self, listeners: Listeners, timing: Timing) -> None:
        """Load what is on disk and take part in the quorum."""
        self._listeners = listeners
        loaded = await finished(self._world, load_metadata, self.directory)
        state = await finished(self._world, _read_quorum_state, self.directory / QUORUM_STATE)
        stored = None if state is None else ElectionState.from_json(state.decode())
        self._adopt(loaded)
        voters, voters_offset = loaded.voters, loaded.voters_offset
        if voters is None:
            raise RuntimeError(f"{self.directory} names no voters: format the directory first")
        if loaded.snapshot is not None and loaded.snapshot.position.offset == 0:
            voters_offset = max(voters_offset, NEVER_LOGGED)
        self.voters: VoterSet = voters
        self.quorum = Quorum(
            self.identity,
            voters,
            self.log,
            self._world.random("quorum"),
            stored,
            self._world.clock.monotonic(),
            voters_offset=voters_offset,
            timing=timing,
        )
        self._feed(self.quorum.start)

    def _adopt(self, loaded: LoadedMetadata) -> None:
        for repair in loaded.log.repairs:
            _log.warning("%s: %s", PARTITION, repair)
        log = Log(
            self._world,
            PARTITION,
            METADATA_TOPIC_ID,
            self._log_config,
            loaded.log,
            self._world.random("metadata-log"),
            lambda log: self.fail(log.offline or OSError("the metadata log failed")),
        )
        log.durable_listener = lambda: self._feed(self.quorum.log_flushed)
        self.log = MetadataLog(log, loaded.snapshots)
        self._pending.extend(loaded.batches)
        if loaded.snapshot is not None:
            position = loaded.snapshot.position
            batches = [record for batch in loaded.snapshot.batches for record in batch]
            self.committed, _ = apply(self.committed, batches, position.offset - 1, position.epoch)
        since = sum(batch.size for batch in loaded.batches)
        self.snapshotter = Snapshotter(self._world, self._config, self.directory, self.log, since, self.fail)

    # The quorum's inputs and what follows from them

    def _feed(self, step: Callable[[float], Ready]) -> None:
        """One input at a time: the next one waits until the last one's vote or epoch is on disk."""
        self._inputs.append(step)
        if not self._storing:
            self._run()

    def _run(self) -> None:
        while self._inputs and not self._storing and not self._stopped:
            step = self._inputs.popleft()
            try:
                ready = step(self._world.clock.monotonic())
            except Exception as failed:  # noqa: BLE001 a broken invariant of the quorum stops the node
                self.fail(failed)
                return
            if ready.election is not None:
                self._storing = True
                self._store(ready.election, ready)
            else:
                self._carry_out(ready)
        self._set_timer()

    def _store(self, state: ElectionState, ready: Ready) -> None:
        def stored(result: Exception | None) -> None:
            if result is not None:
                self.fail(result)
                return
            self._storing = False
            self._carry_out(ready)
            self._run()

        path = self.directory / QUORUM_STATE
        self._world.run(replace_file, path, state.to_json().encode(), done=stored)

    def _carry_out(self, ready: Ready) -> None:
        if ready.epoch_start is not None:
            if ready.epoch_start.voters is not None:
                self.voters = VoterSet.from_record(ready.epoch_start.voters)
                offset = self.log.written_end
                voters = self.voters
                self._inputs.append(lambda now: self.quorum.voters_changed(voters, offset, now))
            try:
                batch = self.log.append_epoch_start(ready.epoch_start, self._world.clock.wall_ms())
            except KafkaError as failed:
                self.fail(failed)
                return
            self._pending.append(batch)
        if ready.high_watermark is not None:
            self.log.log.high_watermark = ready.high_watermark
            self._commit(ready.high_watermark)
        if ready.leadership is not None:
            leadership = ready.leadership
            self._world.clock.call_soon(self._told.leadership, leadership)

    @property
    def _told(self) -> Listeners:
        assert self._listeners is not None, "not opened"
        return self._listeners

    def _commit(self, high_watermark: Offset) -> None:
        """Apply every whole batch below the high watermark, as one step."""
        values: list[Message] = []
        changes = None
        size = 0
        last: CommittedBatch | None = None
        while self._pending and self._pending[0].last_offset < high_watermark:
            last = self._pending.popleft()
            size += last.size
            if last.records:
                values = list(last.records)
                self.committed, changed = apply(self.committed, values, last.last_offset, last.epoch)
                changes = changed if changes is None else changes.then(changed)
        if last is None:
            return
        self._world.clock.call_soon(self._told.committed, self.committed, changes or Changes())
        position = LogPosition(last.epoch, last.last_offset + 1)
        self.snapshotter.committed(self.committed, position, self.voters, size, last.timestamp)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = None if self._stopped else self.quorum.next_deadline()
        if deadline is not None:
            delay = max(deadline - self._world.clock.monotonic(), 0.0)
            self._timer = self._world.clock.call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._feed(self.quorum.tick)

    def fail(self, failed: BaseException) -> None:
        """A node that cannot keep its metadata has no business going on (KAFKA-14275)."""
        if not self._stopped:
            self._stopped = True
            self._told.failed(failed)

    # For the active controller

    @property
    def epoch(self) -> Epoch:
        return self.quorum.epoch

    @property
    def leader_id(self) -> NodeId | None:
        return self.quorum.leader_id

    def append(self, values: list[Message], epoch: Epoch) -> Offset:
        """Write a decision; it is in force once committed. Returns its last offset."""
        batch = self.log.append(values, epoch, self._world.clock.wall_ms())
        self._pending.append(batch)
        return batch.last_offset

    async def close(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        await self.snapshotter.close()
        self.log.log.close()
