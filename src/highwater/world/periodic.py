"""Periodic work. A turn that fails ends that turn, and not the work."""

from __future__ import annotations

from collections.abc import Callable

from highwater.world import Timer, World

NEVER = float("inf")
SHORTEST_SECONDS = 0.01
"""The shortest interval. Settings permit 0, and such work would leave no time for anything else."""


class Periodic:
    """Each turn begins one interval after the last one ended. The interval is asked for again each time."""

    def __init__(self, world: World, name: str, interval: Callable[[], float], work: Callable[[], None]) -> None:
        """The interval is in seconds. `NEVER` ends the work for good."""
        self._world = world
        self._interval = interval
        self._work = work
        self._boundary = world.failures.boundary("periodic", name)
        self._timer: Timer | None = None
        self._stopped = False

    def start(self, first: float | None = None) -> None:
        self._stopped = False
        self._later(self._interval() if first is None else first)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _later(self, seconds: float) -> None:
        if not self._stopped and seconds < NEVER:
            self._timer = self._world.clock.call_later(max(seconds, SHORTEST_SECONDS), self._turn)

    def _turn(self) -> None:
        self._timer = None
        with self._boundary:
            self._work()
        self._later(self._interval())
