"""Collects answers that come one by one, and passes them on together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Gathering(Generic[T]):
    """Calls `done` when all places are filled, with their values in the order of the places."""

    def __init__(self, places: int, done: Callable[[list[T]], None]) -> None:
        self._filled: dict[int, T] = {}
        self._places = places
        self._done = done
        if not places:
            done([])

    def place(self, index: int) -> Callable[[T], None]:
        """Returns a function that fills this place."""

        def fill(value: T) -> None:
            self._filled[index] = value
            if len(self._filled) == self._places:
                self._done([self._filled[each] for each in range(self._places)])

        return fill
