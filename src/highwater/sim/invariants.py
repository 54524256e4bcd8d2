"""What must hold at every moment of a cluster, whatever is killed, paused or cut. Each object remembers what it saw.

Log matching, leader completeness and the supersets are those of the published specifications of Kafka's replication and
of Raft; the others are promises of this project.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from highwater.metadata.cluster import MetadataImage
from highwater.metadata.partitions import PartitionImage
from highwater.model import NO_NODE, TopicPartition
from highwater.sim.view import Batch, ClusterView, NodeView, ReplicaView


class Violation(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: Invariant, text: str) -> None:
        super().__init__(f"{type(invariant).__name__}: {text}")
        self.invariant = type(invariant).__name__


class Invariant(Protocol):
    def check(self, view: ClusterView) -> None:
        """Raises Violation."""


def partitions_of(image: MetadataImage | None) -> Iterator[tuple[TopicPartition, PartitionImage]]:
    if image is not None:
        for topic, index, partition in image.topics.each_partition():
            yield TopicPartition(topic.name, index), partition


def replicas_of(view: ClusterView) -> Iterator[tuple[NodeView, TopicPartition, ReplicaView]]:
    for node in view.nodes:
        for tp, replica in node.replicas.items():
            yield node, tp, replica


class OneQuorumLeader:
    """At most one node leads a quorum epoch, ever, and in one life only (KAFKA-10527)."""

    def __init__(self) -> None:
        self._leaders: dict[int, tuple[int, int]] = {}

    def check(self, view: ClusterView) -> None:
        for node in view.nodes:
            if node.leads_quorum and node.quorum_epoch is not None:
                leader = self._leaders.setdefault(node.quorum_epoch, (node.id, node.life))
                if leader != (node.id, node.life):
                    raise Violation(self, f"{leader} and {(node.id, node.life)} lead quorum epoch {node.quorum_epoch}")


class QuorumEpochRises:
    """A node's quorum epoch never goes back, crashes included."""

    def __init__(self) -> None:
        self._epochs: dict[int, int] = {}

    def check(self, view: ClusterView) -> None:
        for node in view.nodes:
            before = self._epochs.get(node.id, 0)
            if node.quorum_epoch is None:
                continue
            if node.quorum_epoch < before:
                raise Violation(self, f"node {node.id} went back from epoch {before} to {node.quorum_epoch}")
            self._epochs[node.id] = node.quorum_epoch


class OneActiveController:
    """At most one active controller of an epoch, and it leads the quorum."""

    def __init__(self) -> None:
        self._active: dict[int, int] = {}

    def check(self, view: ClusterView) -> None:
        for node in view.nodes:
            if node.active_epoch is not None:
                active = self._active.setdefault(node.active_epoch, node.id)
                if active != node.id:
                    raise Violation(self, f"{active} and {node.id} are the controllers of epoch {node.active_epoch}")


class CommittedMetadataStays:
    """The metadata high watermark of a life never goes back."""

    def __init__(self) -> None:
        self._high: dict[tuple[int, int], int] = {}

    def check(self, view: ClusterView) -> None:
        for node in view.nodes:
            before = self._high.get((node.id, node.life), 0)
            if node.metadata_high_watermark < before:
                raise Violation(self, f"node {node.id}: from {before} to {node.metadata_high_watermark}")
            self._high[node.id, node.life] = node.metadata_high_watermark


class SameImage:
    """What two nodes make of the same metadata up to the same offset is the same."""

    def __init__(self) -> None:
        self._images: dict[int, tuple[int, MetadataImage]] = {}
        self._last: dict[int, MetadataImage] = {}

    def check(self, view: ClusterView) -> None:
        for node in view.nodes:
            image = node.image
            if image is None or image is self._last.get(node.id) or image.offset < 0:
                continue
            self._last[node.id] = image
            other, known = self._images.setdefault(image.offset, (node.id, image))
            if known is not image and known != image:
                raise Violation(self, f"{other} and {node.id} differ at offset {image.offset}")


class OnePartitionLeader:
    """At most one replica leads a partition in a leader epoch, ever."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[TopicPartition, int], int] = {}

    def check(self, view: ClusterView) -> None:
        for node, tp, replica in replicas_of(view):
            if replica.leads:
                leader = self._leaders.setdefault((tp, replica.epoch), node.id)
                if leader != node.id:
                    raise Violation(self, f"{tp}: {leader} and {node.id} lead in epoch {replica.epoch}")


class PartitionEpochsRise:
    """The leader epoch and the partition epoch that metadata names never go back; an ISR changes only with them."""

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, PartitionImage] = {}
        self._truth: MetadataImage | None = None

    def check(self, view: ClusterView) -> None:
        if view.truth is self._truth:
            return
        self._truth = view.truth
        for tp, part in partitions_of(view.truth):
            before = self._seen.get(tp)
            if before is not None and before is not part:
                if part.leader_epoch < before.leader_epoch or part.partition_epoch < before.partition_epoch:
                    raise Violation(self, f"{tp}: epochs went back from {before} to {part}")
                if set(part.isr) != set(before.isr) and part.partition_epoch == before.partition_epoch:
                    raise Violation(self, f"{tp}: the ISR changed within partition epoch {part.partition_epoch}")
            self._seen[tp] = part


class ReplicaEpochRises:
    """Within a life a replica's leader epoch never goes back."""

    def __init__(self) -> None:
        self._epochs: dict[tuple[int, int, TopicPartition], int] = {}

    def check(self, view: ClusterView) -> None:
        for node, tp, replica in replicas_of(view):
            key = (node.id, node.life, tp)
            if replica.epoch < self._epochs.get(key, -1):
                raise Violation(self, f"{tp} on {node.id}: from epoch {self._epochs[key]} to {replica.epoch}")
            self._epochs[key] = replica.epoch


class LeaderInIsr:
    """Whoever leads is in the ISR, and an ISR is never empty unless eligible replicas stand in for it (KIP-966)."""

    def check(self, view: ClusterView) -> None:
        for tp, part in partitions_of(view.truth):
            if part.leader != NO_NODE and part.leader not in part.isr:
                raise Violation(self, f"{tp}: {part.leader} leads, the ISR is {part.isr}")
            if not part.isr and not part.elr and not part.last_known_elr:
                raise Violation(self, f"{tp}: nobody may ever lead it again")


class FencedNotInIsr:
    """A fenced broker leads nothing, and shares an ISR with nobody."""

    def check(self, view: ClusterView) -> None:
        if view.truth is None:
            return
        fenced = {broker.id for broker in view.truth.brokers.by_id.values() if broker.fenced}
        for tp, part in partitions_of(view.truth) if fenced else ():
            wrong = [node for node in part.isr if node in fenced]
            if part.leader in fenced or (wrong and len(part.isr) > 1):
                raise Violation(self, f"{tp}: {sorted(fenced)} are fenced, leader {part.leader}, ISR {part.isr}")


class OffsetsInOrder:
    """Log start <= high watermark <= log end, and nothing is durable that is not there."""

    def check(self, view: ClusterView) -> None:
        for node, tp, replica in replicas_of(view):
            if not replica.log_start <= replica.high_watermark <= replica.log_end:
                text = f"start {replica.log_start}, high watermark {replica.high_watermark}, end {replica.log_end}"
                raise Violation(self, f"{tp} on {node.id}: {text}")


class HighWatermarkRises:
    """Within a life a replica's high watermark never goes back."""

    def __init__(self) -> None:
        self._high: dict[tuple[int, int, TopicPartition], int] = {}

    def check(self, view: ClusterView) -> None:
        for node, tp, replica in replicas_of(view):
            key = (node.id, node.life, tp)
            if replica.high_watermark < self._high.get(key, 0):
                raise Violation(self, f"{tp} on {node.id}: from {self._high[key]} to {replica.high_watermark}")
            self._high[key] = replica.high_watermark


class _Committed:
    """The highest high watermark that any replica of a partition ever had."""

    def __init__(self) -> None:
        self._high: dict[TopicPartition, int] = {}

    def _learn(self, view: ClusterView) -> None:
        for _, tp, replica in replicas_of(view):
            if replica.high_watermark > self._high.get(tp, 0):
                self._high[tp] = replica.high_watermark

    @staticmethod
    def _registered(view: ClusterView) -> dict[int, NodeView]:
        """Nodes whose present life is the one that metadata knows: before that, nobody counts on them (KIP-903)."""
        if view.truth is None:
            return {}
        known: dict[int, int] = {broker.id: broker.epoch for broker in view.truth.brokers.by_id.values()}
        return {
            node.id: node for node in view.nodes if node.broker_epoch >= 0 and known.get(node.id) == node.broker_epoch
        }


class IsrHoldsCommitted(_Committed):
    """Every member of the true ISR has everything that was ever committed: any of them may lead (StrongIsr)."""

    def check(self, view: ClusterView) -> None:
        self._learn(view)
        nodes = self._registered(view)
        for tp, part in partitions_of(view.truth):
            for member in (*part.isr, *part.elr):
                replica = nodes[member].replicas.get(tp) if member in nodes else None
                if replica is not None and replica.log_end < self._high.get(tp, 0):
                    high = self._high[tp]
                    raise Violation(
                        self, f"{tp}: {member} of ISR {part.isr}, ELR {part.elr} ends at {replica.log_end} < {high}"
                    )


class FlushedIsrHoldsCommitted(_Committed):
    """In flush mode every member of the true ISR has on disk what was ever committed."""

    def check(self, view: ClusterView) -> None:
        self._learn(view)
        nodes = self._registered(view)
        for tp, part in partitions_of(view.truth):
            for member in part.isr:
                replica = nodes[member].replicas.get(tp) if member in nodes else None
                if replica is not None and replica.flushed and replica.durable_end < self._high.get(tp, 0):
                    high = self._high[tp]
                    raise Violation(self, f"{tp}: {member} has synced up to {replica.durable_end} < {high}")


class LeaderComplete(_Committed):
    """The leader of the latest epoch has everything that was ever committed.

    A broker that starts takes up its old roles behind closed doors, and loses them when it registers.
    """

    def check(self, view: ClusterView) -> None:
        self._learn(view)
        latest, registered = dict(partitions_of(view.truth)), self._registered(view)
        for node, tp, replica in replicas_of(view):
            part = latest.get(tp)
            if part is None or not replica.leads or part.leader != node.id or part.leader_epoch != replica.epoch:
                continue
            if node.id in registered and replica.log_end < self._high.get(tp, 0):
                raise Violation(self, f"{tp}: {node.id} leads with {replica.log_end} of {self._high[tp]}")


class MaximalIsr:
    """A leader counts at least the replicas that the controller counts (KIP-497), or it commits too early."""

    def check(self, view: ClusterView) -> None:
        latest = dict(partitions_of(view.truth))
        for node, tp, replica in replicas_of(view):
            part = latest.get(tp)
            if part is None or not replica.leads or part.leader != node.id or part.leader_epoch != replica.epoch:
                continue
            missing = [member for member in part.isr if member not in replica.maximal_isr]
            if missing:
                raise Violation(self, f"{tp}: {node.id} counts {replica.maximal_isr}, the ISR is {part.isr}")


class LogMatching:
    """What is committed at an offset is the same on every replica, for ever: epoch, extent and bytes."""

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, dict[int, tuple[Batch, int]]] = {}

    def check(self, view: ClusterView) -> None:
        for node, tp, replica in replicas_of(view):
            known = self._committed.setdefault(tp, {})
            for batch in replica.batches or ():
                first, where = known.setdefault(batch.base_offset, (batch, node.id))
                if first != batch:
                    raise Violation(self, f"{tp}: {where} had {first}, {node.id} has {batch}")
            if replica.batches is not None:
                self._check_whole(node, tp, replica)

    def _check_whole(self, node: NodeView, tp: TopicPartition, replica: ReplicaView) -> None:
        expected = replica.log_start
        for batch in replica.batches or ():
            if batch.base_offset > expected and expected > replica.log_start:
                raise Violation(self, f"{tp} on {node.id}: nothing between {expected} and {batch.base_offset}")
            expected = batch.last_offset + 1


class OneFetcher:
    """A follower is fed by one fetcher, a leader by none."""

    def check(self, view: ClusterView) -> None:
        for node, tp, replica in replicas_of(view):
            if replica.fetchers > (0 if replica.leads else 1):
                role = "leader" if replica.leads else "follower"
                raise Violation(self, f"{tp} on {node.id}: {replica.fetchers} fetchers of a {role}")


class BrokerEpochsRise:
    """The epoch of a broker's registration never goes back."""

    def __init__(self) -> None:
        self._epochs: dict[int, int] = {}

    def check(self, view: ClusterView) -> None:
        for broker in () if view.truth is None else view.truth.brokers.by_id.values():
            if broker.epoch < self._epochs.get(broker.id, -1):
                raise Violation(self, f"broker {broker.id}: from {self._epochs[broker.id]} to {broker.epoch}")
            self._epochs[broker.id] = broker.epoch


def all_invariants() -> list[Invariant]:
    """Fresh ones, for one run."""
    return [
        OneQuorumLeader(),
        QuorumEpochRises(),
        OneActiveController(),
        CommittedMetadataStays(),
        SameImage(),
        OnePartitionLeader(),
        PartitionEpochsRise(),
        ReplicaEpochRises(),
        LeaderInIsr(),
        FencedNotInIsr(),
        OffsetsInOrder(),
        HighWatermarkRises(),
        IsrHoldsCommitted(),
        FlushedIsrHoldsCommitted(),
        LeaderComplete(),
        MaximalIsr(),
        LogMatching(),
        OneFetcher(),
        BrokerEpochsRise(),
    ]
