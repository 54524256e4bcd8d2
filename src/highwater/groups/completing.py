"""CompletingRebalance: the generation has begun, and the group waits for its leader's assignment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from highwater.effects import Caller, Now
from highwater.errors import Code
from highwater.groups.group import Group
from highwater.groups.member import Join, Member
from highwater.groups.rebalance import Emptied, Rebalance
from highwater.groups.records import group_record
from highwater.groups.refusals import translated
from highwater.groups.states import State
from highwater.wire.messages.sync_group_request import SyncGroupRequest
from highwater.wire.messages.sync_group_response import SyncGroupResponse


class AssignmentStored:
    """The leader's assignment is being written. No member gets it before it is committed. Otherwise the next
    coordinator might assign the same partitions to other members. If the group changes meanwhile, the assignment is
    dropped."""

    def __init__(self, rebalance: Rebalance, group: Group, assignments: Mapping[str, bytes]) -> None:
        self._rebalance = rebalance
        self._group = group
        self._generation = group.generation
        self._assignments = assignments

    def committed(self, now: Now) -> None:
        if self._is_current():
            for member in self._group.members.values():
                self._group.assign(member, self._assignments.get(member.id, b""))
            self._rebalance.hand_out(self._group, now)
            self._group.move(State.STABLE, now.wall_ms)

    def failed(self, code: Code, now: Now) -> None:
        if self._is_current():
            self._rebalance.withhold(self._group, translated(code), now)
            self._rebalance.prepare(self._group, now)

    def overdue(self, code: Code, now: Now) -> None:
        """The members get an error and ask again. They get the assignment then, if it is committed."""
        if self._is_current():
            self._rebalance.withhold(self._group, translated(code), now)

    def _is_current(self) -> bool:
        return self._group.state is State.COMPLETING and self._group.generation == self._generation


class Completing:
    heartbeat: Final = Code.NONE
    """Clients send heartbeats as soon as they have the response to their JoinGroup."""
    commit: Final = Code.REBALANCE_IN_PROGRESS

    def admits(self, group: Group, member_id: str, limit: int) -> bool:
        return member_id in group.members or len(group.members) < limit

    def rejoin(self, rebalance: Rebalance, group: Group, member: Member, join: Join, now: Now) -> None:
        if join.protocols == member.protocols:
            # Most likely it did not get the response to its last JoinGroup.
            rebalance.outbox.answer(join.caller, rebalance.joined(group, member, join.caller))
        else:
            rebalance.rejoin(group, member, join, now)

    def replaced(
        self, rebalance: Rebalance, group: Group, member: Member, join: Join, former_leader: str | None, now: Now
    ) -> None:
        # The leader may already have the former member id, and would assign nothing to the new one.
        rebalance.rejoin(group, member, join, now)

    def sync(
        self, rebalance: Rebalance, group: Group, member: Member, request: SyncGroupRequest, caller: Caller, now: Now
    ) -> None:
        rebalance.answer_syncing(group, member.id, SyncGroupResponse(error_code=Code.REBALANCE_IN_PROGRESS))
        group.syncing[member.id] = caller
        rebalance.has_synced(group, member.id)
        if member.id == group.leader and not group.is_assigned:
            assignments = {each.member_id: each.assignment for each in request.assignments}
            group.is_assigned = group.is_recorded = True
            stored = AssignmentStored(rebalance, group, assignments)
            if rebalance.has_room(group.growth_by_assignments(assignments)):
                rebalance.outbox.write([group_record(group, assignments)], stored)
            else:
                stored.failed(Code.GROUP_MAX_SIZE_REACHED, now)

    def left(self, rebalance: Rebalance, group: Group, now: Now) -> Emptied | None:
        return rebalance.prepare(group, now)
