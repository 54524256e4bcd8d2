"""Rebuilds groups and offsets from the records of the partition, in order, on the broker that becomes its leader."""

from __future__ import annotations

from typing import Final

from highwater.groups.group import Group
from highwater.groups.member import Member
from highwater.groups.offsets import OffsetTable
from highwater.groups.records import (
    GROUP_METADATA,
    LEGACY_OFFSET_COMMIT,
    OFFSET_COMMIT,
    group_named_in,
    kind_of,
    read_group_value,
    read_offset_key,
    read_offset_value,
)
from highwater.groups.registry import Registry
from highwater.groups.states import State
from highwater.wire.messages.group_metadata_value import GroupMetadataValue

NO_PRODUCER_ID: Final = -1

_FOREIGN_KINDS: Final = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), "consumer"),
    **dict.fromkeys((10, 11, 12, 13, 14, 15), "share"),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), "streams"),
}
_FOREIGN_GROUPS: Final = (3, 11, 17)
"""The kinds of records whose tombstone means that the group is gone."""


class Loading:
    def __init__(self, registry: Registry, offsets: OffsetTable) -> None:
        self._registry = registry
        self._offsets = offsets

    def replay(self, key: bytes, value: bytes | None, producer_id: int = NO_PRODUCER_ID) -> None:
        """Raises Malformed if a record of a known kind cannot be read: to skip it would lose it. Records of unknown
        kinds are ignored (KIP-915)."""
        kind = kind_of(key)
        if kind in (LEGACY_OFFSET_COMMIT, OFFSET_COMMIT):
            self._replay_offset(key, value, producer_id)
        elif kind == GROUP_METADATA:
            self._replay_group(group_named_in(key), value)
        elif kind in _FOREIGN_KINDS:
            self._replay_foreign(kind, group_named_in(key), value)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        for group_id in self._offsets.end_transaction(producer_id, commit=commit):
            self._know(group_id)

    def abort_open(self) -> list[int]:
        """Ends the transactions whose end is not in the log, and returns their producers. No coordinator of
        transactions will ever end them, and consumers would wait for their offsets for ever."""
        return self._offsets.abort_open()

    def _replay_offset(self, key: bytes, value: bytes | None, producer_id: int) -> None:
        group_id, place = read_offset_key(key)
        if value is None:
            self._offsets.remove(group_id, place)
        elif producer_id == NO_PRODUCER_ID:
            self._offsets.put(group_id, place, read_offset_value(value))
            self._know(group_id)
        else:
            self._offsets.hold(producer_id, group_id, place, read_offset_value(value))
            self._know(group_id)

    def _know(self, group_id: str) -> None:
        if group_id not in self._registry.foreign:
            self._registry.get_or_create(group_id, None).is_recorded = True

    def _replay_group(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            self._registry.remove(group_id)
        else:
            self._registry.foreign.pop(group_id, None)
            self._registry.put(_group(group_id, read_group_value(value)))

    def _replay_foreign(self, kind: int, group_id: str, value: bytes | None) -> None:
        if value is not None:
            self._registry.remove(group_id)
            self._registry.foreign[group_id] = _FOREIGN_KINDS[kind]
        elif kind in _FOREIGN_GROUPS:
            self._registry.foreign.pop(group_id, None)
            if self._offsets.of(group_id):
                self._know(group_id)


def _group(group_id: str, value: GroupMetadataValue) -> Group:
    since_ms = value.current_state_timestamp
    group = Group(group_id, None if since_ms == -1 else since_ms)
    group.is_recorded = True
    group.protocol_type = value.protocol_type or None
    group.protocol = value.protocol
    group.generation = value.generation
    group.leader = value.leader
    for entry in value.members:
        member = Member(
            entry.member_id,
            entry.group_instance_id,
            entry.client_id,
            entry.client_host,
            # Version 0 has one time-out for both.
            entry.session_timeout if entry.rebalance_timeout == -1 else entry.rebalance_timeout,
            entry.session_timeout,
            ((value.protocol or "", entry.subscription),),
            entry.assignment,
        )
        group.add(member, value.protocol_type)
    group.state = State.STABLE if group.members else State.EMPTY
    group.learn_subscription()
    return group
