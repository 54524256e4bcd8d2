"""Looks at a node after each of its callbacks. Changes are shown to the invariants and counted. For anything that has
not changed, only one comparison is made, so that every step of a cluster can be checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any

from highwater.log.log import Log
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.partitions import PartitionImage, Recovery
from highwater.model import NO_NODE, Endpoint, TopicPartition
from highwater.node import Node
from highwater.partition.partition import Partition
from highwater.sim.cluster import SimCluster, SimNode
from highwater.sim.invariants import Invariant, Violation
from highwater.sim.invariants.invariant import partitions_of
from highwater.sim.process import Process
from highwater.sim.storage import Storage
from highwater.sim.view import (
    SCRATCH,
    BatchView,
    ClusterView,
    Committed,
    NodeView,
    QuorumView,
    ReplicaView,
    ReportedEnd,
    is_open,
    view_node,
    view_quorum,
    view_replica,
)

Stamp = tuple[Any, ...]


class _Life:
    """One life of a node, as it was at the last look."""

    def __init__(self, member: SimNode, node: Node, storage: Storage) -> None:
        self.node = node
        self.view = NodeView(member.id, member.lives, disk=member.disks)
        self._storage = storage
        self._stamp: Stamp = ()
        self._stamps: dict[Partition, Stamp] = {}
        self._logs: dict[object, Committed] = {}
        self._troubled: set[Log] = set()

    def troubled(self) -> list[Log]:
        """Logs that have been in trouble since the last look."""
        broker, found = self.node.broker, []
        for log in () if broker is None else broker.store.logs.values():
            if (log.offline is not None or log.reads.damage) and log not in self._troubled:
                self._troubled.add(log)
                found.append(log)
        return found

    def quorum(self) -> QuorumView | None:
        """None if the quorum, and all parts of the node except the replicas, have not changed."""
        node = self.node
        raft, controller = node.raft, node.controller
        quorum, log = raft.quorum, raft.files
        stamp = (
            quorum.role,
            quorum.epoch,
            quorum.voted,
            raft.is_deciding,
            id(raft.committed),
            log.log_start,
            log.log_end,
            log.high_watermark,
            None if controller is None else controller.epoch,
            -1 if node.broker is None else node.broker.lifecycle.epoch,
        )
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        before = self.view.quorum
        if log.log_end < before.log_end:
            self._logs.pop(raft, None)
        rose = log.high_watermark != before.high_watermark
        return view_quorum(node, self._read(raft, log) if rose else None)

    def replicas(self) -> dict[TopicPartition, ReplicaView]:
        """The replicas that have changed."""
        changed: dict[TopicPartition, ReplicaView] = {}
        broker = self.node.broker
        for partition in () if broker is None else broker.hosted:
            log, leader = partition.log, partition.leader
            if partition.tp.topic.startswith(SCRATCH):
                continue
            if log.offline is not None:
                self._forget(partition.tp)
                continue
            stamp = (
                partition.epoch,
                partition.partition_epoch,
                leader,
                None if leader is None else leader.isr,
                None if leader is None else leader.proposal,
                log.log_start,
                log.log_end,
                log.durability.durable_end,
                log.high_watermark,
            )
            if stamp == self._stamps.get(partition):
                continue
            self._stamps[partition] = stamp
            before = self.view.replicas.get(partition.tp)
            if before is not None and log.log_end < before.log_end:
                self._logs.pop(partition, None)
            rose = before is None or log.high_watermark != before.high_watermark
            is_whole = partition.cutting is None or partition.cutting.done()
            batches = self._read(partition, log) if rose and is_whole and not log.config.compact else None
            changed[partition.tp] = view_replica(self.node, partition, batches)
        return changed

    def _forget(self, tp: TopicPartition) -> None:
        """What was seen of a log before it failed no longer counts for its replica."""
        if tp in self.view.replicas:
            others = {each: replica for each, replica in self.view.replicas.items() if each != tp}
            self.view = replace(self.view, replicas=others)

    def _read(self, key: object, log: Log) -> tuple[BatchView, ...]:
        reader = self._logs.get(key)
        if reader is None:
            reader = self._logs[key] = Committed(self._storage, log)
        return reader.news()


class NodeWatch:
    """`failed` is called with the first violation. After that nothing is checked."""

    def __init__(
        self,
        cluster: SimCluster,
        invariants: Collection[Invariant],
        failed: Callable[[Violation], None],
        may_lose: Callable[[str], bool],
    ) -> None:
        self._cluster = cluster
        self._failed = failed
        self._may_lose = may_lose
        """Whether elections of that topic may be unclean."""
        self._invariants = list(invariants)
        self._of_nodes = _overriding(invariants, "node")
        self._of_replicas = _overriding(invariants, "replica")
        self._of_truth = _overriding(invariants, "truth")
        self._of_clients = _overriding(invariants, "clients")
        self._of_trouble = _overriding(invariants, "trouble")
        self._lives: dict[str, _Life] = {}
        self._partitions: dict[TopicPartition, PartitionImage] = {}
        self._lossy: frozenset[TopicPartition] = frozenset()
        self._acked: dict[TopicPartition, int] = {}
        self._reported_ends: dict[TopicPartition, ReportedEnd] = {}
        self.truth: MetadataImage | None = None
        """The newest committed metadata that any node has ever had."""
        self.steps = 0
        self.seen: Counter[str] = Counter()
        """How often each kind of event was seen."""
        self.found: Violation | None = None

    @property
    def lossy(self) -> frozenset[TopicPartition]:
        return self._lossy

    def _view(self) -> ClusterView:
        nodes = tuple(life.view for name, life in self._lives.items() if self._cluster.is_up(name))
        return ClusterView(nodes, self.truth, self._acked, self._reported_ends, self._lossy, self._cluster.sim.now)

    def _guarded(self, look: Callable[[], None]) -> None:
        if self.found is None:
            try:
                look()
            except Violation as found:
                self.found = found
                self._failed(found)

    # What is checked

    def turned(self, process: Process) -> None:
        """A callback of the process has run."""
        member = self._cluster.members.get(process.name)
        if member is None or not process.alive or self.found is not None:
            return
        self.steps += 1
        life = self._lives.get(process.name)
        if life is None or life.node is not member.node:
            life = self._begin(member)
        if life is not None:
            quorum, replicas = life.quorum(), life.replicas()
            if quorum is not None or replicas:
                self._guarded(lambda: self._look(life, quorum, replicas))
            for log in life.troubled():
                self._guarded(partial(self._look_into, life, log))

    def acked(self, tp: TopicPartition, end: int) -> None:
        """A producer got an acknowledgement for everything below `end`."""
        self._acked[tp] = max(end, self._acked.get(tp, 0))
        self._guarded(self._ask_clients)

    def is_deposed(self, tp: TopicPartition, broker: Endpoint) -> bool:
        part = None if self.truth is None else self.truth.topics.partition(tp.topic, tp.partition)
        leader = None if part is None else self._cluster.members.get(f"n{part.leader}")
        return leader is None or leader.broker != broker

    def is_alone(self, tp: TopicPartition) -> bool:
        part = None if self.truth is None else self.truth.topics.partition(tp.topic, tp.partition)
        return part is None or len(part.isr) <= 1

    def end_reported(self, tp: TopicPartition, epoch: int, end: int) -> None:
        """A reader got the end offset of a partition."""
        self._reported_ends[tp] = ReportedEnd(epoch, end)
        self._guarded(self._ask_clients)

    def look_at_logs(self) -> None:
        """Looks at everything, and reads every log from its start: old records may have been damaged since they were
        written."""
        self._guarded(self._look_at_everything)

    def _ask_clients(self) -> None:
        view = self._view()
        for invariant in self._of_clients:
            invariant.clients(view)

    def _look_at_everything(self) -> None:
        sim = self._cluster.sim
        seen = [view_node(member, sim.storage(member.name)) for member in self._cluster.live()]
        view = replace(self._view(), nodes=tuple(node for node in seen if node is not None))
        for invariant in self._invariants:
            invariant.check(view)

    def _begin(self, member: SimNode) -> _Life | None:
        self._lives.pop(member.name, None)
        node = member.node
        if node is None or not is_open(node):
            return None
        life = self._lives[member.name] = _Life(member, node, self._cluster.sim.storage(member.name))
        return life

    def _look(self, life: _Life, quorum: QuorumView | None, replicas: dict[TopicPartition, ReplicaView]) -> None:
        node, before = life.node, life.view
        self._count(before, quorum, replicas)
        epoch = before.broker_epoch
        if quorum is not None:
            epoch = -1 if node.broker is None else node.broker.lifecycle.epoch
        after = life.view = NodeView(
            before.id,
            before.life,
            quorum or before.quorum,
            epoch,
            node.raft.committed,
            {**before.replicas, **replicas} if replicas else before.replicas,
            before.disk,
        )
        if epoch != before.broker_epoch:
            replicas = dict(after.replicas)  # they count from now on
        news = self._learn(node.raft.committed)
        view = self._view()
        if quorum is not None:
            for invariant in self._of_nodes:
                invariant.node(view, after)
        for tp, replica in replicas.items():
            for invariant in self._of_replicas:
                invariant.replica(view, after, tp, replica)
        if news is not None:
            for invariant in self._of_truth:
                invariant.truth(view, news)

    def _look_into(self, life: _Life, log: Log) -> None:
        """No checksum covers the epoch and the offset of a batch: followers copy them even if they have rotted on the
        leader."""
        storages = {each: self._cluster.sim.storage(each) for each in self._cluster.names}
        has_failed = storages[f"n{life.view.id}"].has_failed(log.directory)
        is_harmed = has_failed or any(log.directory.name in storage.harmed for storage in storages.values())
        assert log.trouble is not None
        for invariant in self._of_trouble:
            invariant.trouble(life.view, log.partition, log.trouble, is_harmed)

    def _learn(self, image: MetadataImage) -> MetadataImage | None:
        """Takes the image, if it is the newest one."""
        if self.truth is not None and image.offset <= self.truth.offset:
            return None
        self.truth = image
        for tp, part in partitions_of(image):
            before = self._partitions.get(tp)
            if before is not None and before is not part:
                self._count_change(tp, before, part)
            self._partitions[tp] = part
        return image

    # What is counted

    def _count_change(self, tp: TopicPartition, before: PartitionImage, part: PartitionImage) -> None:
        seen = self.seen
        if part.leader not in (before.leader, NO_NODE):
            seen["leader changes"] += 1
        if part.leader == NO_NODE != before.leader:
            seen["partitions without a leader"] += 1
        seen["ISR shrinks"] += any(member not in part.isr for member in before.isr)
        seen["ISR expansions"] += any(member not in before.isr for member in part.isr)
        seen["eligible leader replicas"] += bool(part.elr and not before.elr)
        if part.recovery is Recovery.RECOVERING is not before.recovery:
            if self._may_lose(tp.topic):
                seen["unclean elections"] += 1
                self._lossy |= {tp}
            else:
                seen["elections of a last known leader"] += 1

    def _count(self, before: NodeView, quorum: QuorumView | None, replicas: dict[TopicPartition, ReplicaView]) -> None:
        seen = self.seen
        if quorum is not None and before.quorum.log_end:
            seen["metadata truncations"] += quorum.log_end < before.quorum.log_end
            seen["snapshots installed"] += quorum.log_start > before.quorum.log_end
            seen["metadata prefixes dropped"] += before.quorum.log_start < quorum.log_start <= before.quorum.log_end
            seen["controller elections"] += quorum.leads and not before.quorum.leads
        for tp, replica in replicas.items():
            known = before.replicas.get(tp)
            seen["truncations"] += known is not None and replica.log_end < known.log_end


def _overriding(invariants: Collection[Invariant], question: str) -> list[Invariant]:
    return [each for each in invariants if getattr(type(each), question) is not getattr(Invariant, question)]
