"""DescribeGroups, ListGroups and the positions of groups: read from the present state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from highwater.errors import Code
from highwater.groups.group import Group
from highwater.groups.member import Member
from highwater.groups.offsets import OffsetTable
from highwater.groups.registry import Registry
from highwater.groups.states import State
from highwater.model import TopicPartition
from highwater.wire.messages.describe_groups_response import DescribedGroup, DescribedGroupMember
from highwater.wire.messages.list_groups_response import ListedGroup


class Position(NamedTuple):
    """The committed offsets of a group of any kind, and the number of its members."""

    group_id: str
    members: int
    committed: dict[TopicPartition, int]


_GROUP_TYPE: Final = "classic"
_NOT_FOUND_VERSION: Final = 6


def describe(registry: Registry, group_id: str, version: int) -> DescribedGroup:
    group = registry.get(group_id)
    if group is None:
        described = DescribedGroup(group_id=group_id, group_state=State.DEAD.value)
        if version >= _NOT_FOUND_VERSION:
            described.error_code = Code.GROUP_ID_NOT_FOUND
            described.error_message = f"Group {group_id} not found."
        return described
    is_stable = group.state is State.STABLE
    protocol = group.protocol if is_stable else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[_described(member, protocol) for member in group.members.values()],
    )


class GroupFilter:
    """A filter for states and types. It is made once for all shards, because it may be long. An empty filter lets all
    groups pass. States (KIP-518) and types (KIP-848) are compared without regard to case."""

    def __init__(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> None:
        self._states = {state.strip().lower() for state in states}
        kinds = {kind.strip().lower() for kind in types}
        self._none = bool(kinds) and _GROUP_TYPE not in kinds

    def passes(self, group: Group) -> bool:
        return not self._none and (not self._states or group.state.value.lower() in self._states)


def list_groups(registry: Registry, wanted: GroupFilter) -> Iterator[ListedGroup]:
    """The groups that exist at the beginning, each in its state when its turn comes."""
    for group in list(registry):
        if wanted.passes(group):
            yield _listed(group)


def positions(registry: Registry, offsets: OffsetTable) -> Iterator[Position]:
    """The positions of the groups that exist at the beginning, each when its turn comes."""
    for group_id in dict.fromkeys([*(group.id for group in registry), *offsets.groups()]):
        group = registry.get(group_id)
        committed = {place: stored.offset for place, stored in offsets.of(group_id).items()}
        if group is not None or committed:
            yield Position(group_id, 0 if group is None else len(group.members), committed)


def _described(member: Member, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol) if protocol is not None else b"",
        member_assignment=member.assignment,
    )


def _listed(group: Group) -> ListedGroup:
    return ListedGroup(
        group_id=group.id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=_GROUP_TYPE,
    )
