"""Where new replicas are placed: Kafka's striped placement (KIP-36 racks, KIP-631 fencing).

The racks are visited in the order of their names. The start is random and moves by one rack with each partition. The
brokers of a rack are visited in the same way. The first replica is always on an unfenced broker, and the others are on
unfenced brokers as long as there are any. After as many partitions as there are unfenced brokers, racks and brokers are
shuffled, so that patterns do not repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from highwater.controller.decision import Randomness
from highwater.errors import Code, KafkaError
from highwater.metadata.brokers import BrokersImage
from highwater.model import NodeId


class UsableBroker(NamedTuple):
    id: NodeId
    rack: str | None
    fenced: bool


def usable_brokers(brokers: BrokersImage) -> list[UsableBroker]:
    """The brokers that may get new replicas. Fenced brokers count, because they may come back. Brokers that shut down,
    or whose directories are all cordoned, do not."""
    return [
        UsableBroker(broker.id, broker.rack, broker.fenced)
        for broker in brokers.by_id.values()
        if (broker.fenced or not broker.in_controlled_shutdown) and broker.has_uncordoned_directory
    ]


def place(
    brokers: Sequence[UsableBroker], partitions: int, replication_factor: int, random: Randomness
) -> Iterator[tuple[NodeId, ...]]:
    """The replicas of each partition, leader first. Raises KafkaError(INVALID_REPLICATION_FACTOR), before the first
    partition."""
    if replication_factor <= 0:
        raise _impossible(f"Invalid replication factor {replication_factor}: the replication factor must be positive.")
    unfenced = sum(not broker.fenced for broker in brokers)
    if not unfenced:
        raise _impossible("All brokers are currently fenced, or have all their log directories cordoned.")
    if replication_factor > len(brokers):
        raise _impossible(
            f"The target replication factor of {replication_factor} cannot be reached because only {len(brokers)} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    racks = _Racks(brokers, unfenced, random)
    return (racks.next_partition(replication_factor) for _ in range(partitions))


def _impossible(why: str) -> KafkaError:
    return KafkaError(Code.INVALID_REPLICATION_FACTOR, why)


class _Ring:
    """Brokers in a circle. Each round yields every broker once, and begins one broker further than the last round."""

    __slots__ = ("_brokers", "_round", "_start", "_taken")

    def __init__(self, brokers: Sequence[NodeId], random: Randomness) -> None:
        self._brokers = sorted(brokers)
        self._start = random.randrange(len(brokers)) if brokers else 0
        self._round = 0
        self._taken = 0

    def next(self, round_: int) -> NodeId | None:
        size = len(self._brokers)
        if self._round != round_:
            self._round, self._taken = round_, 0
            self._start = (self._start + 1) % size if size else 0
        if self._taken >= size:
            return None
        broker = self._brokers[(self._start + self._taken) % size]
        self._taken += 1
        return broker

    def shuffle(self, random: Randomness) -> None:
        random.shuffle(self._brokers)  # type: ignore[arg-type]  # a list of NodeId is a list of ints at run time


class _Rack:
    __slots__ = ("fenced", "unfenced")

    def __init__(self, brokers: Sequence[UsableBroker], random: Randomness) -> None:
        self.unfenced = _Ring([broker.id for broker in brokers if not broker.fenced], random)
        self.fenced = _Ring([broker.id for broker in brokers if broker.fenced], random)

    def next(self, round_: int) -> NodeId | None:
        broker = self.unfenced.next(round_)
        return self.fenced.next(round_) if broker is None else broker


class _Racks:
    __slots__ = ("_order", "_racks", "_random", "_round", "_start", "_unfenced")

    def __init__(self, brokers: Sequence[UsableBroker], unfenced: int, random: Randomness) -> None:
        by_name: dict[str | None, list[UsableBroker]] = {}
        for broker in sorted(brokers):
            by_name.setdefault(broker.rack, []).append(broker)
        names = sorted(by_name, key=lambda name: (name is not None, name or ""))
        self._racks = [_Rack(by_name[name], random) for name in names]
        self._order = list(range(len(names)))
        self._start = random.randrange(len(names))
        self._random = random
        self._unfenced = unfenced
        self._round = 0

    def next_partition(self, replication_factor: int) -> tuple[NodeId, ...]:
        if self._round == self._unfenced and self._unfenced > 1:
            self._shuffle()
        first, leader = self._leader()
        replicas = [leader]
        # The first walk skips the leader's rack. Otherwise it could get two replicas before another rack gets one.
        skip: int | None = first
        position = self._start
        while len(replicas) < replication_factor:
            if position == skip:
                skip = None
            elif (broker := self._racks[self._order[position]].next(self._round)) is not None:
                replicas.append(broker)
            position = (position + 1) % len(self._order)
        self._round += 1
        self._start = (self._start + 1) % len(self._order)
        return tuple(replicas)

    def _leader(self) -> tuple[int, NodeId]:
        position = self._start
        while (broker := self._racks[self._order[position]].unfenced.next(self._round)) is None:
            position = (position + 1) % len(self._order)
        return position, broker

    def _shuffle(self) -> None:
        self._random.shuffle(self._order)
        for rack in self._racks:
            rack.unfenced.shuffle(self._random)
            rack.fenced.shuffle(self._random)
        self._round = 0
