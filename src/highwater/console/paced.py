"""How often the cluster is asked: never more often than a period, which grows with what the answer costs a broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Paced(Generic[T]):
    """Calls a function when it is due, and returns its last value otherwise."""

    def __init__(
        self, ask: Callable[[], T], seconds: Callable[[], float], now: Callable[[], float] = time.monotonic
    ) -> None:
        """`seconds` is looked at after each call: the period until the next one."""
        self._ask = ask
        self._seconds = seconds
        self._now = now
        self._due = float("-inf")
        self._value: T | None = None

    def value(self) -> T:
        """Raises what the question raises. A question that failed is asked again at the next call."""
        begun = self._now()
        if self._value is None or begun >= self._due:
            self._value = self._ask()
            self._due = begun + self._seconds()
        return self._value

    def hurry(self) -> None:
        """The next call asks, whenever it is: what is known is of another cluster."""
        self._due = float("-inf")


def period(seconds: float, count: int, per_second: int) -> float:
    """At least `seconds`, and longer for an answer of many rows, so that a broker handles `per_second` rows at most."""
    return max(seconds, count / per_second)
