"""The partitions of one internal topic that this broker leads. Each has a machine."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from operator import mul
from sys import byteorder
from typing import Generic

from highwater.coordinator.tenure import M, Tenure, TenureState
from highwater.effects import Token
from highwater.errors import Code, KafkaError
from highwater.log.retention import RetentionClock
from highwater.model import NO_NODE
from highwater.net.deadlines import DeadlineQueue
from highwater.net.turns import Turns
from highwater.partition.partition import Partition
from highwater.wire.codec import Struct
from highwater.world import World


class Coordinator(Generic[M]):
    def __init__(
        self,
        topic: str,
        world: World,
        deadlines: DeadlineQueue,
        new_machine: Callable[[Callable[[], int]], M],
        answer: Callable[[Token, Struct], None],
        commit_seconds: Callable[[], float],
        codec: int = 0,
    ) -> None:
        """`new_machine` gets a function that returns the largest size of a batch. `codec` compresses the records."""
        self.topic = topic
        self._world = world
        self._deadlines = deadlines
        self._new_machine = new_machine
        self._answer = answer
        self._commit_seconds = commit_seconds
        self._codec = codec
        self._aging = RetentionClock(world.clock.wall_ms(), world.clock.monotonic())
        self._turns = Turns(world.clock)
        self._tenures: dict[int, Tenure[M]] = {}

    def role_changed(self, partition: Partition) -> Tenure[M] | None:
        """This broker leads the partition in a new epoch, or no longer. In a new epoch the machine is loaded again,
        because another leader may have written in between. Returns the tenure that begins, if any."""
        index = partition.tp.partition
        known = self._tenures.get(index)
        if known is not None and (partition.leader is None or known.epoch != partition.epoch):
            self._tenures.pop(index).end()
            known = None
        if known is not None or partition.leader is None or partition.leader_id == NO_NODE:
            return None
        tenure = self._tenures[index] = Tenure(
            self._world,
            self._deadlines,
            partition,
            self._new_machine,
            self._answer,
            self._commit_seconds,
            self._codec,
            self._aging,
            self._turns,
        )
        tenure.begin()
        return tenure

    def removed(self, partition: Partition) -> None:
        tenure = self._tenures.pop(partition.tp.partition, None)
        if tenure is not None:
            tenure.end()

    def tenure(self, index: int) -> Tenure[M]:
        """Raises KafkaError if this broker does not coordinate the partition, or not yet."""
        tenure = self._tenures.get(index)
        if tenure is None or tenure.state is TenureState.FAILED:
            raise KafkaError(Code.NOT_COORDINATOR)
        if tenure.state is TenureState.LOADING:
            raise KafkaError(Code.COORDINATOR_LOAD_IN_PROGRESS)
        return tenure

    def __iter__(self) -> Iterator[Tenure[M]]:
        """All tenures in every state, in the order of the partitions."""
        return iter([tenure for _, tenure in sorted(self._tenures.items())])

    @property
    def active(self) -> Iterator[Tenure[M]]:
        return (tenure for tenure in self if tenure.state is TenureState.ACTIVE)

    @property
    def is_loading(self) -> bool:
        return any(tenure.state is TenureState.LOADING for tenure in self)

    def stop(self) -> None:
        for tenure in self:
            tenure.end()
        self._tenures.clear()


_HASHED_AT_ONCE = 256
_POWERS = [pow(31, exponent, 1 << 32) for exponent in reversed(range(_HASHED_AT_ONCE))]


def partition_for(key: str, partitions: int) -> int:
    """The partition for a key, as in Kafka: by Java's hash of the text. The smallest hash counts as 0."""
    units = array("H", key.encode("utf-16-le" if byteorder == "little" else "utf-16-be", "surrogatepass"))
    hashed = 0
    for at in range(0, len(units), _HASHED_AT_ONCE):
        block = units[at : at + _HASHED_AT_ONCE]
        powers = _POWERS[-len(block) :]
        hashed = (hashed * 31 * powers[0] + sum(map(mul, block, powers))) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
