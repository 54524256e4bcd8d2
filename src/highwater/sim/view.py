"""A cluster as the invariants see it: plain values that are read from live nodes without changing them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from highwater.log.log import Log
from highwater.metadata.cluster import MetadataImage
from highwater.model import TopicPartition
from highwater.node import Node
from highwater.partition.partition import Partition
from highwater.quorum import Role
from highwater.sim.cluster import SimCluster, SimNode
from highwater.sim.storage import Storage
from highwater.wire import records

SCRATCH = "scratch"
"""Topics with names that begin with this text are created and deleted during a run."""


class BatchView(NamedTuple):
    base_offset: int
    last_offset: int
    epoch: int
    checksum: int


class ReplicaView(NamedTuple):
    """One replica on a node that runs."""

    epoch: int = 0
    partition_epoch: int = 0
    leads: bool = False
    log_start: int = 0
    log_end: int = 0
    durable_end: int = 0
    high_watermark: int = 0
    isr: tuple[int, ...] = ()
    """The ISR, if this replica leads; otherwise empty."""
    maximal_isr: tuple[int, ...] = ()
    flushed: bool = False
    """Whether records are synced before they are acknowledged."""
    fetchers: int = 0
    batches: tuple[BatchView, ...] | None = None
    """Committed batches in the files: all, or those since the last look. None if nothing was read."""
    log: object | None = None
    """Changes when the replica begins anew with another log."""


class QuorumView(NamedTuple):
    """A node's part in the metadata quorum."""

    epoch: int | None = 0
    """None while it is being written: it has no effect before that."""
    vote: int | None = None
    """The candidate that got its vote in that epoch."""
    leads: bool = False
    log_start: int = 0
    log_end: int = 0
    high_watermark: int = 0
    active_epoch: int | None = None
    """The epoch in which it is the active controller."""
    batches: tuple[BatchView, ...] | None = None
    """Batches of the metadata log, like those of a replica."""


@dataclass(frozen=True, slots=True)
class NodeView:
    id: int
    life: int = 1
    quorum: QuorumView = field(default_factory=QuorumView)
    broker_epoch: int = -1
    image: MetadataImage | None = None
    """The committed end, as far as the node knows."""
    replicas: Mapping[TopicPartition, ReplicaView] = field(default_factory=dict)
    disk: int = 1
    """The number of its disk: what it reported with an earlier disk was true of that disk."""


class ReportedEnd(NamedTuple):
    """The end of a partition that a leader reported to a reader."""

    epoch: int
    end: int


@dataclass(frozen=True, slots=True)
class ClusterView:
    """`truth` is the newest committed metadata that any node has ever had."""

    nodes: tuple[NodeView, ...]
    truth: MetadataImage | None = None
    acked: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The end of the records that were acknowledged to producers."""
    reported_ends: Mapping[TopicPartition, ReportedEnd] = field(default_factory=dict)
    """The last end of each partition that readers got."""
    lossy: frozenset[TopicPartition] = frozenset()
    """Partitions that lost data in an unclean election, as their topic allows."""
    now: float = 0.0

    def registered(self, broker: int) -> NodeView | None:
        """The node, if its present life is the one in the metadata: before that, no node relies on it (KIP-903)."""
        for node in self.nodes:
            if node.id == broker:
                known = None if self.truth is None else self.truth.brokers.get(broker)
                return node if known is not None and known.epoch == node.broker_epoch >= 0 else None
        return None


class Committed:
    """Reads a log below its high watermark from the files, each batch once."""

    def __init__(self, storage: Storage, log: Log) -> None:
        self._storage = storage
        self._log = log
        self._base = -1
        self._position = 0

    def news(self) -> tuple[BatchView, ...]:
        """What was committed since the last call."""
        found: list[BatchView] = []
        log = self._log
        for segment in log.segments:
            base = segment.base_offset
            if base < self._base:
                continue
            position = self._position if base == self._base else 0
            file = self._storage.file(log.directory / f"{base:020d}.log")
            if file.damaged_at is not None:  # unreadable bytes prove nothing
                return tuple(found)
            data = bytes(file.data)
            for at, size, header in records.walk(data, position):
                if header.last_offset >= log.high_watermark:
                    self._base, self._position = base, at
                    return tuple(found)
                position = at + size
                if header.base_offset >= log.log_start:
                    found.append(BatchView(header.base_offset, header.last_offset, header.leader_epoch, header.crc))
            self._base, self._position = base, position
        return tuple(found)


def is_open(node: Node | None) -> bool:
    """Whether the node has started far enough to be looked at."""
    return node is not None and hasattr(node.raft, "quorum")


def view_quorum(node: Node, batches: tuple[BatchView, ...] | None = None) -> QuorumView:
    quorum, log, controller = node.raft.quorum, node.raft.files, node.controller
    voted = quorum.voted
    return QuorumView(
        epoch=None if node.raft.is_deciding else quorum.epoch,
        vote=None if voted is None else voted.id,
        leads=quorum.role is Role.LEADER,
        log_start=log.log_start,
        log_end=log.log_end,
        high_watermark=log.high_watermark,
        active_epoch=None if controller is None else controller.epoch,
        batches=batches,
    )


def view_replica(node: Node, partition: Partition, batches: tuple[BatchView, ...] | None = None) -> ReplicaView:
    log, leader, broker = partition.log, partition.leader, node.broker
    return ReplicaView(
        epoch=partition.epoch,
        partition_epoch=partition.partition_epoch,
        leads=leader is not None,
        log_start=log.log_start,
        log_end=log.log_end,
        durable_end=log.durable_end,
        high_watermark=log.high_watermark,
        isr=() if leader is None else leader.isr,
        maximal_isr=() if leader is None else leader.maximal_isr,
        flushed=log.flush_each_append,
        fetchers=0 if broker is None else broker.fetchers.following(partition),
        batches=batches,
        log=log,
    )


def view_node(member: SimNode, storage: Storage | None) -> NodeView | None:
    """None if the node cannot be looked at yet. With `storage`, whole logs are read, too."""
    node = member.node
    if node is None or not is_open(node):
        return None

    def batches(log: Log) -> tuple[BatchView, ...] | None:
        """Each replica is compacted at its own time: their batches need not match."""
        return None if storage is None or log.config.compact else Committed(storage, log).news()

    replicas: dict[TopicPartition, ReplicaView] = {}
    if node.broker is not None:
        for partition in node.broker.hosted:
            if partition.log.offline is None and not partition.tp.topic.startswith(SCRATCH):
                replicas[partition.tp] = view_replica(node, partition, batches(partition.log))
    return NodeView(
        id=member.id,
        life=member.lives,
        disk=member.disks,
        quorum=view_quorum(node, batches(node.raft.files)),
        broker_epoch=node.broker.lifecycle.epoch if node.broker is not None else -1,
        image=node.raft.committed,
        replicas=replicas,
    )


class Observer:
    """Takes views of everything, and remembers the newest metadata."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._truth: MetadataImage | None = None

    def look(self, at_logs: bool = False) -> ClusterView:
        nodes = []
        for member in self._cluster.live():
            seen = view_node(member, self._cluster.sim.storage(member.name) if at_logs else None)
            if seen is None:
                continue
            nodes.append(seen)
            if seen.image is not None and (self._truth is None or seen.image.offset > self._truth.offset):
                self._truth = seen.image
        return ClusterView(tuple(nodes), self._truth)

    @property
    def truth(self) -> MetadataImage | None:
        return self._truth
