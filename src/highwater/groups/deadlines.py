"""Deadlines by name. Setting one again is cheap, since heartbeats do it all day and almost never let one expire."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from typing import Any, Final

_STALE: Final = 1_000
"""Entries that may be left in the heap of what was set anew or cancelled, beside as many as there are live ones."""


@dataclass(frozen=True, slots=True)
class Session:
    """A member, or somebody who was given a member id, has not been heard of."""

    group: str
    member: str


@dataclass(frozen=True, slots=True)
class Joining:
    """The time for members to join is over."""

    group: str


@dataclass(frozen=True, slots=True)
class Syncing:
    """The time for members to fetch their assignment is over."""

    group: str


@dataclass(frozen=True, slots=True)
class RetentionCheck:
    """Unused offsets are looked for."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Tombstones that could not be written are tried again."""


Deadline = Session | Joining | Syncing | RetentionCheck | Retry


class _Entry(list[Any]):
    """When, a number, and what is due then; None where that was put forward or cancelled. Compared as a list is."""

    __slots__ = ()


class Deadlines:
    """A heap with at most one live entry for each name: one that was put off is found so when it comes to the top."""

    def __init__(self) -> None:
        self._due: dict[Deadline, float] = {}
        self._entries: dict[Deadline, _Entry] = {}
        self._heap: list[_Entry] = []
        self._numbers = count()
        """Of two that are due at one time, the one that was set first comes first."""

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
        """A session may last for half an hour: who joins and leaves again and again would fill the heap until then."""
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
        """Takes what is due, one at a time, so that whoever handles one may set or cancel others."""
        while (when := self.next()) is not None and when <= now:
            name: Deadline = heappop(self._heap)[2]
            del self._entries[name], self._due[name]
            yield name
