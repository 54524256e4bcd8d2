"""Room for large requests: only a limited amount is handled at a time. Others wait as undecoded bytes."""

from __future__ import annotations

from collections.abc import Callable


class Room:
    """Requests get their places in the order of arrival. If the room is empty, a request of any size gets a place."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.taken = 0
        self._waiting: dict[RoomPlace, None] = {}

    def __len__(self) -> int:
        """The number of requests that wait."""
        return len(self._waiting)

    def wait(self, place: RoomPlace) -> None:
        self._waiting[place] = None
        self._admit()

    def give_up(self, place: RoomPlace) -> None:
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


class RoomPlace:
    """The place of one request. It waits after `enter`, has its place when `begin` is called, and leaves once."""

    def __init__(self, room: Room, size: int, begin: Callable[[], None], left: Callable[[RoomPlace], None]) -> None:
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
        self._begin = None  # it holds the large request and may refer to this place: a reference cycle otherwise
        self._left(self)
        if self.is_had:
            self._room.free(self.size)
        else:
            self._room.give_up(self)
