"""What a member's request does depends on the state of its group. There is one `Phase` for each state that has members.

An empty or dead group has no members, so their requests are refused before a `Phase` is asked.
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
        """The error code for a heartbeat of a member of this generation."""
        ...

    @property
    def commit(self) -> Code:
        """NONE if a member of this generation may commit offsets now, or else the error."""
        ...

    def admits(self, group: Group, member_id: str, limit: int) -> bool:
        """Whether a known or new member may join a group with at most `limit` members."""
        ...

    def rejoin(self, rebalance: Rebalance, group: Group, member: Member, join: Join, now: Now) -> None:
        """A known member joins."""
        ...

    def replaced(
        self, rebalance: Rebalance, group: Group, member: Member, join: Join, former_leader: str | None, now: Now
    ) -> None:
        """A process joined with the instance id of a static member, and replaced it as `member`."""
        ...

    def sync(
        self, rebalance: Rebalance, group: Group, member: Member, request: SyncGroupRequest, caller: Caller, now: Now
    ) -> None:
        """A member of this generation asks for its assignment; the leader also brings all assignments."""
        ...

    def left(self, rebalance: Rebalance, group: Group, now: Now) -> Emptied | None:
        """Members have left with LeaveGroup."""
        ...
