"""Metrics of a controller: whether it is the active one, and what it knows of the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.active_controller.active_controller import ActiveController
from highwater.net.metrics import Family, counter, gauge
from highwater.raft_node.raft_node import RaftNode


class ControllerMetrics:
    def __init__(self, raft: RaftNode, controller: ActiveController) -> None:
        self._raft = raft
        self._controller = controller

    def collect(self) -> Iterator[Family]:
        """From the committed image: every controller reports the same, with a short delay."""
        image = self._raft.committed
        partitions = offline = 0
        for _, _, partition in image.topics.each_partition():
            partitions += 1
            offline += not partition.has_leader
        brokers = image.brokers.by_id.values()
        fenced = sum(broker.fenced for broker in brokers)
        imbalanced = sum(1 for _ in image.topics.astray())
        prefix = "kafka_controller_kafkacontroller_"
        yield gauge(prefix + "activecontrollercount", "1 on the active controller.", int(self._controller.is_active))
        yield gauge(prefix + "activebrokercount", "Brokers that are not fenced.", len(brokers) - fenced)
        yield gauge(prefix + "fencedbrokercount", "Brokers that are fenced.", fenced)
        yield gauge(prefix + "globaltopiccount", "Topics of the cluster.", len(image.topics.by_name))
        yield gauge(prefix + "globalpartitioncount", "Partitions of the cluster.", partitions)
        yield gauge(prefix + "offlinepartitionscount", "Partitions without a leader.", offline)
        yield gauge(prefix + "preferredreplicaimbalancecount", "Partitions not led by their first replica.", imbalanced)
        yield counter(
            "kafka_controller_controllerstats_uncleanleaderelections",
            "Leaders elected from outside the ISR and ELR, by this controller.",
            self._controller.unclean_elections,
        )
