"""Voters and voter sets. A replica is identified by its node id and its directory id (KIP-853)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from highwater.model import ZERO_UUID, Endpoint, NodeId, Uuid
from highwater.wire.messages import voters_record
from highwater.wire.messages.voters_record import VotersRecord

KRAFT_VERSIONS = (0, 1)
"""The kraft.version levels that this code supports."""


class ReplicaKey(NamedTuple):
    """A replica on one particular disk: a voter that lost its disk comes back as another replica (KIP-853)."""

    id: NodeId
    directory_id: Uuid = ZERO_UUID
    """Zero if it is not known: at kraft.version 0, or from a peer that uses an old version of the API."""

    def names(self, other: ReplicaKey) -> bool:
        """Whether `other` is this replica. A key without a directory id matches every disk of its node."""
        return self.id == other.id and self.directory_id in (ZERO_UUID, other.directory_id)


class VoterListener(NamedTuple):
    name: str
    host: str
    port: int


Listeners = tuple[VoterListener, ...]


def endpoint_of(listeners: Listeners, name: str) -> Endpoint | None:
    return next((Endpoint(at.host, at.port) for at in listeners if at.name == name), None)


@dataclass(frozen=True, slots=True)
class VoterNode:
    key: ReplicaKey
    listeners: Listeners = ()
    kraft_versions: tuple[int, int] = KRAFT_VERSIONS


@dataclass(frozen=True, slots=True)
class VoterSet:
    """Immutable. The nodes are sorted by id, so that nothing depends on hashing."""

    nodes: tuple[VoterNode, ...] = ()

    @classmethod
    def of(cls, nodes: Iterable[VoterNode]) -> VoterSet:
        ordered = tuple(sorted(nodes, key=lambda node: node.key))
        if len({node.key.id for node in ordered}) != len(ordered):
            raise ValueError(f"two voters share an id: {[node.key.id for node in ordered]}")
        return cls(ordered)

    @classmethod
    def from_record(cls, record: VotersRecord) -> VoterSet:
        return cls.of(
            VoterNode(
                ReplicaKey(NodeId(voter.voter_id), Uuid(bytes(voter.voter_directory_id))),
                tuple(VoterListener(at.name, at.host, at.port) for at in voter.endpoints),
                (voter.kraft_version_feature.min_supported_version, voter.kraft_version_feature.max_supported_version),
            )
            for voter in record.voters
        )

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            version=0,
            voters=[
                voters_record.Voter(
                    voter_id=node.key.id,
                    voter_directory_id=node.key.directory_id,
                    endpoints=[
                        voters_record.Endpoint(name=at.name, host=at.host, port=at.port) for at in node.listeners
                    ],
                    kraft_version_feature=voters_record.KRaftVersionFeature(
                        min_supported_version=node.kraft_versions[0], max_supported_version=node.kraft_versions[1]
                    ),
                )
                for node in self.nodes
            ],
        )

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def majority(self) -> int:
        return len(self.nodes) // 2 + 1

    @property
    def ids(self) -> tuple[NodeId, ...]:
        return tuple(node.key.id for node in self.nodes)

    @property
    def keys(self) -> tuple[ReplicaKey, ...]:
        return tuple(node.key for node in self.nodes)

    def node(self, node_id: NodeId) -> VoterNode | None:
        return next((node for node in self.nodes if node.key.id == node_id), None)

    def listeners(self, node_id: NodeId) -> Listeners:
        node = self.node(node_id)
        return node.listeners if node is not None else ()

    def is_voter(self, key: ReplicaKey) -> bool:
        return any(node.key.names(key) for node in self.nodes)

    def has(self, key: ReplicaKey) -> bool:
        """Whether a peer with this key may be a voter. Before KIP-853 a peer sends no directory id."""
        node = self.node(key.id)
        return node is not None and (node.key.names(key) or key.names(node.key))

    def is_only_voter(self, key: ReplicaKey) -> bool:
        return len(self.nodes) == 1 and self.is_voter(key)

    def needs_update(self, node: VoterNode) -> bool:
        """Whether this voter's listeners or versions differ from those in the set."""
        known = self.node(node.key.id)
        return known is not None and known.key.names(node.key) and known != node

    def with_voter(self, node: VoterNode) -> VoterSet:
        """The set with this voter added, or replaced if its id is there already."""
        return VoterSet.of([*(other for other in self.nodes if other.key.id != node.key.id), node])
