"""How leaders, replicas and bytes are spread over brokers at present."""

from __future__ import annotations

from typing import NamedTuple

from highwater.client.admin import Admin
from highwater.client.balance_plan import Held, Place
from highwater.client.client import Client
from highwater.client.descriptions import describe_topics
from highwater.client.log_dirs import LogDir, describe_log_dirs
from highwater.model import NodeId, TopicPartition


class Sight(NamedTuple):
    places: list[Place]
    """The brokers that are not fenced."""
    partitions: dict[TopicPartition, Held]
    """A partition that is moving counts as if it had reached its target."""
    leaders: dict[TopicPartition, NodeId]
    directories: dict[NodeId, list[LogDir]]
    moving: set[TopicPartition]
    behind: int
    """The partitions with a replica that is not in sync."""

    @property
    def astray(self) -> int:
        """The partitions that are not led by their preferred replica."""
        return sum(self.leaders[tp] not in held.replicas[:1] for tp, held in self.partitions.items())

    @property
    def settled(self) -> dict[TopicPartition, Held]:
        return {tp: held for tp, held in self.partitions.items() if tp not in self.moving}


def look(client: Client) -> Sight:
    admin = Admin(client)
    places = [Place(broker.id, broker.rack) for broker in admin.describe_cluster().brokers]
    moves = admin.list_reassignments()
    directories = describe_log_dirs(client, [place.id for place in places])
    sizes: dict[TopicPartition, int] = {}
    for of_broker in directories.values():
        for directory in of_broker:
            for tp, size in directory.sizes.items():
                sizes[tp] = max(size, sizes.get(tp, 0))
    partitions, leaders, behind = {}, {}, 0
    for topic in describe_topics(client, admin.list_topics()):
        for row in topic.partitions:
            tp = TopicPartition(topic.name or "", row.partition_index)
            leaving = moves[tp].removing_replicas if tp in moves else ()
            replicas = tuple(NodeId(each) for each in row.replica_nodes if each not in leaving)
            partitions[tp] = Held(replicas, sizes.get(tp, 0))
            leaders[tp] = NodeId(row.leader_id)
            behind += not set(row.replica_nodes) <= set(row.isr_nodes)
    return Sight(places, partitions, leaders, directories, set(moves), behind)
