"""What can be seen of a staged cluster without touching it: its nodes, their replicas, their files, the metadata."""

from __future__ import annotations

from typing import NamedTuple

from highwater.log.log import Log
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.topics import PartitionImage
from highwater.model import TopicPartition
from highwater.node import Node
from highwater.partition.partition import Partition
from highwater.sim.cluster import SimCluster, SimNode
from highwater.sim.simulation import Simulation
from highwater.sim.storage import Storage
from highwater.sim.view import Observer
from highwater.wire import records
from tests.scenarios.visitor import ORDERS


class Stored(NamedTuple):
    """One record as it lies in a replica's files."""

    offset: int
    epoch: int
    value: bytes


class Sights:
    """Of a cluster and its simulation. Replicas are those of ORDERS unless another partition is named."""

    sim: Simulation
    cluster: SimCluster
    observer: Observer

    def storage(self, name: str) -> Storage:
        return self.sim.storage(name)

    def member(self, name: str) -> SimNode:
        return self.cluster.members[name]

    def node(self, name: str) -> Node:
        node = self.member(name).node
        assert node is not None, f"{name} has not been made"
        return node

    def serves(self, name: str) -> bool:
        return self.member(name) in self.cluster.serving()

    def partition(self, name: str, tp: TopicPartition = ORDERS) -> Partition:
        broker = self.node(name).broker
        assert broker is not None
        partition = broker.hosted.get(tp)
        assert partition is not None, f"{name} does not host {tp}"
        return partition

    def has(self, name: str, tp: TopicPartition = ORDERS) -> bool:
        """Whether the node is so far that `partition` finds the replica."""
        node = self.member(name).node
        broker = None if node is None else node.broker
        return broker is not None and broker.hosted.get(tp) is not None

    def log(self, name: str, tp: TopicPartition = ORDERS) -> Log:
        return self.partition(name, tp).log

    def records(self, name: str, tp: TopicPartition = ORDERS) -> list[Stored]:
        """All that lies in the replica's files, committed or not."""
        log, storage = self.log(name, tp), self.storage(name)
        found: list[Stored] = []
        for segment in log.segments:
            data = memoryview(bytes(storage.file(log.directory / f"{segment.base_offset:020d}.log").data))
            for at, size, header in records.walk(data):
                for record in records.iterate_all(data[at : at + size]):
                    found.append(Stored(record.offset, header.leader_epoch, bytes(record.value or b"")))
        return found

    def values(self, name: str, tp: TopicPartition = ORDERS) -> list[bytes]:
        return [record.value for record in self.records(name, tp)]

    def leader(self, tp: TopicPartition = ORDERS) -> str | None:
        """The replica that leads in the latest epoch, as it sees itself."""
        return self.cluster.leader_of(tp)

    def leads(self, name: str, tp: TopicPartition = ORDERS) -> bool:
        """Whether this replica takes itself for the leader, in the epoch that the controller has."""
        partition = self.partition(name, tp)
        return partition.leader is not None and partition.epoch == self.image(tp).leader_epoch

    @property
    def truth(self) -> MetadataImage:
        """The newest committed metadata that any node has ever had."""
        self.observer.look()
        assert self.observer.truth is not None
        return self.observer.truth

    def image(self, tp: TopicPartition = ORDERS) -> PartitionImage:
        """The controller's word on the partition: leader, epochs, ISR."""
        return self.truth.topics.by_name[tp.topic].partitions[tp.partition]
