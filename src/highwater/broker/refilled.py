"""Replicas that replace damaged ones and are being fetched from their leader, until they have every committed record.

Only then their directory is reported to the controller, which may elect them and let them join the ISR.

The leader's high watermark does not show what is committed: a leader that has just started may have an old one. But its
log has every committed record. So the leader is asked where its log ends, and the replica waits until it has that much.
"""

from __future__ import annotations

from collections.abc import Callable

from highwater.model import Epoch, Offset
from highwater.partition.partition import Partition
from highwater.replication.follower import Ends
from highwater.world import Clock, Timer

LOOK_SECONDS = 0.1
AskForEnds = Callable[[Partition, Callable[[Ends | None], None]], None]
"""Asks the partition's leader for the ends of its log. Calls back once; with None if the leader does not answer."""


class Refilled:
    def __init__(self, clock: Clock, ask: AskForEnds, caught_up: Callable[[Partition], None]) -> None:
        self._clock = clock
        self._ask = ask
        self._caught_up = caught_up
        self._waiting: dict[Partition, None] = {}
        self._asking: dict[Partition, None] = {}
        self._leader_ends: dict[Partition, tuple[Epoch, Offset]] = {}
        """Where the leader's log ended when it was asked, with the leader epoch of the question."""
        self._timer: Timer | None = None

    def has_what_is_committed(self, partition: Partition) -> bool:
        """Whether the replica has everything that its leader had when it was asked in this epoch."""
        end = self._leader_end(partition)
        return end is not None and partition.has_leader_high_watermark and end <= partition.log.log_end

    def wait_for(self, partition: Partition) -> None:
        self._waiting[partition] = None
        if self._timer is None:
            self._timer = self._clock.call_later(LOOK_SECONDS, self._look)

    def forget(self, partition: Partition) -> None:
        self._waiting.pop(partition, None)
        self._leader_ends.pop(partition, None)

    def _leader_end(self, partition: Partition) -> Offset | None:
        epoch, end = self._leader_ends.get(partition, (-1, None))
        return end if epoch == partition.epoch else None

    def _look(self) -> None:
        self._timer = None
        done = [partition for partition in self._waiting if self.has_what_is_committed(partition)]
        for partition in done:
            del self._waiting[partition]
        for partition in list(self._waiting):
            if partition.has_leader_high_watermark and self._leader_end(partition) is None:
                self._ask_leader_end(partition)
        if self._waiting:
            self._timer = self._clock.call_later(LOOK_SECONDS, self._look)
        for partition in done:
            self._caught_up(partition)

    def _ask_leader_end(self, partition: Partition) -> None:
        epoch = partition.epoch

        def answered(leader: Ends | None) -> None:
            self._asking.pop(partition, None)
            if leader is not None and partition in self._waiting:
                self._leader_ends[partition] = (epoch, leader.end)

        if partition not in self._asking:
            self._asking[partition] = None
            self._ask(partition, answered)
