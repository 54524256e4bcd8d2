"""PreparingRebalance: the group waits until its members have joined."""

from __future__ import annotations

from typing import Final

from highwater.effects import Caller, Now
from highwater.errors import Code
from highwater.groups.group import Group
from highwater.groups.member import Join, Member
from highwater.groups.rebalance import Emptied, Rebalance
from highwater.wire.messages.sync_group_request import SyncGroupRequest
from highwater.wire.messages.sync_group_response import SyncGroupResponse


class Preparing:
    heartbeat: Final = Code.REBALANCE_IN_PROGRESS
    commit: Final = Code.NONE
    """A member may still commit offsets before it gives up its partitions."""

    def admits(self, group: Group, member_id: str, limit: int) -> bool:
        # The limit counts members that have joined again, and not all members. If the limit was lowered, the group is
        # too large, and the members that come last are refused.
        return member_id in group.joining or len(group.joining) < limit

    def rejoin(self, rebalance: Rebalance, group: Group, member: Member, join: Join, now: Now) -> None:
        rebalance.rejoin(group, member, join, now)

    def replaced(
        self, rebalance: Rebalance, group: Group, member: Member, join: Join, former_leader: str | None, now: Now
    ) -> None:
        rebalance.rejoin(group, member, join, now)

    def sync(
        self, rebalance: Rebalance, group: Group, member: Member, request: SyncGroupRequest, caller: Caller, now: Now
    ) -> None:
        rebalance.outbox.answer(caller, SyncGroupResponse(error_code=Code.REBALANCE_IN_PROGRESS))

    def left(self, rebalance: Rebalance, group: Group, now: Now) -> Emptied | None:
        return rebalance.finish(group, now)
