"""Drives the pure quorum machine: feeds it one input at a time, and carries out each `Ready` in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import PurePath

from highwater.config import NodeConfig
from highwater.errors import Code, KafkaError
from highwater.kernel import BadRecords
from highwater.log.checkpoint import replaced
from highwater.log.log import Log
from highwater.metadata.changes import NOTHING
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.pieces import Pieces
from highwater.model import Endpoint, Epoch, NodeId, Offset
from highwater.net.deadlines import DeadlineQueue
from highwater.quorum import (
    Caller,
    EpochStart,
    FetchAnswer,
    FollowerFetch,
    Identity,
    LogPosition,
    Quorum,
    Ready,
    ReplicaKey,
    Role,
    Timing,
    VoterSet,
)
from highwater.quorum.voters import endpoint_of
from highwater.raft_node.inputs import Answer, Inputs
from highwater.raft_node.installing import CurrentLeader, Installation
from highwater.raft_node.leader_watch import LeaderWatch
from highwater.raft_node.listeners import Listeners as Listeners
from highwater.raft_node.metadata_loader import QUORUM_STATE, LoadedMetadata, load_metadata
from highwater.raft_node.metadata_log import PARTITION, open_metadata_log
from highwater.raft_node.peers import Peers
from highwater.raft_node.replay import Replay
from highwater.raft_node.snapshots import Snapshot, image_of
from highwater.raft_node.snapshotter import Snapshotter
from highwater.raft_node.voter_history import VoterHistory
from highwater.wire.codec import Malformed, Message
from highwater.wire.messages.describe_quorum_request import DescribeQuorumRequest
from highwater.wire.messages.describe_quorum_response import DescribeQuorumResponse
from highwater.world import Timer, World, is_passing
from highwater.world.jobs import finished

LEAVE_CHECK_SECONDS = 0.01
_log = logging.getLogger(__name__)


class RaftNode:
    def __init__(self, world: World, config: NodeConfig, cluster_id: str, deadlines: DeadlineQueue) -> None:
        self.world = world
        self._config = config
        self.deadlines = deadlines
        self.directory = PurePath(config.metadata_log_dir) / str(PARTITION)
        self._replay = Replay(MetadataImage(cluster_id))
        self._listeners: Listeners | None = None
        self._voters = VoterHistory()
        self._inputs = Inputs(world, self._take, self._set_timer, self.fail)
        self._news: dict[Callable[[], None], None] = {}
        self._timer: Timer | None = None
        self._installation: Installation | None = None
        self._numbers = count()
        self._leader_high_watermark: Offset = -1
        """The highest high watermark in a leader's fetch responses."""
        self._reports_append = False
        """Whether the quorum is about to be told of decisions that were appended. Once is enough for many."""

    # Opening

    async def open(self, identity: Identity, listeners: Listeners, timing: Timing) -> None:
        """Loads the log and joins the quorum. `identity` holds the addresses that this node has really bound."""
        self.identity = identity
        self._listeners = listeners
        loaded = await finished(self.world, load_metadata, self.directory)
        self._adopt(loaded)
        if not loaded.voters and self._config.is_controller:
            raise RuntimeError(f"{self.directory} names no voters: format the directory first")
        self._voters.add(loaded.voters)
        self._peers = Peers(
            self.world,
            self.deadlines,
            f"raft-{self.identity.node.key.id}",
            timing.request_timeout,
            self._answered,
            lambda correlation: self._inputs.feed(lambda now: self.quorum.failed(correlation, now)),
            LeaderWatch(self).lost,
        )
        self.quorum = Quorum(
            self.identity,
            self.voters,
            self.log,
            self.world.random("quorum"),
            loaded.election,
            self.world.clock.monotonic(),
            voters_offset=self._voters.offset,
            timing=timing,
        )
        self._inputs.feed(self.quorum.start)

    def _adopt(self, loaded: LoadedMetadata) -> None:
        self.log = open_metadata_log(
            self.world, self._config, loaded, lambda: self._inputs.feed(self.quorum.log_flushed), self.fail
        )
        if loaded.snapshot is not None:
            self._replay = Replay(image_of(loaded.snapshot, self.identity.cluster_id))
        self._replay.extend(loaded.batches)
        size = sum(batch.size for batch in loaded.batches)
        self.snapshotter = Snapshotter(self.world, self._config, self.directory, self.log, size, self.fail)

    # The quorum's inputs and what follows from them

    def _take(self, ready: Ready, answer: Answer | None) -> None:
        if ready.election is not None or ready.truncate_to is not None:
            self._inputs.block(partial(self._prepare, ready, answer))
        else:
            pieces = self._carry_out(ready, answer)
            if next(pieces, self) is None:
                self._inputs.block(partial(self._go_on, pieces))

    def _answered(self, correlation: int, answer: Message | FetchAnswer) -> None:
        if isinstance(answer, FetchAnswer) and answer.error is Code.NONE:
            self._leader_high_watermark = max(self._leader_high_watermark, answer.high_watermark)
        self._inputs.feed(lambda now: self.quorum.answered(correlation, answer, now))

    async def _prepare(self, ready: Ready, answer: Answer | None) -> None:
        if ready.election is not None:
            path = self.directory / QUORUM_STATE
            await replaced(self.world, path, ready.election.to_json().encode(), where="quorum")
        if ready.truncate_to is not None:
            await self._truncate(ready.truncate_to)
        await self._go_on(self._carry_out(ready, answer))

    async def _go_on(self, pieces: Pieces[None]) -> None:
        for _ in pieces:
            await asyncio.sleep(0)

    async def _truncate(self, offset: Offset) -> None:
        _log.info("%s is cut to %d: it diverges from its leader's log", PARTITION, offset)
        await self.log.truncate_to(self.world, offset)
        end = self.log.written_end
        self._replay.cut(end)
        if self._voters.cut(end):
            self._voters_changed()
        self._inputs.add(self.quorum.log_flushed)

    def _carry_out(self, ready: Ready, answer: Answer | None) -> Pieces[None]:
        if ready.append is not None:
            yield from self._append_fetched(bytes(ready.append))
        if ready.epoch_start is not None:
            self._begin_epoch(ready.epoch_start)
        if ready.fetch_snapshot is not None:
            self._fetch_snapshot(ready.fetch_snapshot)
        if answer is not None:
            answer(ready.answer)
        for request in ready.requests:
            self._peers.send(request)
        if ready.high_watermark is not None:
            yield from self._commit(ready.high_watermark)
        if ready.resigns_because:
            _log.warning("this leader of the quorum resigns: %s", ready.resigns_because)
        if ready.leadership is not None:
            self.world.clock.call_soon(self._notify, self._opened_with.leadership, ready.leadership)
        if ready.wake_fetches or ready.leadership is not None:
            news, self._news = self._news, {}
            for wake in news:
                self.world.clock.call_soon(wake)

    def _begin_epoch(self, start: EpochStart) -> None:
        """Appends the start of an epoch. If disk space or file descriptors are short, this leader steps down: nothing
        is decided yet, and another node may have room."""
        offset = self.log.written_end
        try:
            self._replay.extend([self.log.append_epoch_start(start, self.world.clock.wall_ms())])
        except KafkaError as failed:
            if not is_passing(failed.__cause__):
                raise
            self._inputs.add(lambda now: self.quorum.epoch_not_begun(start.epoch, now))
            return
        self._inputs.add(self.quorum.wrote)
        if start.voters is not None:
            self._voters.add([(offset, VoterSet.from_record(start.voters))])
            self._voters_changed()

    def _notify(self, listener: Callable[..., None], *news: object) -> None:
        """Calls a listener. If that fails, the node ends: it would go on with other metadata than its peers."""
        with self.world.failures.boundary("node", "what the quorum committed", self.fail):
            listener(*news)

    @property
    def _opened_with(self) -> Listeners:
        assert self._listeners is not None, "not opened"
        return self._listeners

    def _append_fetched(self, data: bytes) -> Pieces[None]:
        """Appends records of the leader. Batches that fail their checks or find no room are fetched again later; the
        batches before them count."""
        try:
            fetched = yield from self.log.append_fetched(data, self.quorum.epoch)
        except (BadRecords, Malformed) as bad:
            self._fetch_again(bad)
            return
        self._replay.extend(fetched.batches)
        if fetched.voters:
            self._voters.add(fetched.voters)
            self._voters_changed()
        failure = fetched.failure
        if failure is not None and isinstance(failure.__cause__, OSError) and not is_passing(failure.__cause__):
            self.fail(failure.__cause__)
        elif failure is not None:
            self._fetch_again(failure)

    def _fetch_again(self, why: Exception) -> None:
        if self.world.failures.is_news(line := f"{PARTITION}: records are refused, and fetched again: {why}"):
            _log.warning("%s", line)
        self._inputs.add(self.quorum.records_rejected)

    def _voters_changed(self) -> None:
        voters, offset = self._voters.latest, self._voters.offset
        self._inputs.add(lambda now: self.quorum.voters_changed(voters, offset, now))

    def _commit(self, high_watermark: Offset) -> Pieces[None]:
        """Applies everything below the high watermark before the high watermark becomes visible. Otherwise a new
        controller could decide on an image that lacks committed records."""
        committed = yield from self._replay.commit(high_watermark)
        self.log.commit_up_to(high_watermark)
        if committed is None:  # a snapshot holds everything below; that the high watermark is known is news
            self.world.clock.call_soon(self._notify, self._opened_with.committed, self.committed, NOTHING)
            return
        changes, last, size = committed
        self.world.clock.call_soon(self._notify, self._opened_with.committed, self.committed, changes)
        position = LogPosition(last.epoch, last.last_offset + 1)
        voters = self._voters.at(last.last_offset)
        self.snapshotter.committed(self.committed, position, voters, size, last.timestamp)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = None if self._inputs.is_stopped or self._inputs.is_blocked else self.quorum.next_deadline()
        if deadline is not None:
            delay = max(deadline - self.world.clock.monotonic(), 0.0)
            self._timer = self.world.clock.call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._inputs.feed(self.quorum.tick)

    def fail(self, failed: BaseException) -> None:
        """Ends this node, because it cannot keep its metadata (KAFKA-14275)."""
        if not self._inputs.is_stopped:
            self._inputs.stop()
            self._opened_with.failed(failed)

    # Snapshots of the leader

    def _fetch_snapshot(self, position: LogPosition) -> None:
        leader = self.quorum.leader_id
        endpoint = None if leader is None else endpoint_of(self.quorum.leader_listeners, self.identity.listener)
        if leader is None or endpoint is None:
            self._inputs.add(self.quorum.snapshot_failed)
            return

        def answered(code: Code, current: CurrentLeader) -> None:
            self._inputs.feed(lambda now: self.quorum.snapshot_answered(code, *current, now))

        def done(snapshot: Snapshot | None) -> None:
            if snapshot is None:
                self._inputs.feed(self.quorum.snapshot_failed)
            else:
                self._inputs.block(partial(self._install, snapshot))

        if self._installation is not None:
            self._installation.give_up()
        where = (self.world, self._inputs.block, self._peers, self.identity, self.directory, next(self._numbers))
        self._installation = Installation(*where, position, (leader, endpoint, self.quorum.epoch), answered, done)

    async def _install(self, snapshot: Snapshot) -> None:
        """Installs the snapshot if it is still wanted, and if it is ahead of the log (in Raft's order: epoch first)."""
        position = snapshot.position
        if position != self.quorum.fetching_snapshot:
            return  # another installation has begun
        is_ahead = position > LogPosition(self.log.last_epoch, self.log.durable_end)
        if is_ahead:
            await self.log.restart_at(self.world, position.offset)
            changes = self._replay.begin_with(image_of(snapshot, self.identity.cluster_id))
            self.snapshotter.begin_with(position)
            self.log.commit_up_to(position.offset)
            if snapshot.voters is not None:
                self._voters.begin_with(position.offset - 1, snapshot.voters)
                self._voters_changed()
            self.world.clock.call_soon(self._notify, self._opened_with.committed, self.committed, changes)
        self._inputs.add(self.quorum.snapshot_done if is_ahead else self.quorum.snapshot_failed)
        self._inputs.add(self.quorum.log_flushed)

    # For the handlers and the active controller

    @property
    def committed(self) -> MetadataImage:
        """The metadata that the quorum has committed and that this node has applied."""
        return self._replay.image

    @property
    def voters(self) -> VoterSet:
        return self._voters.latest

    @property
    def is_caught_up(self) -> bool:
        """Whether this node has applied everything up to the high watermark of the leader's last fetch response."""
        if self.committed.features.metadata_version is None:
            return False
        if self.quorum.role is Role.LEADER:
            return not self._replay.is_behind
        return 0 <= self._leader_high_watermark <= self.log.high_watermark

    @property
    def is_deciding(self) -> bool:
        """Whether the last step of the quorum is still being written to disk. No peer knows of it yet."""
        return self._inputs.is_blocked

    @property
    def epoch(self) -> Epoch:
        return self.quorum.epoch

    @property
    def leader_id(self) -> NodeId | None:
        return self.quorum.leader_id

    @property
    def log_end(self) -> Offset:
        return self.log.written_end

    @property
    def high_watermark(self) -> Offset:
        """Everything below it is committed, and is applied here."""
        return self.log.high_watermark

    @property
    def files(self) -> Log:
        return self.log.files

    def endpoint_of(self, node: NodeId, listener: str) -> Endpoint | None:
        if node == self.quorum.leader_id:
            return endpoint_of(self.quorum.leader_listeners, listener)
        return endpoint_of(self.voters.listeners(node), listener)

    def leader_died(self, leader: NodeId, epoch: Epoch) -> None:
        """The process of this leader is proven to be dead."""
        if not self._inputs.is_stopped:
            self._inputs.feed(lambda now: self.quorum.leader_is_dead(leader, epoch, now))

    def requested(
        self, request: Message | FollowerFetch, caller: Caller, answer: Answer, give_up: Callable[[], None]
    ) -> None:
        """Takes a request of a peer. It is answered when everything that the response promises is on disk. It is given
        up instead if that takes so long that too many others wait behind it."""
        self._inputs.feed(lambda now: self.quorum.requested(request, caller, now), answer, give_up)

    def describe(self, request: DescribeQuorumRequest, version: int) -> DescribeQuorumResponse:
        clock = self.world.clock
        return self.quorum.describe(request, version, clock.monotonic(), clock.wall_ms())

    def snapshot_requested(self, replica: ReplicaKey, epoch: Epoch, position: LogPosition) -> Code:
        """The code for a replica that asks for this snapshot in this leader epoch; NONE if it may have it."""
        code = self.quorum.snapshot_requested(replica, epoch, self.world.clock.monotonic())
        return Code.SNAPSHOT_NOT_FOUND if code is Code.NONE and position not in self.log.snapshots else code

    def wait_for_news(self, wake: Callable[[], None]) -> None:
        """Calls `wake` once when the log has grown, its high watermark has moved, or the leader has changed."""
        self._news[wake] = None

    def forget_news(self, wake: Callable[[], None]) -> None:
        """`wake` need not be called any more. Otherwise requests that were answered would be kept until news come."""
        self._news.pop(wake, None)

    def append(self, values: list[Message], encoded: list[bytes], epoch: Epoch) -> Offset:
        """Appends a decision, which is in force when it is committed. Returns its last offset."""
        batch = self.log.append(values, encoded, epoch, self.world.clock.wall_ms())
        self._replay.extend([batch])
        if not self._reports_append:
            self._reports_append = True
            self._inputs.feed(self._wrote)
        return batch.last_offset

    def _wrote(self, now: float) -> Ready:
        self._reports_append = False
        return self.quorum.wrote(now)

    def resign(self, epoch: Epoch) -> None:
        self._inputs.feed(lambda now: self.quorum.resign(epoch, now))

    async def leave(self, seconds: float) -> None:
        """Resigns if this node leads, so that another node is elected at once, and waits for that a little."""
        self._inputs.feed(self.quorum.stop)
        try:
            async with asyncio.timeout(seconds):
                while not self.quorum.may_stop and not self._inputs.is_stopped:
                    await asyncio.sleep(LEAVE_CHECK_SECONDS)
        except TimeoutError:  # normal when a whole cluster is stopped
            _log.info("no other leader of the quorum was seen before this node stopped")

    async def close(self) -> None:
        self._inputs.stop()
        if self._timer is not None:
            self._timer.cancel()
        self._peers.close()
        await self.snapshotter.close()
        await self.log.close()
