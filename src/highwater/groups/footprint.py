"""How much memory groups and their members take, counted as they come and go.

Clients decide how many there are and what is in them. So before anything new is taken in, whoever coordinates them is
asked whether there is room for it, among all that this broker keeps. What was loaded from the log is kept in any case.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getsizeof
from typing import Final

from highwater.groups.member import Join, Member, size_of

MOST_KEPT: Final = 64 << 20
"""Bytes that the groups and offsets may take that one broker coordinates: 150 000 offsets, or 16 000 members."""

HasRoom = Callable[[int], bool]
"""Whether so many bytes more may be kept. Less is always welcome."""

_GROUP: Final = 1_000
_PENDING: Final = 350
_MEMBER: Final = 900
_LEAST_MEMBER: Final = 4_096
"""What a small one counts as: where there is no room left, one that comes back with a little more is still let in."""
_TOPIC: Final = 100
"""Of a subscription, beside its name."""
_MEMBER_ID: Final = 37
"""What is added to the name that a client gives itself."""


class Footprint:
    """Of all groups of a registry."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


def size_of_group(group_id: str) -> int:
    return _GROUP + getsizeof(group_id)


def size_of_pending(member_id: str) -> int:
    return _PENDING + getsizeof(member_id)


def size_of_subscription(topics: frozenset[str] | None) -> int:
    return 0 if topics is None else sum(_TOPIC + len(topic) for topic in topics)


def size_of_member(weight: int) -> int:
    return max(_LEAST_MEMBER, weight)


def weight_of(member: Member) -> int:
    """What is in it, in bytes."""
    names = getsizeof(member.id) + getsizeof(member.client_id) + getsizeof(member.instance_id)
    return _MEMBER + names + size_of(member.protocols) + len(member.assignment)


def weight_of_new(join: Join) -> int:
    """Of the member that it would make."""
    client_id = getsizeof(join.caller.client_id)
    names = 2 * client_id if join.instance_id is None else client_id + 2 * getsizeof(join.instance_id)
    return _MEMBER + _MEMBER_ID + names + size_of(join.protocols)
