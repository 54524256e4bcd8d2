"""Turns of the event loop: long work for a request pauses after a slice, so that other requests are served in
between."""

from __future__ import annotations

from collections.abc import Callable, Generator
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, TypeVar

from highwater.net.room import Room
from highwater.world import Clock, Place, Step, World

SLICE_SECONDS: Final = 0.003
"""The longest slice of one request, and of all requests together between two polls of the sockets."""
ROUND_SECONDS: Final = 0.02
"""If many requests wait, slices are shorter: each of them gets one within this time."""
SHORTEST_SECONDS: Final = 0.0002
"""The shortest slice. It is enough for most requests, and a change of turns takes a tenth of it."""
MOST_LARGE: Final = 2
"""The most requests with very many elements that are decoded in memory at a time."""
PASSED_ON: Final = 8 << 20
"""The most bytes of large requests that a broker forwards at a time, and that a controller takes out of envelopes at a
time: each request is in memory several times until it is answered."""

LONG_SECONDS: Final = 1.0
"""What a request that was not done within one slice counts as having used before its next one. So thousands of long
requests do not come before a small one, even if its connection has used more time than each of theirs."""
LONGEST_SECONDS: Final = 0.05
"""The longest time between two polls of the sockets, even if the loop stood still for longer before."""
OLDEST_EVERY: Final = 4
"""One slice of this many is for the request that has waited longest."""

T = TypeVar("T")
Resume = Callable[[], None]
Pause = Callable[[Resume], None]
Work = Generator[Pause | None, None, None]
"""The rest of the work for one request, in pieces of far less than a millisecond. It yields None after each piece. If
it has to wait, it yields a function. That function begins the wait, and calls its argument `resume` when the wait is
over.
"""


class Share:
    """The time that one connection, or another user of turns, has used."""

    __slots__ = ("had", "usual")

    def __init__(self) -> None:
        self.had = 0.0
        """On the clock of `Turns`, which stands still while no request waits. So time that was used then does not
        count."""
        self.usual = SLICE_SECONDS
        """The time that its slices took lately, the last one most: what it is expected to use next."""


class Turns:
    """Shares the event loop among connections. The waiting connection that will have used the least time after its next
    slice comes first, if that slice is as long as its slices were lately. So a small request does not wait for many
    large ones, even if all of these have just begun. One slice of four is for the request that has waited longest: in
    an overload some requests are finished, instead of all of them begun.

    Between two polls of the sockets, one waiting request gets one slice. If the loop was busy with other work for
    longer, for example with new connections, more slices follow for as long: otherwise the queue would only grow.

    While no request waits, a new one is served at once. When such requests have used a whole slice together, the next
    one waits for a poll of the sockets, too: many connections may be readable at the same time.
    """

    def __init__(self, clock: Clock) -> None:
        self.monotonic = clock.monotonic
        self._call_soon = clock.call_soon
        self._least: list[tuple[float, int, _Waiting]] = []
        """By used time, then by number."""
        self._oldest: list[tuple[int, int, _Waiting]] = []
        """The same requests, by the number that each got first. One that was served stays in the other queue for a
        while, without its `go_on`."""
        self._count = 0
        """The number of waiting requests."""
        self._slices = 0
        self._numbers = count()
        self._time = 0.0
        """The used time that a new share starts with. It grows with every slice: otherwise requests that have had one
        would wait behind new connections for ever."""
        self.served: Share | None = None
        """The share that has the present slice."""
        self.must_wait = False
        """Whether a new request must call `add` instead of `begin`."""
        self._is_scheduled = False
        self._scheduled_at = 0.0
        self._since = 0.0
        self._taken = 0.0
        """The time that requests without waiting have used since a request last waited."""
        self._charged = 0.0
        """What was used in the present slice before its share was queued again."""
        self.has_worked = False
        """Whether a request was taken in the present slice. If bytes only arrived, it says nothing."""
        self.until = 0.0
        """The end of the present slice."""
        self.large = Room(MOST_LARGE)
        self.passed_on = Room(PASSED_ON)
        self.opened = Room(PASSED_ON)

    @property
    def slice(self) -> float:
        """The length of a slice that begins now."""
        return max(SHORTEST_SECONDS, min(SLICE_SECONDS, ROUND_SECONDS / (self._count + 1)))

    def begin(self, share: Share, now: float) -> None:
        """Begins a slice without waiting. This runs with every read, so it makes no calls."""
        if share.had < self._time:
            share.had = self._time
        self.served = share
        self._since = now
        self.until = now + (self.slice if self._count else SLICE_SECONDS)

    def end(self) -> None:
        """Ends a slice that began without waiting."""
        share = self.served
        assert share is not None
        self.served = None
        used = self.monotonic() - self._since
        share.had += used
        if self.has_worked:
            share.usual = (share.usual + self._charged + used) / 2
            self.has_worked = False
        self._charged = 0.0
        self._taken += used
        if self._count:
            self.must_wait = True
            self._move_on(used)
        else:
            self.must_wait = self._taken >= SLICE_SECONDS
            if self._time < share.had:
                self._time = share.had

    def _move_on(self, used: float) -> None:
        self._time += used / (self._count + 1)

    def add(self, share: Share, go_on: Callable[[], None], cost: float = 0.0, since: int | None = None) -> int:
        """Queues `go_on` for one slice, and returns its number. If the slice is not enough, `go_on` adds itself again,
        with `since` as the number that it got first. `cost` is what the slice is likely to use besides what is
        usual, in seconds."""
        if share is self.served:
            now = self.monotonic()
            used, self._since = now - self._since, now
            share.had += used
            self._charged += used
            self._move_on(used)
        else:
            share.had = max(share.had, self._time)
        if not self._is_scheduled:
            self._schedule()
        self.must_wait = True
        number = next(self._numbers)
        since = number if since is None else since
        waiting = _Waiting(share, go_on)
        heappush(self._least, (share.had + share.usual + cost, number, waiting))
        heappush(self._oldest, (since, number, waiting))
        self._count += 1
        return since

    def _schedule(self) -> None:
        self._is_scheduled = True
        self._scheduled_at = self.monotonic()
        self._call_soon(self._next)

    def _next(self) -> None:
        """Serves one slice, and more of them for as long as the loop was just busy with other work."""
        now = self.monotonic()
        until = min(2 * now - self._scheduled_at, now + LONGEST_SECONDS)
        try:
            while self._count:
                self._serve(now)
                now = self.monotonic()
                if now >= until:
                    break
        finally:
            self._is_scheduled = False
            if self._count:
                self._schedule()
            else:
                self._least.clear()
                self._oldest.clear()

    def _serve(self, now: float) -> None:
        waiting = self._take()
        share, go_on = waiting.share, waiting.go_on
        assert go_on is not None
        waiting.go_on = None
        self._count -= 1
        self.served, self._since = share, now
        self.until = now + self.slice
        self.has_worked = True
        try:
            go_on()
        finally:
            self.end()
            self._taken = 0.0
            self.must_wait = self._count > 0

    def _take(self) -> _Waiting:
        self._slices += 1
        is_for_oldest = self._slices % OLDEST_EVERY == 0
        queue: list[Any] = self._oldest if is_for_oldest else self._least
        waiting: _Waiting = heappop(queue)[2]
        while waiting.go_on is None:
            waiting = heappop(queue)[2]
        if not is_for_oldest:
            self._time = max(self._time, waiting.share.had)
        return waiting


class _Waiting:
    __slots__ = ("go_on", "share")

    def __init__(self, share: Share, go_on: Callable[[], None]) -> None:
        self.share = share
        self.go_on: Callable[[], None] | None = go_on
        """None after it was called."""


class Errand:
    """The work of one request, from slice to slice."""

    __slots__ = ("_done", "_failed", "_share", "_since", "_turns", "_wanted", "_work")

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
        """Returns False when the peer is gone: then the rest is not done."""
        self._done = done
        self._failed = failed
        self._since: int | None = None

    def begin(self) -> bool:
        """Runs the first slice. True if the work is over then; `done` is called only for work that ends later."""
        turns = self._turns
        if turns.served is not None:
            return self._run()
        if turns.must_wait:
            self._wait(SLICE_SECONDS)  # it may be long: a small request that comes later goes first
            return False
        turns.begin(self._share, turns.monotonic())
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
                    self._wait(LONG_SECONDS)  # it was long, and may be so again
                    return False
        except Exception as failed:  # noqa: BLE001 the boundary between one request and the node
            self._failed(failed)
        return True

    def _resume(self) -> None:
        self._wait(0.0)

    def _wait(self, cost: float) -> None:
        self._since = self._turns.add(self._share, self._go_on, cost, self._since)

    def _go_on(self) -> None:
        if not self._wanted():
            self._work.close()
            return
        if self._run():
            self._done()


def elsewhere(
    world: World, job: Callable[..., Generator[Step, None, T]], *args: object, where: Place = "client"
) -> Generator[Pause, None, T | Exception]:
    """Runs a job off the event loop, and returns its result or its exception."""
    given: list[T | Exception] = []

    def begin(resume: Resume) -> None:
        waiting = [resume]

        def done(result: T | Exception) -> None:
            given.append(result)
            waiting.pop()()  # a job may know its callback for longer than the request is worth

        world.run(job, *args, done=done, where=where)

    yield begin
    return given[0]
