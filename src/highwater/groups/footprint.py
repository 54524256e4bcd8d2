"""The memory that groups and their members take. It is counted as they come and go.

Clients decide how many groups and members there are, and how large. So before anything new is stored, `HasRoom` decides
whether this broker has memory for it. Groups that were loaded from the log are kept in any case.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getsizeof
from typing import Final

from highwater.groups.member import Join, Member, size_of

MOST_KEPT: Final = 56 << 20
"""The most bytes for all groups and offsets that one broker coordinates: 130 000 offsets, or 14 000 members.
With more, all attacks of `bench/attacks.py` one after the other would take more than 300 MB."""

HasRoom = Callable[[int], bool]
"""Whether this many more bytes may be stored. A negative number is always allowed."""

_GROUP: Final = 1_000
_PENDING: Final = 350
_MEMBER: Final = 900
_LEAST_MEMBER: Final = 4_096
"""The least size that a member counts with. So a small member that comes back with a little more data is admitted even
if no room is left."""
_TOPIC: Final = 100
"""The size of a topic in a subscription, without its name."""
_MEMBER_ID: Final = 37
"""The length that a member id has beyond the client id."""


class Footprint:
    """The size of all groups of a registry."""

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
    """The size of a member's content, in bytes."""
    names = getsizeof(member.id) + getsizeof(member.client_id) + getsizeof(member.instance_id)
    return _MEMBER + names + size_of(member.protocols) + len(member.assignment)


def weight_of_new(join: Join) -> int:
    """The weight of the member that this JoinGroup would add."""
    client_id = getsizeof(join.caller.client_id)
    names = 2 * client_id if join.instance_id is None else client_id + 2 * getsizeof(join.instance_id)
    return _MEMBER + _MEMBER_ID + names + size_of(join.protocols)
