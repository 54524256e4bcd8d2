"""What the directories of a cluster record: the cluster, and the voters that were formatted together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from highwater.cluster.directory import NODES
from highwater.cluster.failed import ClusterFailed
from highwater.log.meta_properties import MetaProperties, read_meta_properties
from highwater.model import ZERO_UUID, Endpoint, NodeId
from highwater.quorum import ReplicaKey, VoterSet
from highwater.quorum.voters import endpoint_of
from highwater.storage.recorded_voters import RecordedVoters, recorded_voters
from highwater.world import Disk

FIRST_CONTROLLER_ID = 101

Shape = Callable[[int, int], str]
"""Formats the number of brokers and of separate controllers as the user of the cluster gives them."""


def as_options(brokers: int, controllers: int) -> str:
    """As options of `highwater up`."""
    return f"--brokers {brokers}" + (f" --controllers {controllers}" if controllers else "")


def as_arguments(brokers: int, controllers: int) -> str:
    """As arguments of `Cluster`."""
    return f"brokers={brokers}" + (f", controllers={controllers}" if controllers else "")


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The record of the formatted directories. A node without a directory is missing."""

    directory: Path
    metas: Mapping[NodeId, MetaProperties]
    voters: VoterSet | None
    """The voters that were formatted together; None if no directory names any."""
    has_run: bool
    """A vote may have been given with these directories."""
    known: frozenset[NodeId]
    """Nodes that were here before, though the directories of some may be lost."""

    @classmethod
    def read(cls, disk: Disk, directory: Path) -> ClusterRecord:
        """Raises ClusterFailed if the directories do not belong together."""
        metas: dict[NodeId, MetaProperties] = {}
        found: dict[NodeId, RecordedVoters] = {}
        for home in sorted(directory.glob("node-*")):
            meta = read_meta_properties(disk, home / "data")
            if meta is not None:
                metas[meta.node_id] = meta
                recorded = recorded_voters(disk, home / "data")
                if recorded is not None:
                    found[meta.node_id] = recorded
        clusters = {meta.cluster_id: node for node, meta in metas.items()}
        if len(clusters) > 1:
            (one, first), (other, second), *_ = clusters.items()
            raise ClusterFailed(
                f"{directory}: node {first} belongs to cluster {one}, node {second} to cluster {other}: "
                "directories of different clusters cannot run together"
            )
        has_run = any(each.has_run for each in found.values())
        known = frozenset((*metas, *_left(directory), *_listed(directory)))
        return cls(directory, metas, _agreed(directory, found), has_run, known)

    @property
    def lost(self) -> list[NodeId]:
        """The voters whose directories are gone, though another may stand in its place: the quorum counts a voter on
        the directory alone that it was formatted with."""
        found = {ReplicaKey(node, meta.directory_id or ZERO_UUID) for node, meta in self.metas.items()}
        keys = () if self.voters is None else self.voters.keys
        return [key.id for key in keys if not any(map(key.names, found))]

    @property
    def cluster_id(self) -> str | None:
        return next((meta.cluster_id for meta in self.metas.values()), None)

    def endpoint(self, voter: NodeId, listener: str) -> Endpoint | None:
        """The address of this voter in the quorum's log."""
        return None if self.voters is None else endpoint_of(self.voters.listeners(voter), listener)

    def check(self, nodes: Sequence[NodeId], voters: Sequence[NodeId], shape: Shape) -> None:
        """Raises ClusterFailed if these nodes, with these voters, cannot run on the directories."""
        if self.metas and self.voters is None:
            raise ClusterFailed(
                f"{self.directory} holds {_nodes(sorted(self.metas))} of cluster {self.cluster_id}, but none of its "
                "voters: a new quorum must not answer for it. Bring their directories back from a copy, or choose "
                "another directory"
            )
        if self.voters is not None and set(self.voters.ids) != set(voters):
            self._refuse(voters, shape)
        absent = sorted(set(self.metas) - set(nodes))
        if absent:
            raise ClusterFailed(
                f"{self.directory} also holds {_nodes(absent)}, whose partitions would be without them: "
                f"start it with {self._fitting(shape)}, or choose another directory"
            )
        new = sorted(set(nodes) - set(voters) - self.known)
        if self.has_run and new:
            raise ClusterFailed(
                f"{self.directory} holds {_nodes(sorted(self.metas))}, and {_nodes(new)} would join it for good: it "
                f"could not be started without {'it' if len(new) == 1 else 'them'} again. Start it with "
                f"{self._fitting(shape)}, or choose another directory"
            )
        if self.has_run and self.voters is not None and len(voters) - len(self.lost) < self.voters.majority:
            raise ClusterFailed(
                f"{self.directory} has lost the directories of {_nodes(self.lost)}: of the voters {_ids(voters)} "
                f"{self.voters.majority} are needed, and the cluster's metadata was theirs. Bring the directories back "
                "from a copy, or choose another directory"
            )

    def _refuse(self, asked: Sequence[NodeId], shape: Shape) -> None:
        assert self.voters is not None
        raise ClusterFailed(
            f"{self.directory} was formatted for {_voters(self.voters.ids)}; this start would have {_voters(asked)}, "
            f"and a quorum keeps the voters that it was formatted with: start it with {self._fitting(shape)}, or "
            "choose another directory"
        )

    def _fitting(self, shape: Shape) -> str:
        """The numbers of nodes that fit the directory."""
        assert self.voters is not None or self.known
        known = {*self.known, *(self.voters.ids if self.voters is not None else ())}
        brokers = sum(node < FIRST_CONTROLLER_ID for node in known)
        return shape(brokers, len(known) - brokers)


def _left(directory: Path) -> Iterator[NodeId]:
    """The nodes that have a folder, even an empty one."""
    for home in directory.glob("node-*"):
        number = home.name.removeprefix("node-")
        if number.isdecimal():
            yield NodeId(int(number))


def _listed(directory: Path) -> list[NodeId]:
    """The nodes of the last start; empty if the list cannot be read, for example after a power cut."""
    try:
        return [NodeId(int(node["id"])) for node in json.loads((directory / NODES).read_text())["nodes"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _agreed(directory: Path, found: Mapping[NodeId, RecordedVoters]) -> VoterSet | None:
    """The one voter set of all directories: there must never be two quorums of one cluster."""
    agreed: tuple[NodeId, VoterSet] | None = None
    for node, each in found.items():
        if agreed is not None and agreed[1].keys != each.voters.keys:
            raise ClusterFailed(
                f"{directory}: node {agreed[0]} has the voters {_ids(agreed[1].ids)}, node {node} has "
                f"{_ids(each.voters.ids)}, on other directories: they were not formatted together, and would be two "
                "quorums of one cluster"
            )
        agreed = agreed or (node, each.voters)
    return None if agreed is None else agreed[1]


def _ids(nodes: Sequence[int]) -> str:
    return ", ".join(map(str, nodes))


def _nodes(nodes: Sequence[int]) -> str:
    return f"node {nodes[0]}" if len(nodes) == 1 else f"the nodes {_ids(nodes)}"


def _voters(nodes: Sequence[int]) -> str:
    return f"the {'voter' if len(nodes) == 1 else 'voters'} {_ids(nodes)}"
