"""One queue for all deadlines, so that requests need no timers of their own."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from highwater.world import Clock, Timer

TICK = 0.05
_REBUILD_FROM = 64


class Deadline:
    __slots__ = ("_args", "_fn", "_queue", "at")

    def __init__(self, queue: DeadlineQueue, at: float, fn: Callable[..., None], args: tuple[object, ...]) -> None:
        self._queue = queue
        self._fn: Callable[..., None] | None = fn
        self._args = args
        self.at = at

    @property
    def pending(self) -> bool:
        """Whether it has not fired and was not cancelled."""
        return self._fn is not None

    def cancel(self) -> None:
        """Allowed at any time, even after it has fired."""
        if self._fn is not None:
            self._fn = None
            self._args = ()
            self._queue._forget()

    def fire(self) -> None:
        """Fires now; does nothing if it has fired or was cancelled."""
        fn, args = self._fn, self._args
        self.cancel()
        if fn is not None:
            fn(*args)

    def _fire(self) -> None:
        fn, args = self._fn, self._args
        self._fn = None
        self._args = ()
        if fn is not None:
            fn(*args)


class DeadlineQueue:
    """Fires due deadlines at the next tick: never early, and at most one tick late. It sleeps while it is empty."""

    def __init__(self, clock: Clock, tick: float = TICK) -> None:
        self._clock = clock
        self._tick = tick
        self._heap: list[tuple[float, int, Deadline]] = []
        self._cancelled = 0
        self._added = 0
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def add(self, seconds: float, fn: Callable[..., None], *args: object) -> Deadline:
        return self.add_at(self._clock.monotonic() + seconds, fn, *args)

    def add_at(self, at: float, fn: Callable[..., None], *args: object) -> Deadline:
        """`at` is a time of the monotonic clock. Equal deadlines fire in the order in which they were added."""
        deadline = Deadline(self, at, fn, args)
        self._added += 1
        heappush(self._heap, (at, self._added, deadline))
        if self._timer is None:
            self._timer = self._clock.call_later(self._tick, self._sweep)
        return deadline

    def _forget(self) -> None:
        self._cancelled += 1
        if self._cancelled > _REBUILD_FROM and 2 * self._cancelled > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].pending]
            heapify(self._heap)
            self._cancelled = 0

    def _sweep(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        try:
            while self._heap and (self._heap[0][0] <= now or not self._heap[0][2].pending):
                deadline = heappop(self._heap)[2]
                if deadline.pending:
                    deadline._fire()
                else:
                    self._cancelled -= 1
        finally:  # a deadline that raises must not stop the others
            if self._heap and self._timer is None:
                self._timer = self._clock.call_later(self._tick, self._sweep)
