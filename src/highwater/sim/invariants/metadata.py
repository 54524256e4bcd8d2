"""Rules for the committed metadata of partitions and brokers: the states that a controller may write."""

from __future__ import annotations

from collections import deque

from highwater.metadata.cluster import MetadataImage
from highwater.metadata.configs import topic_resource
from highwater.metadata.partitions import PartitionImage
from highwater.model import NO_NODE, TopicPartition
from highwater.sim.invariants.invariant import Invariant, Violation, partitions_of
from highwater.sim.view import ClusterView


class PartitionEpochsRise(Invariant):
    """The leader epoch and the partition epoch that metadata names never go back; an ISR changes only with them."""

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, PartitionImage] = {}

    def truth(self, view: ClusterView, truth: MetadataImage) -> None:
        for tp, part in partitions_of(truth):
            before = self._seen.get(tp)
            if before is not None and before is not part:
                if part.leader_epoch < before.leader_epoch or part.partition_epoch < before.partition_epoch:
                    raise Violation(self, f"{tp}: epochs went back from {before} to {part}")
                if set(part.isr) != set(before.isr) and part.partition_epoch == before.partition_epoch:
                    raise Violation(self, f"{tp}: the ISR changed within partition epoch {part.partition_epoch}")
                if part.leader != before.leader and part.leader_epoch == before.leader_epoch:
                    raise Violation(self, f"{tp}: the leader changed within leader epoch {part.leader_epoch}")
            self._seen[tp] = part


class CalmIsr(Invariant):
    """An ISR does not flap: a replica that was removed does not come back hundreds of times in a second."""

    MOST = 30
    """The limit for the changes of a partition in one second; far more than any cluster has good reasons for."""

    def __init__(self) -> None:
        self._changed: dict[TopicPartition, deque[float]] = {}
        self._isr: dict[TopicPartition, tuple[int, ...]] = {}

    def truth(self, view: ClusterView, truth: MetadataImage) -> None:
        for topic, index, part in truth.topics.each_partition():
            tp = TopicPartition(topic.name, index)
            if self._isr.get(tp) == part.isr:
                continue
            self._isr[tp] = part.isr
            times = self._changed.setdefault(tp, deque(maxlen=self.MOST))
            if len(times) == self.MOST and view.now - times[0] < 1.0:
                raise Violation(self, f"{tp}: {self.MOST} changes of its ISR since {times[0]:.3f}, now {part.isr}")
            times.append(view.now)


class BrokerEpochsRise(Invariant):
    """The epoch of a broker's registration never goes back."""

    def __init__(self) -> None:
        self._epochs: dict[int, int] = {}

    def truth(self, view: ClusterView, truth: MetadataImage) -> None:
        for broker in truth.brokers.by_id.values():
            if broker.epoch < self._epochs.get(broker.id, -1):
                raise Violation(self, f"broker {broker.id}: from {self._epochs[broker.id]} to {broker.epoch}")
            self._epochs[broker.id] = broker.epoch


class LeaderInIsr(Invariant):
    """A leader is in the ISR, and an ISR is never empty unless there are eligible leader replicas (KIP-966)."""

    def truth(self, view: ClusterView, truth: MetadataImage) -> None:
        for tp, part in partitions_of(truth):
            if part.leader != NO_NODE and part.leader not in part.isr:
                raise Violation(self, f"{tp}: {part.leader} leads, the ISR is {part.isr}")
            if not part.isr and not part.elr and not part.last_known_elr:
                raise Violation(self, f"{tp}: nobody may ever lead it again")


class FencedNotInIsr(Invariant):
    """A fenced broker leads nothing, and is in no ISR with others (the first of ValidControllerState)."""

    def truth(self, view: ClusterView, truth: MetadataImage) -> None:
        fenced = {broker.id for broker in truth.brokers.by_id.values() if broker.fenced}
        for tp, part in partitions_of(truth) if fenced else ():
            wrong = [node for node in part.isr if node in fenced]
            if part.leader in fenced or (wrong and len(part.isr) > 1):
                raise Violation(self, f"{tp}: {sorted(fenced)} are fenced, leader {part.leader}, ISR {part.isr}")


class EligibleReplicas(Invariant):
    """ISR and ELR are replicas and share none; with min.insync.replicas in the ISR there is no ELR (the rest of
    ValidControllerState, KIP-966)."""

    def truth(self, view: ClusterView, truth: MetadataImage) -> None:
        for tp, part in partitions_of(truth):
            isr, elr = set(part.isr), set(part.elr)
            if isr & elr or len(isr) + len(elr) != len(part.isr) + len(part.elr) or not isr | elr <= {*part.replicas}:
                raise Violation(self, f"{tp}: replicas {part.replicas}, ISR {part.isr}, ELR {part.elr}")
            wanted = truth.configs.of(topic_resource(tp.topic)).get("min.insync.replicas")
            if elr and wanted is not None and len(isr) >= int(wanted):
                raise Violation(self, f"{tp}: ELR {part.elr} beside an ISR of {wanted} or more: {part.isr}")
