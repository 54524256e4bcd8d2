"""Reads the metadata log, its snapshots and the state of elections when a node starts, and refuses damaged ones."""

from __future__ import annotations

import errno
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath

from highwater.log import names
from highwater.log.checkpoint import read_file
from highwater.log.epoch_cache import EpochCache
from highwater.log.loaded import CorruptLog, LoadedLog, LoadedSegment, LoadRequest
from highwater.log.loader import load_log
from highwater.log.scan import BadBatch, ScannedBatch, scan
from highwater.metadata.pieces import whole
from highwater.model import Offset
from highwater.quorum import CorruptElectionState, ElectionState, LogPosition, VoterSet
from highwater.raft_node.committed_batch import CommittedBatch, decoded, voters_in
from highwater.raft_node.recovery_point import forget_recovery_point, read_recovery_point
from highwater.raft_node.snapshots import Snapshot, list_snapshots, read_snapshot, snapshot_name
from highwater.wire import records
from highwater.world import Disk, Step

INDEX_INTERVAL = 4096
QUORUM_STATE = "quorum-state"


@dataclass(slots=True)
class LoadedMetadata:
    """The content of the directory: the newest whole snapshot, and the log after it."""

    log: LoadedLog
    snapshots: list[LogPosition]
    snapshot: Snapshot | None
    recovery_point: Offset
    election: ElectionState | None
    batches: list[CommittedBatch] = field(default_factory=list)
    voters: list[tuple[Offset, VoterSet]] = field(default_factory=list)
    """The set of the snapshot and all sets in the log, oldest first: a truncation may bring each of them back."""


def load_metadata(disk: Disk, directory: PurePath) -> Generator[Step, None, LoadedMetadata]:
    """A job. It reads the whole log, which is short.

    Raises CorruptLog if something is missing or damaged that had been synced. A voter that forgets committed records
    and goes on voting could make the whole cluster lose them.
    """
    disk.mkdir(directory)
    positions = list_snapshots(disk, directory)
    newest: Snapshot | None = None
    for position in reversed(positions):
        newest = read_snapshot(disk, directory, position)
        if newest is not None:
            break
        positions.remove(position)
    yield Step()
    begin = positions[0].offset if positions else 0
    after = newest.position.offset if newest is not None else 0
    synced = read_recovery_point(disk, directory)
    election = _read_election(disk, directory)
    loaded = yield from load_log(disk, LoadRequest(directory, synced, begin, False, INDEX_INTERVAL))
    if max(loaded.log_end, after) < synced:
        raise _corrupt(directory, f"ends at {loaded.log_end}, but had been synced up to {synced}")
    yield from _check_epochs(disk, loaded, election)
    if newest is not None and newest.position > _end_of(loaded, newest):
        synced = 0
        loaded = yield from _begin_behind(disk, loaded, newest)
    if loaded.log_start > after:
        raise _corrupt(directory, f"begins at {loaded.log_start}, and no whole snapshot reaches up to there")
    positions = yield from _within_reach(disk, loaded, positions)
    found = LoadedMetadata(loaded, positions, newest, synced, election)
    if newest is not None and newest.voters is not None:
        # In the snapshot that formatting writes, at offset 0, this is NEVER_LOGGED.
        found.voters.append((newest.position.offset - 1, newest.voters))
    yield from _read_log(disk, found, after)
    return found


def _read_election(disk: Disk, directory: PurePath) -> ElectionState | None:
    state = read_file(disk, directory / QUORUM_STATE)
    try:
        return None if state is None else ElectionState.from_json(state.decode())
    except ValueError as bad:
        # Without it this voter might vote twice in an epoch.
        raise CorruptElectionState(f"{directory / QUORUM_STATE} is damaged, restore it from a copy: {bad}") from bad


def _check_epochs(disk: Disk, loaded: LoadedLog, election: ElectionState | None) -> Generator[Step, None, None]:
    """Raises CorruptLog if the leader epoch of a batch has changed on disk: no checksum covers it. With a false epoch
    this voter could win an election, or take its log for one that a snapshot has replaced.

    Epochs never fall along the log. And none is above that of the quorum: a node writes down each epoch before it
    appends anything of it.
    """
    before = 0
    for segment in loaded.segments:
        for batch in _batches(disk, loaded.directory, segment, check=False):
            epoch = batch.header.leader_epoch
            place = f"{segment.base_offset:020d}{names.LOG} at {batch.position}"
            if epoch < before:
                raise _corrupt(loaded.directory, f"is damaged, {place}: leader epoch {epoch} behind epoch {before}")
            if election is not None and epoch > election.epoch:
                limit = f"the quorum is in epoch {election.epoch}"
                raise _corrupt(loaded.directory, f"is damaged, {place}: leader epoch {epoch} where {limit}")
            before = epoch
        yield Step()


def _end_of(loaded: LoadedLog, newest: Snapshot) -> LogPosition:
    """The end of the log in Raft's order, epoch first. An empty log has the epoch of the snapshot before it."""
    if loaded.log_end == loaded.log_start:
        return LogPosition(newest.position.epoch, loaded.log_end)
    return LogPosition(max(EpochCache(loaded.epochs).epoch_at(loaded.log_end - 1), 0), loaded.log_end)


def _begin_behind(disk: Disk, loaded: LoadedLog, newest: Snapshot) -> Generator[Step, None, LoadedLog]:
    """Deletes the log, because the snapshot is ahead of it: the node stopped after it had fetched the snapshot and
    before it cut the log. Records of the log beyond the snapshot are of an older epoch, so they were never
    committed."""
    directory, offset = loaded.directory, newest.position.offset
    yield from forget_recovery_point(disk, directory)
    for name in disk.list(directory):
        if name.endswith(names.SEGMENT_FILES) or name == names.EPOCH_CHECKPOINT:
            disk.unlink(directory / name)
    begun = yield from load_log(disk, LoadRequest(directory, 0, offset, False, INDEX_INTERVAL))
    begun.repairs.append(f"dropped the log up to {loaded.log_end}: {snapshot_name(newest.position)} is ahead of it")
    return begun


def _within_reach(
    disk: Disk, loaded: LoadedLog, positions: list[LogPosition]
) -> Generator[Step, None, list[LogPosition]]:
    """The snapshots that the log continues. Those below its start are deleted: with one of them, a leader would send a
    node that has just installed the newest snapshot back to fetch it again, without end."""
    for position in positions:
        if position.offset < loaded.log_start:
            disk.unlink(loaded.directory / snapshot_name(position))
    yield Step()
    return [position for position in positions if position.offset >= loaded.log_start]


def _read_log(disk: Disk, found: LoadedMetadata, after: Offset) -> Generator[Step, None, None]:
    """Takes every batch after the snapshot. Raises CorruptLog if there is a gap between their offsets."""
    directory, following = found.log.directory, None
    for segment in found.log.segments:
        for batch in _batches(disk, directory, segment, check=True):
            header = batch.header
            if following not in (None, header.base_offset):
                raise _corrupt(directory, f"lacks the offsets from {following} to {header.base_offset}")
            following = header.next_offset
            if header.base_offset >= after:
                _take(found, header, batch.data)
        yield Step()


def _batches(disk: Disk, directory: PurePath, segment: LoadedSegment, check: bool) -> Iterator[ScannedBatch]:
    """Every batch of the segment. Raises CorruptLog: what was not synced and is torn was cut off before."""
    file = disk.open(names.segment_file(directory, segment.base_offset, names.LOG))
    try:
        yield from scan(file, 0, 0, check)
    except BadBatch as bad:
        raise _corrupt(directory, f"is damaged below its recovery point, {file.path.name} {bad}") from bad
    finally:
        file.close()


def _corrupt(directory: PurePath, what: str) -> CorruptLog:
    why = f"the metadata log {what}; it is not cut, since committed records would go"
    return CorruptLog(errno.EIO, why, str(directory))


def _take(found: LoadedMetadata, header: records.Header, data: memoryview) -> None:
    found.voters += voters_in(header, data)
    found.batches.append(whole(decoded(header, data)))
