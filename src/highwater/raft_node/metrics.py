"""Metrics of the metadata quorum. Every node has them, since every node follows the quorum."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.model import NO_NODE
from highwater.net.metrics import Family, gauge, labels
from highwater.raft_node.raft_node import RaftNode


class QuorumMetrics:
    """The metrics of one replica of the metadata log."""

    def __init__(self, raft: RaftNode) -> None:
        self._raft = raft

    def collect(self) -> Iterator[Family]:
        quorum = self._raft.quorum
        raft = "kafka_server_raftmetrics_"
        state = [(labels(current_state=quorum.role.value.lower()), 1)]
        yield gauge(raft + "current_state", "The role in the quorum, as a label.", state)
        leader = NO_NODE if quorum.leader_id is None else quorum.leader_id
        yield gauge(raft + "current_leader", "The quorum's leader; -1 if it is unknown.", leader)
        yield gauge(raft + "current_epoch", "The quorum's epoch.", quorum.epoch)
        committed = -1 if quorum.high_watermark is None else quorum.high_watermark
        yield gauge(raft + "high_watermark", "The high watermark of the metadata log; -1 if unknown.", committed)
        yield gauge(raft + "log_end_offset", "Where the metadata log ends here.", self._raft.log_end)
        yield gauge(raft + "number_of_voters", "Voters of the quorum.", len(quorum.voters.ids))
