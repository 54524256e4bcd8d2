"""The offsets of all groups of a partition: committed, being written, and in open transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import getsizeof
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from highwater.errors import Code
from highwater.groups.records import CommittedOffset
from highwater.model import TopicPartition

_OFFSET: Final = 300
_LEAST: Final = 400
"""The least size that an offset counts with. So a commit with a little more metadata is accepted even if no room is
left."""
_NOTHING: Final[Mapping[TopicPartition, CommittedOffset]] = MappingProxyType({})


class _Held(NamedTuple):
    """An offset in an open transaction, and its order among all offsets in the log."""

    order: int
    offset: CommittedOffset


class OffsetChanges(Protocol):
    """Offsets that are being written."""

    @property
    def changes(self) -> Mapping[TopicPartition, CommittedOffset | None]: ...

    def when_settled(self, resume: Callable[[Code], None]) -> None:
        """Calls `resume` with NONE when the write has ended, or earlier with an error for the client."""
        ...


def size_of_offset(place: TopicPartition, offset: CommittedOffset | None) -> int:
    """The size of an offset in memory, in bytes."""
    return 0 if offset is None else max(_LEAST, _OFFSET + len(place.topic) + getsizeof(offset.metadata))


class Since:
    """The places for which an offset was committed since `OffsetTable.watch`."""

    def __init__(self) -> None:
        self.places: set[tuple[str, TopicPartition]] = set()


class OffsetTable:
    def __init__(self) -> None:
        self.size = 0
        """The size of all offsets in bytes, with those that are being written."""
        self._watching: dict[Since, None] = {}
        self._committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._orders: dict[tuple[str, TopicPartition], int] = {}
        """The order of each committed offset in the log. It is kept only while a transaction is open."""
        self._writing: dict[str, dict[int, OffsetChanges]] = {}
        """The writes that are under way, by identity, in the order in which they began. There may be thousands while a
        replica is slow, so no code may walk through all of them for each place."""
        self._writing_at: dict[str, dict[TopicPartition, dict[int, OffsetChanges]]] = {}
        """The same writes, by the place that they change."""
        self._held: dict[int, dict[tuple[str, TopicPartition], _Held]] = {}
        self._order = 0

    def of(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        return self._committed.get(group, _NOTHING)

    def groups(self) -> list[str]:
        """All groups that have an offset, or may have one when the writes that are under way are committed."""
        return list(dict.fromkeys((*self._committed, *self._writing)))

    def put(self, group: str, place: TopicPartition, offset: CommittedOffset) -> None:
        self._order += 1
        self._set(group, place, offset)
        if self._held:
            self._orders[group, place] = self._order

    def _set(self, group: str, place: TopicPartition, offset: CommittedOffset) -> None:
        offsets = self._committed.setdefault(group, {})
        self.size += size_of_offset(place, offset) - size_of_offset(place, offsets.get(place))
        offsets[place] = offset
        for since in self._watching:
            since.places.add((group, place))

    def remove(self, group: str, place: TopicPartition) -> None:
        offsets = self._committed.get(group)
        if offsets is not None:
            self.size -= size_of_offset(place, offsets.pop(place, None))
            if not offsets:
                del self._committed[group]
        for producer in list(self._held):
            self._let_go(producer, group, place)

    def growth_by(self, group: str, changes: Mapping[TopicPartition, CommittedOffset | None]) -> int:
        """How many bytes the offsets of the group grow when these changes are committed."""
        there = self.of(group)
        return sum(
            size_of_offset(place, offset) - size_of_offset(place, there.get(place)) for place, offset in changes.items()
        )

    def watch(self) -> Since:
        """Records the places of commits from now on, until `unwatch`."""
        since = Since()
        self._watching[since] = None
        return since

    def unwatch(self, since: Since) -> None:
        self._watching.pop(since, None)

    def clear(self) -> None:
        self.size = 0
        self._watching.clear()
        self._committed.clear()
        self._orders.clear()
        self._writing.clear()
        self._writing_at.clear()
        self._held.clear()

    # Writes under way

    def begin(self, group: str, written: OffsetChanges) -> None:
        self._writing.setdefault(group, {})[id(written)] = written
        there = self._writing_at.setdefault(group, {})
        for place in written.changes:
            there.setdefault(place, {})[id(written)] = written
        self.size += _size_of(written.changes)

    def end(self, group: str, written: OffsetChanges) -> None:
        del self._writing[group][id(written)]
        there = self._writing_at[group]
        for place in written.changes:
            del there[place][id(written)]
            if not there[place]:
                del there[place]
        self.size -= _size_of(written.changes)
        if not self._writing[group]:
            del self._writing[group], self._writing_at[group]

    @property
    def is_any_written(self) -> bool:
        return bool(self._writing)

    def writes(self) -> dict[str, list[Mapping[TopicPartition, CommittedOffset | None]]]:
        """The changes that are being written now, by group."""
        return {group: [each.changes for each in writes.values()] for group, writes in self._writing.items()}

    def last(self, group: str, place: TopicPartition) -> CommittedOffset | None:
        """The offset after all writes that are under way are committed."""
        writes = self._writing_at.get(group, {}).get(place)
        if writes:
            return writes[next(reversed(writes))].changes[place]
        return self.of(group).get(place)

    def last_written(self, group: str) -> OffsetChanges | None:
        writes = self._writing.get(group)
        return writes[next(reversed(writes))] if writes else None

    def is_writing(self, group: str, place: TopicPartition) -> bool:
        return place in self._writing_at.get(group, ())

    def places(self, group: str) -> list[TopicPartition]:
        """All places for which the group has an offset, or may have one when writes end."""
        seen = dict.fromkeys(self.of(group))
        seen.update(dict.fromkeys(self._writing_at.get(group, ())))
        return list(seen)

    # Transactions of a log that is being loaded: their offsets count when the commit marker is there

    def hold(self, producer_id: int, group: str, place: TopicPartition, offset: CommittedOffset) -> None:
        self._order += 1
        self._let_go(producer_id, group, place)
        self._held.setdefault(producer_id, {})[group, place] = _Held(self._order, offset)
        self.size += size_of_offset(place, offset)

    def _let_go(self, producer_id: int, group: str, place: TopicPartition) -> None:
        held = self._held.get(producer_id, {}).pop((group, place), None)
        if held is not None:
            self.size -= size_of_offset(place, held.offset)

    def end_transaction(self, producer_id: int, *, commit: bool) -> list[str]:
        """Returns the groups that got an offset from it. An offset that was committed later in the log stays."""
        done: list[str] = []
        for (group, place), held in self._held.pop(producer_id, {}).items():
            self.size -= size_of_offset(place, held.offset)
            if commit and held.order > self._orders.get((group, place), 0):
                self._set(group, place, held.offset)
                self._orders[group, place] = held.order
                done.append(group)
        if not self._held:
            self._orders.clear()
        return done

    def abort_open(self) -> list[int]:
        """Drops the offsets of the transactions that are still open, and returns their producers."""
        producers = list(self._held)
        for producer in producers:
            self.end_transaction(producer, commit=False)
        return producers


def _size_of(changes: Mapping[TopicPartition, CommittedOffset | None]) -> int:
    return sum(size_of_offset(place, offset) for place, offset in changes.items())
