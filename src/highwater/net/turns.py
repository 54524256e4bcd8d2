"""Turns of the loop: work that grows with what a client sent gives way to everything else, and goes on later."""

from __future__ import annotations

from collections.abc import Callable, Generator
from heapq import heappop, heappush
from itertools import count
from typing import Final, TypeVar

from highwater.net.room import Room
from highwater.world import Clock, Place, Step, World

SLICE_SECONDS: Final = 0.003
"""What one request takes of the loop at a time, and all requests together between two looks at the sockets."""
ROUND_SECONDS: Final = 0.02
"""Slices are shorter where many wait: within so long all of them have had one."""
SHORTEST_SECONDS: Final = 0.0002
"""Enough for most requests; to change over takes a tenth of it."""
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


class Share:
    """What one connection, or whoever else takes turns, has had of the loop."""

    __slots__ = ("had",)

    def __init__(self) -> None:
        self.had = 0.0
        """By the clock of `Turns`, which stands still while nobody waits: whoever was busy then owes nothing."""


class Turns:
    """One slice for one of those who wait between two looks at the sockets. Whoever has had the least comes first, so
    that one who asks for little does not wait for those who ask for much, however many they are; and since all of them
    move on, nobody waits for ever.

    While nobody waits, whoever comes is served at once. When such requests have taken a slice together, the next one
    waits for a look at the sockets, too: many connections may have something to read at the same time.
    """

    def __init__(self, clock: Clock) -> None:
        self.monotonic = clock.monotonic
        self._call_soon = clock.call_soon
        self._waiting: list[tuple[float, int, Share, Callable[[], None]]] = []
        self._numbers = count()
        self._time = 0.0
        """What one who comes anew counts as having had: as much as the one whose turn it is."""
        self.served: Share | None = None
        """Whose slice it is now."""
        self.must_wait = False
        """Whether one who comes now has to `add` himself, rather than to `begin`."""
        self._since = 0.0
        self._taken = 0.0
        """By those who did not wait, since somebody last did."""
        self.until = 0.0
        """The end of the slice that is being had."""
        self.large = Room(MOST_LARGE)
        self.passed_on = Room(PASSED_ON)
        self.opened = Room(PASSED_ON)

    @property
    def slice(self) -> float:
        """For whoever begins or goes on now."""
        return max(SHORTEST_SECONDS, min(SLICE_SECONDS, ROUND_SECONDS / (len(self._waiting) + 1)))

    def begin(self, share: Share) -> None:
        share.had = max(share.had, self._time)
        self._begin(share)

    def _begin(self, share: Share) -> None:
        self.served, self._since = share, self.monotonic()
        self.until = self._since + (self.slice if self._waiting else SLICE_SECONDS)

    def end(self) -> None:
        """Of one who did not wait."""
        self._taken += self._end()
        self.must_wait = bool(self._waiting) or self._taken >= SLICE_SECONDS

    def _end(self) -> float:
        share, self.served = self.served, None
        assert share is not None
        used = self._charge(share)
        if not self._waiting:
            self._time = max(self._time, share.had)
        return used

    def _charge(self, share: Share) -> float:
        now = self.monotonic()
        used, self._since = now - self._since, now
        share.had += used
        return used

    def add(self, share: Share, go_on: Callable[[], None], cost: float = 0.0) -> None:
        """Called once, for a slice; it adds itself again where that is not enough. Of those who have had the same, the
        one with the least `cost`, in seconds, comes first."""
        if share is self.served:
            self._charge(share)
        else:
            share.had = max(share.had, self._time)
        if not self._waiting:
            self._call_soon(self._next)
        self.must_wait = True
        heappush(self._waiting, (share.had + cost, next(self._numbers), share, go_on))

    def _next(self) -> None:
        _, _, share, go_on = heappop(self._waiting)
        self._time = max(self._time, share.had)
        if self._waiting:
            self._call_soon(self._next)
        self._begin(share)
        try:
            go_on()
        finally:
            self._end()
            self._taken = 0.0
            self.must_wait = bool(self._waiting)


class Errand:
    """The work of one request, from slice to slice."""

    __slots__ = ("_done", "_failed", "_share", "_turns", "_wanted", "_work")

    def __init__(
        self,
        turns: Turns,
        share: Share,
        work: Work,
        wanted: Callable[[], bool],
        done: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._turns = turns
        self._share = share
        self._work = work
        self._wanted = wanted
        """False once the peer is gone: then the rest is left."""
        self._done = done
        self._failed = failed

    def begin(self) -> bool:
        """Whether it is over by the end of its first slice; `done` is for what ends later."""
        turns = self._turns
        if turns.served is not None:
            return self._run()
        if turns.must_wait:
            self._resume()
            return False
        turns.begin(self._share)
        try:
            return self._run()
        finally:
            turns.end()

    def _run(self) -> bool:
        turns = self._turns
        try:
            for pause in self._work:
                if pause is not None:
                    pause(self._resume)
                    return False
                if turns.monotonic() >= turns.until:
                    turns.add(self._share, self._go_on, SLICE_SECONDS)  # it was long, and may be so again
                    return False
        except Exception as failed:  # noqa: BLE001 the boundary between one request and the node
            self._failed(failed)
        return True

    def _resume(self) -> None:
        self._turns.add(self._share, self._go_on)

    def _go_on(self) -> None:
        if not self._wanted():
            self._work.close()
            return
        if self._run():
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
