"""A cluster as the invariants see it: plain values, read from live nodes without touching them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from highwater.metadata.cluster import MetadataImage
from highwater.model import TopicPartition
from highwater.partition.partition import Partition
from highwater.quorum import Role
from highwater.sim.cluster import Member, SimCluster
from highwater.sim.storage import Storage
from highwater.wire import records


class Batch(NamedTuple):
    base_offset: int
    last_offset: int
    epoch: int
    checksum: int


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One replica on a node that runs."""

    epoch: int = 0
    partition_epoch: int = 0
    leads: bool = False
    log_start: int = 0
    log_end: int = 0
    durable_end: int = 0
    high_watermark: int = 0
    isr: tuple[int, ...] = ()
    """As its leader has it; empty on others."""
    maximal_isr: tuple[int, ...] = ()
    flushed: bool = False
    """Whether what it acknowledges is synced first."""
    fetchers: int = 0
    batches: tuple[Batch, ...] | None = None
    """Only where the whole log was looked at."""


@dataclass(frozen=True, slots=True)
class NodeView:
    id: int
    life: int = 1
    quorum_epoch: int | None = 0
    """None while it is being written down: before that it binds nobody."""
    leads_quorum: bool = False
    metadata_high_watermark: int = 0
    active_epoch: int | None = None
    """The epoch in which it is the active controller."""
    broker_epoch: int = -1
    image: MetadataImage | None = None
    """Committed, as far as it knows."""
    replicas: Mapping[TopicPartition, ReplicaView] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """`truth` is the newest committed metadata that any node has ever had."""

    nodes: tuple[NodeView, ...]
    truth: MetadataImage | None = None


def view_node(member: Member, storage: Storage | None) -> NodeView | None:
    """None where it is not far enough to have anything to show. With `storage`, whole logs are read too."""
    node = member.node
    if node is None or not hasattr(node, "raft") or not hasattr(node.raft, "quorum"):
        return None
    quorum, controller = node.raft.quorum, node.controller
    replicas: dict[TopicPartition, ReplicaView] = {}
    if node.broker is not None:
        for partition in node.broker.hosted:
            if partition.log.offline is None:
                fetchers = node.broker.fetchers.following(partition)
                replicas[partition.tp] = _view_replica(partition, fetchers, storage)
    return NodeView(
        id=member.id,
        life=member.lives,
        quorum_epoch=None if node.raft.is_deciding else quorum.epoch,
        leads_quorum=quorum.role is Role.LEADER,
        metadata_high_watermark=node.raft.log.log.high_watermark,
        active_epoch=None if controller is None else controller.epoch,
        broker_epoch=node.lifecycle.epoch if node.broker is not None else -1,
        image=node.raft.committed,
        replicas=replicas,
    )


def _view_replica(partition: Partition, fetchers: int, storage: Storage | None) -> ReplicaView:
    log, leader = partition.log, partition.leader
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
        fetchers=fetchers,
        batches=None if storage is None else _read_committed(partition, storage),
    )


def _read_committed(partition: Partition, storage: Storage) -> tuple[Batch, ...]:
    """What lies below the high watermark, as it lies in the files."""
    found: list[Batch] = []
    log = partition.log
    for segment in log.segments:
        data = memoryview(bytes(storage.file(log.directory / f"{segment.base_offset:020d}.log").data))
        for _, _, header in records.walk(data):
            if header.last_offset < log.high_watermark and header.base_offset >= log.log_start:
                found.append(Batch(header.base_offset, header.last_offset, header.leader_epoch, header.crc))
    return tuple(found)


class Observer:
    """Takes views, and remembers the newest metadata."""

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
