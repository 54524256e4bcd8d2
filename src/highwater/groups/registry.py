"""The groups of a shard by id, and the ids of groups of other kinds."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.groups.footprint import Footprint
from highwater.groups.group import Group


class Registry:
    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self._footprint = Footprint()
        self.foreign: dict[str, str] = {}
        """Groups that Kafka 4 wrote and that are not classic, with their kind. Their ids are taken and their offsets
        can be read, but they are never changed."""

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def get(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)

    def get_or_create(self, group_id: str, now_ms: int | None) -> Group:
        group = self._groups.get(group_id)
        if group is None:
            group = Group(group_id, now_ms)
            self.put(group)
        return group

    def put(self, group: Group) -> None:
        self.remove(group.id)
        self._groups[group.id] = group
        group.footprint = self._footprint
        self._footprint.bytes += group.size

    def remove(self, group_id: str) -> None:
        group = self._groups.pop(group_id, None)
        if group is not None:
            self._footprint.bytes -= group.size
            group.footprint = Footprint()

    @property
    def size(self) -> int:
        """The size of all groups, in bytes."""
        return self._footprint.bytes

    def clear(self) -> None:
        self._groups.clear()
        self._footprint = Footprint()
        self.foreign.clear()
