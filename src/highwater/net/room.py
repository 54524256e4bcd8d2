"""Room for what is large: so much of it at a time is worked on, and the rest waits as the bytes that came in."""

from __future__ import annotations

from collections.abc import Callable


class Room:
    """Whoever comes first gets a place first. One who finds it empty gets one, however much he needs."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.taken = 0
        self._waiting: dict[Place, None] = {}

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def wait(self, place: Place) -> None:
        self._waiting[place] = None
        self._admit()

    def give_up(self, place: Place) -> None:
        self._waiting.pop(place, None)
        self._admit()

    def free(self, size: int) -> None:
        self.taken -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            first = next(iter(self._waiting))
            if self.taken and self.taken + first.size > self._limit:
                return
            del self._waiting[first]
            self.taken += first.size
            first.begin()


class Place:
    """Of one request: it waits once it is entered, it is had when `begin` is called, and it is left once."""

    def __init__(self, room: Room, size: int, begin: Callable[[], None], left: Callable[[Place], None]) -> None:
        self._room = room
        self.size = size
        self._begin: Callable[[], None] | None = begin
        self._left = left
        self.is_had = self._is_left = False

    def enter(self) -> None:
        self._room.wait(self)

    def begin(self) -> None:
        self.is_had = True
        begin, self._begin = self._begin, None
        if begin is not None:
            begin()

    def leave(self) -> None:
        if self._is_left:
            return
        self._is_left = True
        self._begin = None  # it has what is large, and may know this place: a circle that stays until it is looked for
        self._left(self)
        if self.is_had:
            self._room.free(self.size)
        else:
            self._room.give_up(self)
