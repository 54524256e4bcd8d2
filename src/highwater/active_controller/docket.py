"""What the controller has to decide, one thing after the other.

A decision that takes long is made by pieces, with a turn of the loop between them. It rests on the head image from its
first piece to its last, so all else that would change that image waits until it is made or given up.
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
    """Called where it is not brought to its end: nothing of it is decided."""


class Docket:
    def __init__(self, world: World) -> None:
        self._world = world
        self._waiting: deque[Case] = deque()
        self._long: deque[Case] = deque()
        """Those that take long. They come last: heartbeats and elections wait for one of them at most."""
        self._under_way: tuple[Case, Pieces[None]] | None = None

    @property
    def is_free(self) -> bool:
        return self._under_way is None and not self._waiting and not self._long

    def add(self, case: Case, takes_long: bool = False) -> None:
        """Begun at once where nothing is in its way, and done on return if one piece is enough; what that raises is
        raised here."""
        if self.is_free:
            self._advance(case, case.begin())
        else:
            (self._long if takes_long else self._waiting).append(case)

    def give_up(self) -> None:
        """All of it: it is decided here no longer."""
        cases, self._waiting, self._long = self._waiting + self._long, deque(), deque()
        if self._under_way is not None:
            cases.appendleft(self._under_way[0])
            self._under_way = None
        for case in cases:
            with self._world.failures.boundary("connection", "a decision that is given up"):
                case.give_up()

    def _advance(self, case: Case, pieces: Pieces[None]) -> None:
        """By one piece."""
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
        """Whoever asked has returned: a mistake ends this case, and the others are gone on with."""
        with self._world.failures.boundary("connection", "a decision of the controller", lambda _: case.give_up()):
            self._advance(case, pieces)
