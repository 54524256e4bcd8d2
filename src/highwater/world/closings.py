"""The parts that were started and must be stopped. The order is written in one place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from highwater.world.boundary import Failures

Close = Callable[[], Awaitable[None] | None]


class Closings:
    """Only parts that were started are closed. If one cannot be closed, that is reported, and the others still are
    closed."""

    def __init__(self, failures: Failures, order: Sequence[str]) -> None:
        self._failures = failures
        self._order = tuple(order)
        self._begun: dict[str, Close] = {}

    def add(self, name: str, close: Close) -> None:
        """The part was started."""
        if name not in self._order:
            raise ValueError(f"{name} has no place in the order of closings")
        self._begun[name] = close

    @property
    def names(self) -> list[str]:
        """The parts in the order in which they will be closed."""
        return [name for name in self._order if name in self._begun]

    async def close(self) -> None:
        for name in self.names:
            with self._failures.boundary("node", f"the end of {name}"):
                closing = self._begun.pop(name)()
                if closing is not None:
                    await closing
