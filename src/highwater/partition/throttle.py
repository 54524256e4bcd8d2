"""One end of throttled replication (KIP-73): this broker as the leader of replicas, or as their follower.

Only replicas outside the ISR wait for the throttle: a member of the ISR that waits would delay acknowledgements. But
the bytes of all listed replicas count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from highwater.config import LogConfig
from highwater.model import NodeId
from highwater.partition.partition import Partition
from highwater.replication.throttle import Flow, names

SHORTEST_WAIT = 0.01


class Throttle:
    __slots__ = ("_broker", "_flow", "_in_isr", "_listed", "_now", "_rate")

    def __init__(
        self,
        broker: NodeId,
        rate: Callable[[], int | None],
        listed: Callable[[LogConfig], Collection[str]],
        in_isr: Callable[[Partition, NodeId], bool],
        now: Callable[[], float],
    ) -> None:
        """`rate` is the limit in bytes per second, None if there is none; `listed` are a topic's throttled replicas."""
        self._broker = broker
        self._rate = rate
        self._listed = listed
        self._in_isr = in_isr
        self._now = now
        self._flow = Flow()

    @property
    def is_set(self) -> bool:
        return self._rate() is not None

    def holds(self, partition: Partition, follower: NodeId) -> bool:
        """Whether this follower of the partition must wait."""
        rate = self._rate()
        return (
            rate is not None
            and self._lists(partition)
            and self._flow.is_exceeded(rate, self._now())
            and not self._in_isr(partition, follower)
        )

    @property
    def seconds_left(self) -> float:
        """The shortest time for which a follower that must wait has to wait."""
        rate = self._rate()
        return 0.0 if rate is None else max(self._flow.seconds_left(rate, self._now()), SHORTEST_WAIT)

    def _lists(self, partition: Partition) -> bool:
        return names(self._listed(partition.log.config), partition.tp.partition, self._broker)

    def passed(self, partition: Partition, size: int) -> None:
        """So many bytes of the partition were sent or taken in."""
        rate = self._rate()
        if rate is not None and self._lists(partition):
            self._flow.record(size, rate, self._now())
