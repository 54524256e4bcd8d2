"""Deadlines by name. Setting one again is cheap, since heartbeats do it all day and almost never let one expire."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from itertools import count


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


class Deadlines:
    """A heap with at most one live entry for each name: one that was put off is found so when it comes to the top."""

    def __init__(self) -> None:
        self._due: dict[Deadline, float] = {}
        self._queued: dict[Deadline, float] = {}
        self._heap: list[tuple[float, int, Deadline]] = []
        self._numbers = count()
        """Of two that are due at one time, the one that was set first comes first."""

    def __contains__(self, name: Deadline) -> bool:
        return name in self._due

    def set(self, name: Deadline, when: float) -> None:
        self._due[name] = when
        queued = self._queued.get(name)
        if queued is None or when < queued:
            self._queued[name] = when
            heappush(self._heap, (when, next(self._numbers), name))

    def cancel(self, name: Deadline) -> None:
        self._due.pop(name, None)

    def clear(self) -> None:
        self._due.clear()
        self._queued.clear()
        self._heap.clear()

    def next(self) -> float | None:
        while self._heap:
            when, _, name = self._heap[0]
            due = self._due.get(name)
            if self._queued.get(name) != when:
                heappop(self._heap)
            elif due is None:
                heappop(self._heap)
                del self._queued[name]
            elif due > when:
                self._queued[name] = due
                heapreplace(self._heap, (due, next(self._numbers), name))
            else:
                return when
        return None

    def expired(self, now: float) -> Iterator[Deadline]:
        """Takes what is due, one at a time, so that whoever handles one may set or cancel others."""
        while (when := self.next()) is not None and when <= now:
            _, _, name = heappop(self._heap)
            del self._queued[name], self._due[name]
            yield name
