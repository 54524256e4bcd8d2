"""The queue of the controller's decisions: one is made after the other.

A long decision is made in pieces, with a turn of the loop between them. It depends on the head image from its first
piece to its last. So every other decision waits until it is made or given up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from highwater.metadata.pieces import Pieces
from highwater.world import World

_OVER: Final = object()


class Case(NamedTuple):
    begin: Callable[[], Pieces[None]]
    give_up: Callable[[], None]
    """Called if the case is not finished: nothing of it is decided."""


class Docket:
    def __init__(self, world: World) -> None:
        self._world = world
        self._waiting: deque[Case] = deque()
        self._long: deque[Case] = deque()
        """Long cases. They come last, so heartbeats and elections wait for one of them at most."""
        self._under_way: tuple[Case, Pieces[None]] | None = None

    @property
    def is_free(self) -> bool:
        return self._under_way is None and not self._waiting and not self._long

    def add(self, case: Case, takes_long: bool = False) -> None:
        """Begins the case at once if the queue is empty. If one piece is enough, the case is done on return. An
        exception of the first piece is raised here."""
        if self.is_free:
            self._advance(case, case.begin())
        else:
            (self._long if takes_long else self._waiting).append(case)

    def give_up(self) -> None:
        """Gives up all cases, because this is no longer the controller."""
        cases, self._waiting, self._long = self._waiting + self._long, deque(), deque()
        if self._under_way is not None:
            cases.appendleft(self._under_way[0])
            self._under_way = None
        for case in cases:
            with self._world.failures.boundary("connection", "a decision that is given up"):
                case.give_up()

    def _advance(self, case: Case, pieces: Pieces[None]) -> None:
        """Makes one piece."""
        under_way = self._under_way = case, pieces
        goes_on = False
        try:
            goes_on = next(pieces, _OVER) is not _OVER
        finally:
            if goes_on:
                self._world.clock.call_soon(self._go_on, case, pieces)
            elif self._under_way is under_way:
                self._under_way = None
                if not self.is_free:
                    self._world.clock.call_soon(self._take_next)

    def _go_on(self, case: Case, pieces: Pieces[None]) -> None:
        if self._under_way is not None and self._under_way[1] is pieces:
            self._advance_alone(case, pieces)

    def _take_next(self) -> None:
        if self._under_way is None and not self.is_free:
            case = (self._waiting or self._long).popleft()
            self._advance_alone(case, case.begin())

    def _advance_alone(self, case: Case, pieces: Pieces[None]) -> None:
        """Makes one piece without a caller that could handle an exception: it ends this case only."""
        with self._world.failures.boundary("connection", "a decision of the controller", lambda _: case.give_up()):
            self._advance(case, pieces)
