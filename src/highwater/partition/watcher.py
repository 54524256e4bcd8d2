"""The callbacks by which a partition notifies the fetch sessions that read it."""

from __future__ import annotations

from typing import Protocol


class Watcher(Protocol):
    """A reader that is notified when there may be more records, or an error, for it."""

    def mark(self) -> None: ...

    def note(self) -> None:
        """Something changed that can wait for the next response."""

    def restate(self) -> None:
        """The position that the reader last sent no longer counts, until its next request confirms it."""
