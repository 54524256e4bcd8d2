"""Who is told of a partition's news."""

from __future__ import annotations

from typing import Protocol


class Watcher(Protocol):
    """A reader that wants to know when there may be more, or an error, for it."""

    def mark(self) -> None: ...

    def note(self) -> None:
        """There is news that can wait for the next answer."""

    def restate(self) -> None:
        """What it said of its place counts no more, unless its next request stands by it."""
