"""When `highwater balance --auto` moves partitions, and why it does not. Pure."""

from __future__ import annotations

from highwater.client.balance_plan import TOLERANCE
from highwater.client.balance_sight import Sight
from highwater.model import NodeId

LEAST_THRESHOLD = int(TOLERANCE * 100) + 1
"""A plan leaves brokers within `TOLERANCE` of the mean. With a threshold below that, moves would not end."""


def reason_to_wait(sight: Sight) -> str | None:
    """Why nothing may move now. Missing brokers and replicas come back without moves, and a move that is under way must
    end first."""
    there = {place.id for place in sight.places}
    missing = sorted({broker for held in sight.partitions.values() for broker in held.replicas} - there)
    if missing:
        names = ", ".join(map(str, missing))
        return f"brokers {names} are down" if len(missing) > 1 else f"broker {names} is down"
    if sight.moving:
        return f"{len(sight.moving)} partitions are moving already"
    if sight.behind:
        return f"{sight.behind} partitions have replicas that are not in sync"
    return None


def reason_to_act(sight: Sight, threshold: int) -> str | None:
    """The reason to move partitions: bytes or leaders of a broker are further from the mean than `threshold` percent.
    Deviations that no plan could remove are not counted: bytes up to the size of the largest partition, and one
    preferred leader."""
    sizes: dict[NodeId, int] = {place.id: 0 for place in sight.places}
    led: dict[NodeId, int] = {place.id: 0 for place in sight.places}
    for held in sight.partitions.values():
        led[held.replicas[0]] += 1
        for broker in held.replicas:
            sizes[broker] += held.size
    largest = max((held.size for held in sight.partitions.values()), default=0)
    for what, numbers, least in (("bytes", sizes, largest), ("leaders", led, 1)):
        mean = sum(numbers.values()) / len(numbers)
        broker, number = max(numbers.items(), key=lambda each: (abs(each[1] - mean), each[0]))
        if abs(number - mean) > max(mean * threshold / 100, least):
            share = abs(number - mean) / mean
            return f"broker {broker} has {share:.0%} {'more' if number > mean else 'fewer'} {what} than the mean"
    return None
