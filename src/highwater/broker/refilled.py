"""Replicas that replace damaged ones and are being fetched from their leader, until they have every committed record.

Only then their directory is reported to the controller, which may elect them and let them join the ISR.
"""

from __future__ import annotations

from collections.abc import Callable

from highwater.partition.partition import Partition
from highwater.world import Clock, Timer

LOOK_SECONDS = 0.1


class Refilled:
    def __init__(self, clock: Clock, caught_up: Callable[[Partition], None]) -> None:
        self._clock = clock
        self._caught_up = caught_up
        self._waiting: dict[Partition, None] = {}
        self._timer: Timer | None = None

    def wait_for(self, partition: Partition) -> None:
        self._waiting[partition] = None
        if self._timer is None:
            self._timer = self._clock.call_later(LOOK_SECONDS, self._look)

    def forget(self, partition: Partition) -> None:
        self._waiting.pop(partition, None)

    def _look(self) -> None:
        self._timer = None
        done = [partition for partition in self._waiting if partition.has_what_is_committed]
        for partition in done:
            del self._waiting[partition]
        if self._waiting:
            self._timer = self._clock.call_later(LOOK_SECONDS, self._look)
        for partition in done:
            self._caught_up(partition)
