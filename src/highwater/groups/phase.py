"""What the requests of members do depends on the state of their group: one object for each state that has members.

An empty group has no members, so theirs are unknown before a phase is asked. A dead one answers nobody.
"""

from __future__ import annotations

from typing import Protocol

from highwater.effects import Caller, Now
from highwater.errors import Code
from highwater.groups.group import Group
from highwater.groups.member import Join, Member
from highwater.groups.rebalance import Emptied, Rebalance
from highwater.wire.messages.sync_group_request import SyncGroupRequest


class Phase(Protocol):
    @property
    def heartbeat(self) -> Code:
        """The answer to a heartbeat of a member of this generation."""
        ...

    @property
    def commit(self) -> Code:
        """Why a member of this generation may not commit offsets now, or NONE."""
        ...

    def admits(self, group: Group, member_id: str, limit: int) -> bool:
        """Whether a member, known or new, has a place in a group of at most `limit`."""
        ...

    def rejoin(self, rebalance: Rebalance, group: Group, member: Member, join: Join, now: Now) -> None:
        """A known member joins."""
        ...

    def replaced(
        self, rebalance: Rebalance, group: Group, member: Member, join: Join, former_leader: str | None, now: Now
    ) -> None:
        """A process joined under the instance id of a static member, and took its place as `member`."""
        ...

    def sync(
        self, rebalance: Rebalance, group: Group, member: Member, request: SyncGroupRequest, caller: Caller, now: Now
    ) -> None:
        """A member of this generation asks for its assignment, and the leader brings all of them."""
        ...

    def left(self, rebalance: Rebalance, group: Group, now: Now) -> Emptied | None:
        """Members have left by themselves."""
        ...
