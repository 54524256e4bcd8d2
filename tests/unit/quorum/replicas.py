"""The participants: replicas, their keys and their listeners."""

from __future__ import annotations

from highwater.model import NodeId, Uuid
from highwater.quorum import Identity, ReplicaKey, VoterListener, VoterNode, VoterSet

CLUSTER_ID = "a-cluster"
CONTROLLER = "CONTROLLER"


def voter_node(node_id: int, disk: int = 1) -> VoterNode:
    key = ReplicaKey(NodeId(node_id), Uuid(bytes([disk]) * 15 + bytes([node_id % 256])))
    return VoterNode(key, (VoterListener(CONTROLLER, "localhost", 9000 + node_id),))


def voter_set(*ids: int) -> VoterSet:
    return VoterSet.of(voter_node(node_id) for node_id in ids)


def identity(node_id: int) -> Identity:
    return Identity(CLUSTER_ID, voter_node(node_id), CONTROLLER)
