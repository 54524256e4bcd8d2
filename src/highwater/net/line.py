"""The requests of one connection that wait for something that may happen or not, a fetch for records."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from highwater.world import Clock

MAX_WAIT_MS = 60_000
"""Whatever a fetch asks for: an answer without news may come at any time, and who would wait for days has gone."""


class Waiting(Protocol):
    def look(self, at_once: bool) -> None:
        """It is the first in the line: is there an answer? If not, it stays and looks again when there may be; but at
        once it answers as things stand."""
        ...

    def hang_up(self) -> None:
        """The connection is gone, and with it whoever waited for the answer."""
        ...


class Line:
    """Only the first one waits: answers keep their order, so those behind it could not be answered before it anyway,
    and however many a peer pipelines, one of them is told of what happens."""

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
        """It is answered."""
        line = self._line
        if line and line[0] is waiting:
            line.popleft()
            if line:
                self._clock.call_soon(self._go_on, line[0])

    def _go_on(self, first: Waiting) -> None:
        if self._line and self._line[0] is first:
            first.look(self._ending)

    def end(self) -> None:
        """The peer sends no more. Whether it still listens shows when something is sent: nobody waits from here on."""
        self._ending = True
        if self._line:
            self._line[0].look(at_once=True)

    def hang_up(self) -> None:
        line, self._line = self._line, deque()
        for waiting in line:
            waiting.hang_up()
