"""Turns of the loop: work that grows with what a client sent gives way to everything else, and goes on later."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Final, TypeVar

from highwater.net.room import Room
from highwater.world import Clock, Place, Step, World

SLICE_SECONDS: Final = 0.003
"""What one request takes of the loop at a time, and all requests that take long between two looks at the sockets."""
_CROWDED_SECONDS: Final = 0.0005
"""The same while others wait for their turn: enough for nearly all requests, and a turn comes soon."""
MOST_LARGE: Final = 2
"""Requests of very many elements that are in memory, decoded, at a time."""
PASSED_ON: Final = 8 << 20
"""Bytes of larger requests that a broker passes on at a time, and as many that a controller takes out of envelopes:
each is in memory several times until it is answered."""

T = TypeVar("T")
Resume = Callable[[], None]
Pause = Callable[[Resume], None]
Work = Generator[Pause | None, None, None]
"""What is left to do for one request, in pieces of far less than a millisecond. It yields None after each piece. Where
it has to wait, it yields a function that begins the wait and calls the `resume` that it is given when the wait is over.
"""


class Turns:
    """One slice of one request between two looks at the sockets, by turns."""

    def __init__(self, clock: Clock) -> None:
        self.monotonic = clock.monotonic
        self._call_soon = clock.call_soon
        self._waiting: deque[Callable[[], None]] = deque()
        self._scheduled = False
        self.large = Room(MOST_LARGE)
        self.passed_on = Room(PASSED_ON)
        self.opened = Room(PASSED_ON)

    @property
    def slice(self) -> float:
        """For whoever begins or goes on now."""
        return _CROWDED_SECONDS if self._waiting else SLICE_SECONDS

    def add(self, go_on: Callable[[], None]) -> None:
        """Called once, for a slice; it adds itself again where that is not enough."""
        self._waiting.append(go_on)
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._next)

    def _next(self) -> None:
        go_on = self._waiting.popleft()
        try:
            go_on()
        finally:
            self._scheduled = bool(self._waiting)
            if self._scheduled:
                self._call_soon(self._next)


class Errand:
    """The work of one request, from slice to slice."""

    __slots__ = ("_done", "_failed", "_turns", "_wanted", "_work")

    def __init__(
        self,
        turns: Turns,
        work: Work,
        wanted: Callable[[], bool],
        done: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._turns = turns
        self._work = work
        self._wanted = wanted
        """False once the peer is gone: then the rest is left."""
        self._done = done
        self._failed = failed

    def begin(self) -> bool:
        """Whether it is over by the end of its first slice; `done` is for what ends later."""
        return self._run(self._turns.slice)

    def _run(self, seconds: float) -> bool:
        until = self._turns.monotonic() + seconds
        try:
            for pause in self._work:
                if pause is not None:
                    pause(self._resume)
                    return False
                if self._turns.monotonic() >= until:
                    self._resume()
                    return False
        except Exception as failed:  # noqa: BLE001 the boundary between one request and the node
            self._failed(failed)
        return True

    def _resume(self) -> None:
        self._turns.add(self._go_on)

    def _go_on(self) -> None:
        if not self._wanted():
            self._work.close()
            return
        if self._run(self._turns.slice):
            self._done()


def elsewhere(
    world: World, job: Callable[..., Generator[Step, None, T]], *args: object, where: Place = "client"
) -> Generator[Pause, None, T | Exception]:
    """Have a job done off the loop, and wait for what it gives or raises."""
    given: list[T | Exception] = []

    def begin(resume: Resume) -> None:
        def done(result: T | Exception) -> None:
            given.append(result)
            resume()

        world.run(job, *args, done=done, where=where)

    yield begin
    return given[0]
