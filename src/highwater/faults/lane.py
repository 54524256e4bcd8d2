"""One direction of a connection: bytes come out in order; later while the link is slow, and not while it is cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from highwater.world import Clock, Timer

T = TypeVar("T")


class Lane(Generic[T]):
    def __init__(self, clock: Clock, deliver: Callable[[T], None], held: bool, delay: float) -> None:
        self._clock = clock
        self._deliver = deliver
        self._held = held
        self._delay = delay
        self._waiting: deque[tuple[float, T]] = deque()
        self._timer: Timer | None = None

    @property
    def is_clear(self) -> bool:
        """Whether nothing is held or delayed: then pushed bytes are delivered within the call."""
        return not self._held and not self._delay and not self._waiting

    def push(self, item: T) -> None:
        if self.is_clear:
            self._deliver(item)
        else:
            self._waiting.append((self._clock.monotonic() + self._delay, item))
            self._arm()

    def change(self, held: bool, delay: float) -> None:
        """Bytes that wait go on under the new conditions."""
        latest = self._clock.monotonic() + delay
        self._held, self._delay = held, delay
        self._waiting = deque((min(due, latest), item) for due, item in self._waiting)
        self._disarm()
        self._arm()

    def drop(self) -> None:
        self._waiting.clear()
        self._disarm()

    def _arm(self) -> None:
        if self._timer is None and self._waiting and not self._held:
            wait = self._waiting[0][0] - self._clock.monotonic()
            self._timer = self._clock.call_later(max(wait, 0.0), self._arrive)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arrive(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            self._deliver(self._waiting.popleft()[1])
        self._arm()
