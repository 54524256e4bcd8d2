"""The sequence of everything that happened, its running hash, and the watchers that may crash a node in between."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Literal, NamedTuple

Phase = Literal["before", "during", "after"]
RECENT = 2_000
HASHED_AT_ONCE = 500


class Event(NamedTuple):
    """One operation on the world, as it is seen before, during or after its effect."""

    at: float
    node: str
    kind: str
    subject: str
    phase: Phase


Watcher = Callable[[Event], None]
Predicate = Callable[[Event], bool]


def matching(kind: str, subject: str = "*") -> Predicate:
    """Events of one kind whose subject (a path, `old -> new`, an address) matches the shell pattern."""
    return lambda event: event.kind == kind and fnmatchcase(event.subject, subject)


class Trace:
    """Two runs are the same run if and only if their hashes are equal."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._hash = blake2b(digest_size=16)
        self._unhashed: list[str] = []
        self.counts: Counter[tuple[str, str]] = Counter()
        self.recent: deque[tuple[float, str, str, str, str]] = deque(maxlen=RECENT)
        self.watchers: list[Watcher] = []

    @property
    def digest(self) -> str:
        self._hash_rest()
        return self._hash.hexdigest()

    def _hash_rest(self) -> None:
        self._hash.update("".join(self._unhashed).encode())
        self._unhashed.clear()

    def record(self, node: str, kind: str, subject: str = "", note: str = "") -> None:
        """Records the event. `note` (sizes, checksums) distinguishes runs, and is not matched on."""
        now = self._now()
        self.counts[node, kind] += 1
        self.recent.append((now, node, kind, subject, note))
        self._unhashed.append(f"{now!r} {node} {kind} {subject} {note}\n")
        if len(self._unhashed) >= HASHED_AT_ONCE:
            self._hash_rest()

    def show(self, node: str, kind: str, subject: str, phase: Phase) -> None:
        """Shows the event to the watchers."""
        if self.watchers:
            event = Event(self._now(), node, kind, subject, phase)
            for watcher in tuple(self.watchers):
                watcher(event)
