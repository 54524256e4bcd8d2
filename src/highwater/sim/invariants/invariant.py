"""The protocol of an invariant: it is notified of changes, and raises if one breaks a promise."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.metadata.cluster import MetadataImage
from highwater.metadata.partitions import PartitionImage
from highwater.model import TopicPartition
from highwater.sim.view import SCRATCH, ClusterView, NodeView, ReplicaView


class Violation(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: Invariant, text: str) -> None:
        super().__init__(f"{type(invariant).__name__}: {text}")
        self.invariant = type(invariant).__name__


class Invariant:
    """Remembers what it saw. A subclass overrides the methods for the changes that it checks. Each may raise
    Violation."""

    def node(self, view: ClusterView, node: NodeView) -> None:
        """The node has changed, apart from its replicas."""

    def replica(self, view: ClusterView, node: NodeView, tp: TopicPartition, replica: ReplicaView) -> None:
        """The replica has changed."""

    def truth(self, view: ClusterView, truth: MetadataImage) -> None:
        """More metadata is committed."""

    def trouble(self, node: NodeView, tp: TopicPartition, trouble: OSError, is_harmed: bool) -> None:
        """A log has gone offline or counts as damaged. `is_harmed`: its disk failed, or a copy has rotted."""

    def clients(self, view: ClusterView) -> None:
        """A client got an answer."""

    def check(self, view: ClusterView) -> None:
        """Everything may have changed."""
        for node in view.nodes:
            self.node(view, node)
            for tp, replica in node.replicas.items():
                self.replica(view, node, tp, replica)
        if view.truth is not None:
            self.truth(view, view.truth)
        self.clients(view)


def partitions_of(image: MetadataImage) -> Iterator[tuple[TopicPartition, PartitionImage]]:
    """All replicas except those of topics that are created and deleted: what is remembered of a name would not be true
    for its next life."""
    for topic, index, partition in image.topics.each_partition():
        if topic.name.startswith(SCRATCH):
            continue
        yield TopicPartition(topic.name, index), partition


def partition_of(view: ClusterView, tp: TopicPartition) -> PartitionImage | None:
    return None if view.truth is None else view.truth.topics.partition(tp.topic, tp.partition)
