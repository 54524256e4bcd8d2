"""A node's clocks over the virtual time of the loop."""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable
from random import Random

from highwater.sim.knobs import Knobs
from highwater.sim.loop import SimLoop
from highwater.sim.process import Process

EPOCH_MS = 1_735_689_600_000
"""The wall clock at virtual second 0: 2025-01-01."""


class Wall:
    """The wall clock of a machine. Its error stays over restarts of the node."""

    def __init__(self) -> None:
        self._origin = 0.0
        self._base = 0.0
        self._rate = 1.0

    def seconds(self, now: float) -> float:
        return self._base + (now - self._origin) * self._rate

    def jump(self, seconds: float) -> None:
        self._base += seconds

    def drift(self, now: float, rate: float) -> None:
        """From now on the clock runs at `rate` times the speed of true time."""
        self._base = self.seconds(now)
        self._origin = now
        self._rate = rate


class SimTimer:
    __slots__ = ("_handle", "_process")

    def __init__(self, process: Process, handle: TimerHandle) -> None:
        self._process = process
        self._handle = handle

    def cancel(self) -> None:
        self._process.check()
        self._handle.cancel()


class SimClock:
    """Implements Clock. `boot` gives each node another monotonic clock: a reading means nothing on another node."""

    def __init__(self, process: Process, loop: SimLoop, wall: Wall, boot: float, random: Random, knobs: Knobs) -> None:
        self._process = process
        self._loop = loop
        self._wall = wall
        self._boot = boot
        self._random = random
        self._slow_code = knobs.slow_code
        self._slice = knobs.slice

    def monotonic(self) -> float:
        """Code takes no virtual time by itself. If a fault makes it slow, the next reading of the clock shows that."""
        process, loop = self._process, self._loop
        process.check()
        if self._slow_code and process.is_running_on_the_loop() and self._random.random() < self._slow_code:
            loop.spend(process, self._random.uniform(*self._slice))
        return loop.time_of(process) + self._boot

    def wall_ms(self) -> int:
        self._process.check()
        return EPOCH_MS + round(self._wall.seconds(self._loop.time_of(self._process)) * 1000)

    def call_later(self, seconds: float, fn: Callable[..., None], *args: object) -> SimTimer:
        process = self._process
        process.check()
        name = getattr(fn, "__qualname__", type(fn).__name__)
        at = self._loop.time_of(process) + max(seconds, 0.0)
        handle = self._loop.call_at(at, self._fire, name, fn, args, context=process.context())
        return SimTimer(process, handle)

    def call_soon(self, fn: Callable[..., None], *args: object) -> SimTimer:
        process = self._process
        process.check()
        at = self._loop.time_of(process)
        return SimTimer(process, self._loop.call_at(at, fn, *args, context=process.context()))

    def _fire(self, name: str, fn: Callable[..., None], args: tuple[object, ...]) -> None:
        self._process.emit("timer", name)
        fn(*args)
