"""What a test waits for: whether it has happened, and the last state of a partition if it has not."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Final

POLL_SECONDS: Final = 0.005


def comes_true(condition: Callable[[], object], seconds: float) -> bool:
    """Asks again and again, until the condition holds or the time is over."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


class AwaitedIsr:
    def __init__(self, name: str, wanted: int | Collection[int]) -> None:
        self._name = name
        self._wanted = wanted if isinstance(wanted, int) else set(wanted)
        self.isr: set[int] = set()

    def is_reached(self, isr: set[int]) -> bool:
        self.isr = isr
        return len(isr) == self._wanted if isinstance(self._wanted, int) else isr == self._wanted

    def text(self) -> str:
        wanted = f"{self._wanted} members" if isinstance(self._wanted, int) else _ids(self._wanted)
        return f"the ISR of {self._name} has {wanted}; it was {_ids(self.isr)} at last"


class AwaitedLeader:
    def __init__(self, name: str, wanted: int | None, other_than: int | None) -> None:
        self._name = name
        self._wanted = wanted
        self._other_than = other_than
        self.leader: int | None = None

    def is_reached(self, leader: int | None) -> bool:
        self.leader = leader
        return leader is not None and leader != self._other_than and self._wanted in (None, leader)

    def text(self) -> str:
        leader = "a leader" if self._wanted is None else f"node {self._wanted}"
        but = "" if self._other_than is None else f" other than node {self._other_than}"
        led = "it had no leader" if self.leader is None else f"node {self.leader} led it"
        return f"{self._name} is led by {leader}{but}; {led} at last"


def _ids(nodes: Collection[int]) -> str:
    return ",".join(map(str, sorted(nodes))) or "empty"
