"""Replicas: rules for leaders and ISRs, and that all possible leaders have what was committed."""

from __future__ import annotations

from collections.abc import Iterable

from highwater.metadata.cluster import MetadataImage
from highwater.model import TopicPartition
from highwater.sim.invariants.invariant import Invariant, Violation, partition_of
from highwater.sim.invariants.matching import Matching
from highwater.sim.view import ClusterView, NodeView, ReplicaView


class OnePartitionLeader(Invariant):
    """At most one replica leads a partition in a leader epoch, ever."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[TopicPartition, int], int] = {}

    def replica(self, view: ClusterView, node: NodeView, tp: TopicPartition, replica: ReplicaView) -> None:
        if replica.leads:
            leader = self._leaders.setdefault((tp, replica.epoch), node.id)
            if leader != node.id:
                raise Violation(self, f"{tp}: {leader} and {node.id} lead in epoch {replica.epoch}")


class ReplicaEpochRises(Invariant):
    """Within a life a replica's leader epoch never goes back, unless it begins anew with another log."""

    def __init__(self) -> None:
        self._epochs: dict[tuple[int, int, TopicPartition, object], int] = {}

    def replica(self, view: ClusterView, node: NodeView, tp: TopicPartition, replica: ReplicaView) -> None:
        key = (node.id, node.life, tp, replica.log)
        if replica.epoch < self._epochs.get(key, -1):
            raise Violation(self, f"{tp} on {node.id}: from epoch {self._epochs[key]} to {replica.epoch}")
        self._epochs[key] = replica.epoch


class OffsetsInOrder(Invariant):
    """Log start <= high watermark <= log end, and the durable end is not beyond the log end."""

    def replica(self, view: ClusterView, node: NodeView, tp: TopicPartition, replica: ReplicaView) -> None:
        start, high, end = replica.log_start, replica.high_watermark, replica.log_end
        if not start <= high <= end or replica.durable_end > end:
            text = f"start {start}, high watermark {high}, durable up to {replica.durable_end}, end {end}"
            raise Violation(self, f"{tp} on {node.id}: {text}")


class HighWatermarkRises(Invariant):
    """Within a life a log's high watermark never goes back."""

    def __init__(self) -> None:
        self._high: dict[tuple[int, int, TopicPartition, object], int] = {}

    def replica(self, view: ClusterView, node: NodeView, tp: TopicPartition, replica: ReplicaView) -> None:
        key = (node.id, node.life, tp, replica.log)
        if replica.high_watermark < self._high.get(key, 0) and tp not in view.lossy:
            raise Violation(self, f"{tp} on {node.id}: from {self._high[key]} to {replica.high_watermark}")
        self._high[key] = replica.high_watermark


class LogMatching(Invariant):
    """Committed records at an offset are the same on every replica, for ever: epoch, extent and bytes."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, Matching] = {}

    def replica(self, view: ClusterView, node: NodeView, tp: TopicPartition, replica: ReplicaView) -> None:
        if replica.batches and tp not in view.lossy:
            wrong = self._known.setdefault(tp, Matching()).contradiction(node.id, replica.batches)
            if wrong is not None:
                raise Violation(self, f"{tp}: {wrong}")


class TroubleHasACause(Invariant):
    """A log goes offline, or counts as damaged, only if its disk failed or bytes have rotted. Otherwise a healthy
    replica would be fetched again, and until then there would be one copy less."""

    def trouble(self, node: NodeView, tp: TopicPartition, trouble: OSError, is_harmed: bool) -> None:
        if not is_harmed:
            raise Violation(self, f"{tp} on {node.id}: {trouble}, and nothing is wrong with its disk")


class OneFetcher(Invariant):
    """A follower has exactly one fetcher, and a leader has none (ValidFetcherState)."""

    def replica(self, view: ClusterView, node: NodeView, tp: TopicPartition, replica: ReplicaView) -> None:
        if replica.fetchers > (0 if replica.leads else 1):
            role = "leader" if replica.leads else "follower"
            raise Violation(self, f"{tp} on {node.id}: {replica.fetchers} fetchers of a {role}")


class MaximalIsr(Invariant):
    """A leader waits for at least the replicas that the controller counts (KIP-497, ReplicationQuorumSuperset).
    Otherwise it would commit too early."""

    def replica(self, view: ClusterView, node: NodeView, tp: TopicPartition, replica: ReplicaView) -> None:
        part = partition_of(view, tp)
        if part is None or not replica.leads or part.leader != node.id or part.leader_epoch != replica.epoch:
            return
        if any(member not in replica.maximal_isr for member in part.isr):
            raise Violation(self, f"{tp}: {node.id} counts {replica.maximal_isr}, the ISR is {part.isr}")

    def truth(self, view: ClusterView, truth: MetadataImage) -> None:
        for node in view.nodes:
            for tp, replica in node.replicas.items():
                self.replica(view, node, tp, replica)


class _OfCommitted(Invariant):
    """Knows the highest high watermark that any replica of a partition ever had, and checks that some replicas have
    everything below it."""

    def __init__(self) -> None:
        self._high: dict[TopicPartition, int] = {}

    def replica(self, view: ClusterView, node: NodeView, tp: TopicPartition, replica: ReplicaView) -> None:
        if replica.high_watermark > self._high.get(tp, 0):
            self._high[tp] = replica.high_watermark
        self._ask(view, [tp])

    def truth(self, view: ClusterView, truth: MetadataImage) -> None:
        self._ask(view, self._high)

    def _ask(self, view: ClusterView, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            if tp in self._high and tp not in view.lossy:
                self._ask_members(view, tp, self._high[tp])

    def _ask_members(self, view: ClusterView, tp: TopicPartition, high: int) -> None:
        raise NotImplementedError


class IsrHoldsCommitted(_OfCommitted):
    """Every member of the true ISR and every eligible replica has all that was ever committed: any of them may lead
    (StrongIsr, LeaderCandidateCompleteness)."""

    def _ask_members(self, view: ClusterView, tp: TopicPartition, high: int) -> None:
        part = partition_of(view, tp)
        for member in () if part is None else (*part.isr, *part.elr):
            node = view.registered(member)
            replica = None if node is None else node.replicas.get(tp)
            if part is not None and replica is not None and replica.log_end < high:
                subject = f"{member} of ISR {part.isr}, ELR {part.elr}"
                raise Violation(self, f"{tp}: {subject} ends at {replica.log_end} < {high}")


class FlushedIsrHoldsCommitted(_OfCommitted):
    """In flush mode every member of the true ISR has on disk everything that was ever committed."""

    def _ask_members(self, view: ClusterView, tp: TopicPartition, high: int) -> None:
        part = partition_of(view, tp)
        for member in () if part is None else part.isr:
            node = view.registered(member)
            replica = None if node is None else node.replicas.get(tp)
            if replica is not None and replica.flushed and replica.durable_end < high:
                raise Violation(self, f"{tp}: {member} has synced up to {replica.durable_end} < {high}")


class LeaderComplete(_OfCommitted):
    """The leader of the latest epoch has everything that was ever committed. A broker that starts takes its old roles
    before it serves clients, and loses them when it registers."""

    def _ask_members(self, view: ClusterView, tp: TopicPartition, high: int) -> None:
        part = partition_of(view, tp)
        node = None if part is None else view.registered(part.leader)
        replica = None if node is None else node.replicas.get(tp)
        if part is None or replica is None or not replica.leads or part.leader_epoch != replica.epoch:
            return
        if replica.log_end < high:
            raise Violation(self, f"{tp}: {part.leader} leads with {replica.log_end} of {high}")
