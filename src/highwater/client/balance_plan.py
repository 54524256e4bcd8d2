"""Plans a reassignment that spreads bytes, replicas and leaders evenly over brokers, with few bytes moved. Pure.

A plan is made in four steps:

1. Replicas leave the brokers that are to be drained.
2. Bytes: replicas move from brokers above the mean to brokers below it, until each broker is within a tenth of the
   mean, or within the size of the largest partition.
3. Numbers of replicas: replicas move as long as the bytes stay as even as step 2 requires.
4. Leaders: the order of replicas changes, which moves no bytes, until no broker leads two partitions more than another,
   as far as the replicas permit it.

No replica moves to a rack where its partition would then have fewer racks than before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from highwater.model import NodeId, TopicPartition

TOLERANCE = 0.1
LIGHT = 0.01
"""A replica of at most this share of the mean may move for the sake of numbers alone."""


class Place(NamedTuple):
    """A broker that may hold replicas."""

    id: NodeId
    rack: str | None = None


class Held(NamedTuple):
    """A partition: its replicas, the preferred leader first, and the bytes of one replica."""

    replicas: tuple[NodeId, ...]
    size: int


class CannotDrain(ValueError):
    """A partition has no other broker to go to."""


class Balance(NamedTuple):
    """A plan, and what it costs."""

    targets: dict[TopicPartition, tuple[NodeId, ...]]
    """The partitions that change, with their new replicas."""
    moved_bytes: int
    exact_bytes: int
    """What would have to move at least if all brokers were to have the same: the bytes of drained brokers, and what
    others have above the mean."""


def plan(partitions: Mapping[TopicPartition, Held], places: Sequence[Place], drained: Sequence[NodeId] = ()) -> Balance:
    """`places` are all brokers that may hold replicas, those to be `drained` among them. Raises CannotDrain."""
    planner = _Planner(partitions, places, drained)
    exact = planner.exact_bytes()
    planner.drain()
    planner.even_out_bytes()
    planner.even_out_counts()
    planner.even_out_leaders()
    targets = {tp: tuple(now) for tp, now in planner.replicas.items() if tuple(now) != partitions[tp].replicas}
    moved = sum(partitions[tp].size * len(set(now) - set(partitions[tp].replicas)) for tp, now in targets.items())
    return Balance(targets, moved, exact)


class _Planner:
    def __init__(
        self, partitions: Mapping[TopicPartition, Held], places: Sequence[Place], drained: Sequence[NodeId]
    ) -> None:
        self._held = partitions
        self._racks = {place.id: place.rack for place in places}
        self._drained = set(drained)
        self._open = sorted(place.id for place in places if place.id not in self._drained)
        self.replicas = {tp: list(partitions[tp].replicas) for tp in sorted(partitions)}
        self._hosted: dict[NodeId, dict[TopicPartition, None]] = {place.id: {} for place in places}
        self._bytes = dict.fromkeys(self._hosted, 0)
        for tp, now in self.replicas.items():
            for broker in now:
                if broker in self._hosted:  # others are not there any more: their replicas stay as they are
                    self._hosted[broker][tp] = None
                    self._bytes[broker] += partitions[tp].size
        self._largest = max((held.size for held in partitions.values()), default=0)

    @property
    def _mean(self) -> float:
        return sum(self._bytes.values()) / len(self._open) if self._open else 0.0

    @property
    def _slack(self) -> float:
        """How far a broker may be from the mean."""
        return max(self._mean * TOLERANCE, self._largest)

    def exact_bytes(self) -> int:
        drained = sum(self._bytes[broker] for broker in self._drained if broker in self._bytes)
        surplus = sum(max(self._bytes[broker] - self._mean, 0.0) for broker in self._open)
        return int(drained + surplus)

    # The steps

    def drain(self) -> None:
        for broker in sorted(self._drained & set(self._hosted)):
            for tp in sorted(self._hosted[broker], key=lambda each: (-self._held[each].size, each)):
                homes = [home for home in self._open if self._may_move(tp, broker, home)]
                if not homes:
                    raise CannotDrain(f"{tp} has no broker to go to from broker {broker}")
                self._move(tp, broker, min(homes, key=self._fullness))

    def even_out_bytes(self) -> None:
        while (found := self._next_move()) is not None:
            self._move(*found)

    def even_out_counts(self) -> None:
        while (found := self._next_of_counts()) is not None:
            self._move(*found)

    def even_out_leaders(self) -> None:
        """Leadership goes along a chain of partitions from a broker that leads the most to one that leads fewer."""
        while (chain := self._chain()) is not None:
            for tp, leader in chain:
                now = self.replicas[tp]
                now.remove(leader)
                now.insert(0, leader)

    # Bytes

    def _next_move(self) -> tuple[TopicPartition, NodeId, NodeId] | None:
        """From the fullest broker to the emptiest that can take a replica of it, as long as one of them is too far from
        the mean. The replica that fits best is the largest that makes neither of them cross the mean. If there is none,
        the smallest one moves, unless both brokers are within the size of the largest partition."""
        mean, slack = self._mean, self._slack
        by_bytes = sorted(self._open, key=self._fullness)
        for giver in reversed(by_bytes):
            for taker in by_bytes:
                gap = self._bytes[giver] - self._bytes[taker]
                off = max(self._bytes[giver] - mean, mean - self._bytes[taker])
                if gap <= 0 or off <= mean * TOLERANCE:
                    break
                room = min(self._bytes[giver] - mean, mean - self._bytes[taker])
                most = gap - 1 if off > slack else room
                fitting = [
                    tp
                    for tp in self._hosted[giver]
                    if 0 < self._held[tp].size <= most and self._may_move(tp, giver, taker)
                ]
                if fitting:
                    return min(fitting, key=lambda tp: self._misfit(tp, room)), giver, taker
        return None

    def _misfit(self, tp: TopicPartition, room: float) -> tuple[bool, float, TopicPartition]:
        size = self._held[tp].size
        return size > room, size if size > room else -size, tp

    # Numbers of replicas

    def _next_of_counts(self) -> tuple[TopicPartition, NodeId, NodeId] | None:
        by_count = sorted(self._open, key=lambda broker: (len(self._hosted[broker]), broker))
        for giver in reversed(by_count):
            for taker in by_count:
                if len(self._hosted[giver]) - len(self._hosted[taker]) < 2:
                    break
                light = [tp for tp in self._hosted[giver] if self._is_light(tp, giver, taker)]
                if light:
                    return min(light, key=lambda tp: (self._held[tp].size, tp)), giver, taker
        return None

    def _is_light(self, tp: TopicPartition, giver: NodeId, taker: NodeId) -> bool:
        """Whether the move leaves both brokers as near to the mean as `even_out_bytes` requires, or nearer than they
        are."""
        if not self._may_move(tp, giver, taker):
            return False
        size, mean, slack = self._held[tp].size, self._mean, self._slack
        if size > mean * LIGHT:
            return False
        after = (self._bytes[giver] - size, self._bytes[taker] + size)
        return all(abs(each - mean) <= slack for each in after)

    # Leaders

    def _chain(self) -> list[tuple[TopicPartition, NodeId]] | None:
        """The partitions that get another leader, each with it."""
        led: dict[NodeId, list[TopicPartition]] = {broker: [] for broker in self._open}
        for tp, now in self.replicas.items():
            if now[0] in led:
                led[now[0]].append(tp)
        for start in sorted(led, key=lambda broker: (-len(led[broker]), broker)):
            came: dict[NodeId, tuple[TopicPartition, NodeId]] = {}
            queue = deque([start])
            while queue:
                broker = queue.popleft()
                for tp in led[broker]:
                    for other in self.replicas[tp][1:]:
                        if other not in led or other == start or other in came:
                            continue
                        came[other] = (tp, broker)
                        if len(led[start]) - len(led[other]) >= 2:
                            return list(self._traced(came, start, other))
                        queue.append(other)
        return None

    @staticmethod
    def _traced(
        came: Mapping[NodeId, tuple[TopicPartition, NodeId]], start: NodeId, end: NodeId
    ) -> Iterator[tuple[TopicPartition, NodeId]]:
        while end != start:
            tp, before = came[end]
            yield tp, end
            end = before

    # A replica

    def _fullness(self, broker: NodeId) -> tuple[int, int, NodeId]:
        return self._bytes[broker], len(self._hosted[broker]), broker

    def _may_move(self, tp: TopicPartition, giver: NodeId, taker: NodeId) -> bool:
        now = self.replicas[tp]
        if taker in now:
            return False
        after = [taker if broker == giver else broker for broker in now]
        return self._spread(after) >= self._spread(now)

    def _spread(self, brokers: Sequence[NodeId]) -> int:
        """The number of racks. Brokers without a rack are in one together."""
        return len({self._racks.get(broker) for broker in brokers})

    def _move(self, tp: TopicPartition, giver: NodeId, taker: NodeId) -> None:
        now = self.replicas[tp]
        now[now.index(giver)] = taker
        del self._hosted[giver][tp]
        self._hosted[taker][tp] = None
        self._bytes[giver] -= self._held[tp].size
        self._bytes[taker] += self._held[tp].size
