"""Fetches a snapshot from the leader piece by piece, for a replica whose log is too old."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Generator
from pathlib import PurePath
from typing import Any, NamedTuple

from highwater.errors import Code, code_of
from highwater.log.truncation import remove_files
from highwater.model import METADATA_TOPIC, Endpoint, Epoch, NodeId
from highwater.quorum import Identity, LogPosition, VoterListener
from highwater.quorum.messages import node_or_none
from highwater.raft_node.peers import Peers
from highwater.raft_node.snapshots import Snapshot, read_snapshot, snapshot_name
from highwater.wire.messages.fetch_snapshot_request import (
    FetchSnapshotRequest,
    PartitionSnapshot,
    SnapshotId,
    TopicSnapshot,
)
from highwater.wire.messages.fetch_snapshot_response import FetchSnapshotResponse
from highwater.world import Disk, Step, World
from highwater.world.jobs import finished

PIECE_BYTES = 1 << 20
_log = logging.getLogger(__name__)


def read_piece(
    disk: Disk, directory: PurePath, position: LogPosition, start: int, size: int
) -> Generator[Step, None, tuple[int, bytes]]:
    """A job. Returns the size of the whole file and a piece of it."""
    file = disk.open(directory / snapshot_name(position))
    yield Step()
    piece = bytes(file.read(start, size)) if 0 <= start < file.size else b""
    whole = file.size
    file.close()
    return whole, piece


def add_piece(disk: Disk, aside: PurePath, start: int, piece: bytes) -> Generator[Step, None, int]:
    """A job. Returns the new size of the file."""
    file = disk.open(aside, create=True)
    file.truncate(start)
    file.append(piece)
    yield Step()
    size = file.size
    file.close()
    return size


def finish(
    disk: Disk, directory: PurePath, position: LogPosition, aside: PurePath
) -> Generator[Step, None, Snapshot | None]:
    """A job: syncs, renames and reads the snapshot. None if it is damaged; then the file is deleted."""
    whole = directory / snapshot_name(position)
    file = disk.open(aside)
    file.sync()
    yield Step()
    disk.rename(aside, whole)
    disk.sync_dir(directory)
    file.close()
    snapshot = read_snapshot(disk, directory, position)
    if snapshot is None:
        disk.unlink(whole)
    return snapshot


class CurrentLeader(NamedTuple):
    """The leader of the quorum by a response; None if the sender knows none."""

    id: NodeId | None
    epoch: Epoch
    listeners: tuple[VoterListener, ...]


def current_leader(answer: FetchSnapshotResponse, listener: str) -> CurrentLeader:
    """From a response with one partition."""
    current = answer.topics[0].partitions[0].current_leader
    nodes = [node for node in answer.node_endpoints if node.node_id == current.leader_id]
    known = tuple(VoterListener(listener, node.host, node.port) for node in nodes)
    return CurrentLeader(node_or_none(current.leader_id), current.leader_epoch, known)


class Installation:
    """Fetches one snapshot. `block` holds the quorum up while the whole snapshot is synced and read. Calls `answered`
    for every response of the leader, and `done` once at the end: with the snapshot, or with None if it was given up."""

    def __init__(
        self,
        world: World,
        block: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
        peers: Peers,
        identity: Identity,
        directory: PurePath,
        number: int,
        position: LogPosition,
        leader: tuple[NodeId, Endpoint, int],
        answered: Callable[[Code, CurrentLeader], None],
        done: Callable[[Snapshot | None], None],
    ) -> None:
        self._world = world
        self._block = block
        self._peers = peers
        self._identity = identity
        self._directory = directory
        self._position = position
        self._leader = leader
        self._on_answer = answered
        self._done: Callable[[Snapshot | None], None] | None = done
        self._aside = directory / f"{number}.{snapshot_name(position)}.part"
        """A file of its own: a job of an installation that was given up may still write to its file."""
        self._boundary = world.failures.boundary("job", "the leader's snapshot of the metadata", self._end)
        self._ask(0)

    def _ask(self, start: int) -> None:
        _, endpoint, epoch = self._leader
        part = PartitionSnapshot(
            partition=0,
            current_leader_epoch=epoch,
            snapshot_id=SnapshotId(end_offset=self._position.offset, epoch=self._position.epoch),
            position=start,
            replica_directory_id=self._identity.node.key.directory_id,
        )
        request = FetchSnapshotRequest(
            cluster_id=self._identity.cluster_id,
            replica_id=self._identity.node.key.id,
            max_bytes=PIECE_BYTES,
            topics=[TopicSnapshot(name=METADATA_TOPIC, partitions=[part])],
        )
        self._peers.ask(endpoint, request, FetchSnapshotResponse, lambda answer: self._answered(start, answer))

    def give_up(self) -> None:
        """Another snapshot is fetched, or the same one from another leader: `done` is not called any more."""
        self._done = None
        self._remove()

    def _remove(self) -> None:
        self._world.run(remove_files, [self._aside], done=_removed)

    def _answered(self, start: int, answer: FetchSnapshotResponse | None) -> None:
        if self._done is not None:
            with self._boundary:
                self._take(start, answer)

    def _take(self, start: int, answer: FetchSnapshotResponse | None) -> None:
        parts = [part for topic in answer.topics for part in topic.partitions] if answer is not None else []
        if answer is None or answer.error_code or len(answer.topics) != 1 or len(parts) != 1:
            self._end(None)
            return
        part = parts[0]
        code = code_of(part.error_code)
        self._on_answer(code, current_leader(answer, self._identity.listener))
        if code is not Code.NONE or part.position != start:
            self._end(None)
            return
        piece = bytes(part.unaligned_records)

        def added(size: Any) -> None:
            if self._done is None:
                self._remove()
            elif isinstance(size, Exception) or not piece:
                self._end(size)
            elif size < part.size:
                self._ask(size)
            else:
                self._block(self._finish)

        self._world.run(add_piece, self._aside, start, piece, done=added)

    async def _finish(self) -> None:
        """The quorum gets no input while this runs. The follower hears nothing of its leader then, perhaps for longer
        than its fetch timeout. It would become a candidate, and would fetch the snapshot again, without end."""
        result: Snapshot | Exception | None
        try:
            result = await finished(self._world, finish, self._directory, self._position, self._aside)
        except Exception as failed:  # noqa: BLE001 as for the pieces: it is fetched again
            result = failed
        self._end(result)

    def _end(self, result: Snapshot | Exception | None) -> None:
        """Called at every end, since the quorum fetches nothing until it knows that the snapshot is done."""
        if isinstance(result, Exception):
            line = f"the snapshot {snapshot_name(self._position)} is fetched again: {result}"
            if self._world.failures.is_news(line):
                _log.warning("%s", line)
        if not isinstance(result, Snapshot):
            self._remove()
        done, self._done = self._done, None
        if done is not None:
            done(result if isinstance(result, Snapshot) else None)


def _removed(result: Exception | None) -> None:
    if result is not None:
        _log.error("a part of a snapshot is left behind until the next start: %s", result)
