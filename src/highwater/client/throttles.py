"""The throttle of moves between brokers (KIP-73): which replicas it is for, and the settings that make it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from highwater.client.admin import Admin, ResourceType
from highwater.model import NodeId, TopicPartition
from highwater.wire.messages.list_partition_reassignments_response import OngoingPartitionReassignment

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
BROKER_THROTTLES = (*RATES, "replica.alter.log.dirs.io.max.bytes.per.second")
TOPIC_THROTTLES = (LEADERS, FOLLOWERS)


class Move(NamedTuple):
    sources: frozenset[int]
    """The brokers from which the new replicas copy."""
    destinations: frozenset[int]


def planned_moves(
    plan: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
    under_way: Mapping[TopicPartition, OngoingPartitionReassignment],
) -> dict[TopicPartition, Move]:
    """The moves of the plan and those that are under way. A partition that moves already is copied from the replicas
    that it had before."""
    moves = {
        tp: Move(frozenset(row.replicas) - frozenset(row.adding_replicas), frozenset(row.adding_replicas))
        for tp, row in under_way.items()
    }
    for tp, target in plan.items():
        sources = moves[tp].sources if tp in moves else frozenset(current[tp])
        moves[tp] = Move(sources, frozenset(target) - sources)
    return moves


def set_throttle(admin: Admin, moves: Mapping[TopicPartition, Move], rate: int) -> None:
    """The topics are first: a broker whose rate is set must know by then to which replicas it applies."""
    for topic in sorted({tp.topic for tp in moves}):
        of_topic = {tp.partition: move for tp, move in moves.items() if tp.topic == topic}
        listed = {
            LEADERS: _listed((index, broker) for index, move in of_topic.items() for broker in move.sources),
            FOLLOWERS: _listed((index, broker) for index, move in of_topic.items() for broker in move.destinations),
        }
        admin.alter_configs(ResourceType.TOPIC, topic, put=listed)
    for broker in sorted({each for move in moves.values() for each in move.sources | move.destinations}):
        admin.alter_configs(ResourceType.BROKER, str(broker), put=dict.fromkeys(RATES, str(rate)))


def clear_throttles(admin: Admin) -> tuple[list[NodeId], list[str]]:
    """Deletes the settings of every throttle, whichever tool has set them. Returns the brokers and the topics."""
    brokers = [broker.id for broker in admin.describe_cluster().brokers]
    found = admin.describe_configs(ResourceType.TOPIC, sorted(admin.list_topics()))
    topics = sorted(
        name for name, rows in found.items() if any(row.name in TOPIC_THROTTLES and row.value for row in rows)
    )
    for broker in brokers:
        admin.alter_configs(ResourceType.BROKER, str(broker), delete=BROKER_THROTTLES)
    for topic in topics:
        admin.alter_configs(ResourceType.TOPIC, topic, delete=TOPIC_THROTTLES)
    return brokers, topics


def _listed(replicas: Iterable[tuple[int, int]]) -> str:
    return ",".join(sorted(f"{index}:{broker}" for index, broker in replicas))
