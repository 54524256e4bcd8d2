"""The requests of one connection that wait for an event that may not come, such as a fetch that waits for records."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from highwater.world import Clock

MAX_WAIT_MS = 60_000
"""The longest wait, even if a fetch asks for more. A response without news is always allowed, and a client that asks to
wait for days may be gone."""


class Waiting(Protocol):
    def look(self, at_once: bool) -> None:
        """The request is the first in the line. It answers if it can; if not, it waits. With `at_once` it answers with
        what there is."""
        ...

    def hang_up(self) -> None:
        """The connection is gone, so no response is needed."""
        ...


class Line:
    """Only the first request waits for events. Responses keep their order, so requests behind it could not be answered
    earlier anyway. And even if a peer pipelines many requests, each event notifies only one of them."""

    __slots__ = ("_clock", "_ending", "_line")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._line: deque[Waiting] = deque()
        self._ending = False

    def __len__(self) -> int:
        return len(self._line)

    def join(self, waiting: Waiting) -> None:
        self._line.append(waiting)
        if self._line[0] is waiting:
            waiting.look(self._ending)

    def leave(self, waiting: Waiting) -> None:
        """The request is answered."""
        line = self._line
        if line and line[0] is waiting:
            line.popleft()
            if line:
                self._clock.call_soon(self._go_on, line[0])

    def _go_on(self, first: Waiting) -> None:
        if self._line and self._line[0] is first:
            first.look(self._ending)

    def end(self) -> None:
        """The peer sends no more. Only a response can show whether it still reads, so no request waits from now on."""
        self._ending = True
        if self._line:
            self._line[0].look(at_once=True)

    def hang_up(self) -> None:
        line, self._line = self._line, deque()
        for waiting in line:
            waiting.hang_up()
