"""Metrics of the metadata quorum, which every node follows, and of the controllers in it."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.model import NO_NODE
from highwater.net.metrics import Family, counter, gauge, labels
from highwater.raft_node.active import ActiveController
from highwater.raft_node.raft_node import RaftNode


class QuorumMetrics:
    """Of one replica of the metadata log; and, where it is a controller, what it knows of the cluster."""

    def __init__(self, raft: RaftNode, controller: ActiveController | None) -> None:
        self._raft = raft
        self._controller = controller

    def collect(self) -> Iterator[Family]:
        yield from self._replica()
        if self._controller is not None:
            yield from self._cluster(self._controller)

    def _replica(self) -> Iterator[Family]:
        quorum = self._raft.quorum
        raft = "kafka_server_raftmetrics_"
        state = [(labels(current_state=quorum.role.value.lower()), 1)]
        yield gauge(raft + "current_state", "The role in the quorum, as a label.", state)
        leader = NO_NODE if quorum.leader_id is None else quorum.leader_id
        yield gauge(raft + "current_leader", "The quorum's leader; -1 if it is unknown.", leader)
        yield gauge(raft + "current_epoch", "The quorum's epoch.", quorum.epoch)
        committed = -1 if quorum.high_watermark is None else quorum.high_watermark
        yield gauge(raft + "high_watermark", "What of the metadata log is committed; -1 if unknown.", committed)
        yield gauge(raft + "log_end_offset", "Where the metadata log ends here.", self._raft.log.written_end)
        yield gauge(raft + "number_of_voters", "Voters of the quorum.", len(quorum.voters.ids))

    def _cluster(self, controller: ActiveController) -> Iterator[Family]:
        """As committed: every controller tells the same, a moment apart."""
        image = self._raft.committed
        partitions = offline = 0
        for _, _, partition in image.topics.each_partition():
            partitions += 1
            offline += not partition.has_leader
        brokers = image.brokers.by_id.values()
        fenced = sum(broker.fenced for broker in brokers)
        imbalanced = sum(1 for _ in image.topics.astray())
        told = "kafka_controller_kafkacontroller_"
        yield gauge(told + "activecontrollercount", "1 on the active controller.", int(controller.is_active))
        yield gauge(told + "activebrokercount", "Brokers that are not fenced.", len(brokers) - fenced)
        yield gauge(told + "fencedbrokercount", "Brokers that are fenced.", fenced)
        yield gauge(told + "globaltopiccount", "Topics of the cluster.", len(image.topics.by_name))
        yield gauge(told + "globalpartitioncount", "Partitions of the cluster.", partitions)
        yield gauge(told + "offlinepartitionscount", "Partitions without a leader.", offline)
        yield gauge(told + "preferredreplicaimbalancecount", "Partitions not led by their first replica.", imbalanced)
        yield counter(
            "kafka_controller_controllerstats_uncleanleaderelections",
            "Leaders elected from outside the ISR and ELR, by this controller.",
            controller.unclean_elections,
        )
