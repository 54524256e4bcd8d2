"""Deadlines by name. To set one again is cheap: heartbeats do that all the time, and almost no deadline expires."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from typing import Any, Final

_STALE: Final = 1_000
"""The heap may hold as many stale entries (replaced or cancelled) as live ones, and this many more."""


@dataclass(frozen=True, slots=True)
class Session:
    """The session of a member, or of a client that was given a member id, is over."""

    group: str
    member: str


@dataclass(frozen=True, slots=True)
class Joining:
    """The time to join is over."""

    group: str


@dataclass(frozen=True, slots=True)
class Syncing:
    """The time to fetch the assignment is over."""

    group: str


@dataclass(frozen=True, slots=True)
class RetentionCheck:
    """It is time to look for unused offsets."""


@dataclass(frozen=True, slots=True)
class Retry:
    """It is time to try again to write tombstones."""


Deadline = Session | Joining | Syncing | RetentionCheck | Retry


class _Entry(list[Any]):
    """The time, a number, and the name of the deadline; the name is None if it was moved forward or cancelled. Entries
    compare like lists."""

    __slots__ = ()


class Deadlines:
    """A heap with at most one live entry for each name. If a deadline was put off, its entry is corrected when it comes
    to the top."""

    def __init__(self) -> None:
        self._due: dict[Deadline, float] = {}
        self._entries: dict[Deadline, _Entry] = {}
        self._heap: list[_Entry] = []
        self._numbers = count()
        """If two deadlines are due at the same time, the one that was set first comes first."""

    def __contains__(self, name: Deadline) -> bool:
        return name in self._due

    def set(self, name: Deadline, when: float) -> None:
        self._due[name] = when
        entry = self._entries.get(name)
        if entry is None or when < entry[0]:
            if entry is not None:
                entry[2] = None
            entry = self._entries[name] = _Entry((when, next(self._numbers), name))
            heappush(self._heap, entry)
            self._tidy()

    def cancel(self, name: Deadline) -> None:
        if self._due.pop(name, None) is not None:
            self._entries.pop(name)[2] = None
            self._tidy()

    def _tidy(self) -> None:
        """Removes stale entries. A session may last for half an hour, and a client that joins and leaves again and
        again would fill the heap until then."""
        if len(self._heap) > 2 * len(self._due) + _STALE:
            self._heap = [entry for entry in self._heap if entry[2] is not None]
            heapify(self._heap)

    def clear(self) -> None:
        self._due.clear()
        self._entries.clear()
        self._heap.clear()

    def next(self) -> float | None:
        while self._heap:
            entry = self._heap[0]
            when, _, name = entry
            if name is None:
                heappop(self._heap)
                continue
            due = self._due[name]
            if due <= when:
                return due
            entry[:2] = due, next(self._numbers)
            heapreplace(self._heap, entry)
        return None

    def expired(self, now: float) -> Iterator[Deadline]:
        """Takes the deadlines that are due, one at a time. The caller may set or cancel others in between."""
        while (when := self.next()) is not None and when <= now:
            name: Deadline = heappop(self._heap)[2]
            del self._entries[name], self._due[name]
            yield name
