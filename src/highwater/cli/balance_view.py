"""How leaders, replicas and bytes are spread over brokers, as the cluster says it now."""

from __future__ import annotations

from typing import NamedTuple

from rich.table import Table

from highwater.cli.balance_plan import Held, Place
from highwater.client.admin import Admin
from highwater.client.client import Client
from highwater.client.descriptions import describe_topics
from highwater.client.log_dirs import LogDir, describe_log_dirs
from highwater.errors import Code
from highwater.model import NodeId, TopicPartition


class Sight(NamedTuple):
    places: list[Place]
    """The brokers that are not fenced."""
    partitions: dict[TopicPartition, Held]
    """A partition that is moving counts as if it had reached its target."""
    leaders: dict[TopicPartition, NodeId]
    directories: dict[NodeId, list[LogDir]]
    moving: set[TopicPartition]

    @property
    def astray(self) -> int:
        """The partitions that another replica leads than the preferred one."""
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
    partitions, leaders = {}, {}
    for topic in describe_topics(client, admin.list_topics()):
        for row in topic.partitions:
            tp = TopicPartition(topic.name or "", row.partition_index)
            leaving = moves[tp].removing_replicas if tp in moves else ()
            replicas = tuple(NodeId(each) for each in row.replica_nodes if each not in leaving)
            partitions[tp] = Held(replicas, sizes.get(tp, 0))
            leaders[tp] = NodeId(row.leader_id)
    return Sight(places, partitions, leaders, directories, set(moves))


def table(sight: Sight) -> Table:
    """A row for each broker, or for each directory of a broker that has several."""
    shown = Table("broker", "rack", "leaders", "preferred", "replicas", "bytes", "directory", box=None)
    for place in sorted(sight.places, key=lambda each: each.id):
        led = sum(leader == place.id for leader in sight.leaders.values())
        preferred = sum(held.replicas[:1] == (place.id,) for held in sight.partitions.values())
        for at, directory in enumerate(sorted(sight.directories[place.id], key=lambda each: each.path)):
            failed = directory.error is not Code.NONE
            count = "-" if failed else str(len(directory.sizes))
            size = "-" if failed else amount(sum(directory.sizes.values()))
            of_broker = (str(place.id), place.rack or "-", str(led), str(preferred)) if at == 0 else ("", "", "", "")
            shown.add_row(*of_broker, count, size, f"{directory.path} (offline)" if failed else directory.path)
    return shown


def amount(size: float) -> str:
    """Bytes, as people read them."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
