"""Reads the voters from a directory that no node uses. It repairs and cuts nothing."""

from __future__ import annotations

from pathlib import PurePath
from typing import NamedTuple

from highwater.log.names import LOG
from highwater.log.scan import BadBatch, scan
from highwater.model import METADATA_TOPIC
from highwater.quorum import VoterSet
from highwater.raft_node.committed_batch import voters_in
from highwater.raft_node.metadata_loader import QUORUM_STATE
from highwater.raft_node.snapshots import position_of, read_snapshot
from highwater.world import Disk


class RecordedVoters(NamedTuple):
    voters: VoterSet
    has_run: bool
    """False if the directory was only formatted: then no vote was given with it yet."""


def recorded_voters(disk: Disk, directory: PurePath) -> RecordedVoters | None:
    """For jobs only. The last voter set of the metadata log in a node's directory; None if it has none."""
    directory = directory / f"{METADATA_TOPIC}-0"
    if disk.stat(directory) is None:
        return None
    names = disk.list(directory)
    voters: VoterSet | None = None
    positions = [position for position in map(position_of, names) if position is not None]
    for position in sorted(positions, key=lambda each: (each.offset, each.epoch), reverse=True):
        snapshot = read_snapshot(disk, directory, position)
        if snapshot is not None:
            voters = snapshot.voters
            break
    for name in names:
        if name.endswith(LOG):
            voters = _last_in(disk, directory / name) or voters
    return None if voters is None else RecordedVoters(voters, QUORUM_STATE in names)


def _last_in(disk: Disk, path: PurePath) -> VoterSet | None:
    """A power cut may have damaged the tail. What comes before it counts."""
    last: VoterSet | None = None
    file = disk.open(path)
    try:
        for batch in scan(file, 0, 0):
            for _, voters in voters_in(batch.header, batch.data):
                last = voters
    except BadBatch:
        pass
    finally:
        file.close()
    return last
