"""Plans another replication factor for partitions: which brokers get a replica, and which give one up. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from highwater.client.balance_plan import Held, Place
from highwater.model import NodeId, TopicPartition


class TooFewBrokers(ValueError):
    """There are fewer brokers than replicas are wanted."""


def plan_factor(
    everything: Mapping[TopicPartition, Held],
    chosen: Collection[TopicPartition],
    places: Sequence[Place],
    factor: int,
) -> dict[TopicPartition, tuple[NodeId, ...]]:
    """The chosen partitions that change, with their new replicas. The preferred leader stays. A new replica goes to a
    rack that the partition does not have yet, if there is one, and to the broker with the fewest bytes. A replica
    leaves where the partition has its rack twice, and from the broker with the most bytes. Raises TooFewBrokers."""
    if factor < 1 or factor > len(places):
        raise TooFewBrokers(f"{factor} replicas cannot be on {len(places)} brokers, one on each")
    racks = {place.id: place.rack for place in places}
    filled = dict.fromkeys(racks, (0, 0))
    for held in everything.values():
        for broker in held.replicas:
            _add(filled, broker, held.size, 1)
    targets = {}
    for tp in sorted(chosen):
        held = everything[tp]
        now = list(held.replicas)
        while len(now) < factor:
            used = {racks.get(each) for each in now}
            home = min(
                (each for each in racks if each not in now), key=lambda each: (racks[each] in used, filled[each])
            )
            now.append(home)
            _add(filled, home, held.size, 1)
        while len(now) > factor:
            left = max(
                now[1:], key=lambda each: (each not in racks, _is_twice(now, each, racks), filled.get(each, (0, 0)))
            )
            now.remove(left)
            _add(filled, left, -held.size, -1)
        if tuple(now) != held.replicas:
            targets[tp] = tuple(now)
    return targets


def _add(filled: dict[NodeId, tuple[int, int]], broker: NodeId, size: int, count: int) -> None:
    if broker in filled:
        before = filled[broker]
        filled[broker] = (before[0] + size, before[1] + count)


def _is_twice(replicas: Sequence[NodeId], broker: NodeId, racks: Mapping[NodeId, str | None]) -> bool:
    return sum(racks.get(each) == racks.get(broker) for each in replicas) > 1
