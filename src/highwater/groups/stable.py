"""Stable: every member has its assignment, or can fetch it."""

from __future__ import annotations

from typing import Final

from highwater.effects import Caller, Now
from highwater.errors import Code
from highwater.groups.group import Group
from highwater.groups.member import Join, Member
from highwater.groups.rebalance import Emptied, Rebalance
from highwater.groups.records import group_record
from highwater.groups.refusals import refused_join, translated
from highwater.groups.states import State
from highwater.wire.messages.join_group_response import JoinGroupResponse
from highwater.wire.messages.sync_group_request import SyncGroupRequest

_SKIP_ASSIGNMENT_VERSION: Final = 9


class MemberIdStored:
    """The new id of a static member that came back is being written. If that fails, the member gets an error, retries
    and gets another id. The first id is not taken back: no client has it, so no client can use it."""

    def __init__(self, rebalance: Rebalance, group: Group, member: Member, response: JoinGroupResponse) -> None:
        self._rebalance = rebalance
        self._group = group
        self._member = member
        self._response = response

    def committed(self, now: Now) -> None:
        self._answer(self._response, now)

    def failed(self, code: Code, now: Now) -> None:
        self._answer(refused_join(translated(code), ""), now)

    def overdue(self, code: Code, now: Now) -> None:
        self._answer(refused_join(translated(code), ""), now)

    def _answer(self, response: JoinGroupResponse, now: Now) -> None:
        # If a rebalance has begun, the member waits for its end.
        stands = self._group.state is State.STABLE and self._group.generation == self._response.generation_id
        if stands and self._member.id in self._group.joining:
            self._rebalance.answer_joining(self._group, self._member.id, response)
            self._rebalance.renew(self._group, self._member, now)


class Stable:
    heartbeat: Final = Code.NONE
    commit: Final = Code.NONE

    def admits(self, group: Group, member_id: str, limit: int) -> bool:
        return member_id in group.members or len(group.members) < limit

    def rejoin(self, rebalance: Rebalance, group: Group, member: Member, join: Join, now: Now) -> None:
        # The leader may see changes that are in no member's metadata, such as a topic with more partitions. It asks for
        # a rebalance by joining. Cooperative members (KIP-429) join again with other metadata, so that the partitions
        # that they gave up are assigned.
        if member.id == group.leader or join.protocols != member.protocols:
            rebalance.rejoin(group, member, join, now)
        else:
            rebalance.outbox.answer(join.caller, rebalance.joined(group, member, join.caller))

    def replaced(
        self, rebalance: Rebalance, group: Group, member: Member, join: Join, former_leader: str | None, now: Now
    ) -> None:
        rebalance.update(group, member, join)
        if group.choose_protocol() != group.protocol:
            rebalance.prepare(group, now)
            return
        assignments = {each.id: each.assignment for each in group.members.values()}
        response = self._unchanged(rebalance, group, member, join.caller, former_leader)
        stored = MemberIdStored(rebalance, group, member, response)
        rebalance.outbox.write([group_record(group, assignments)], stored)

    def _unchanged(
        self, rebalance: Rebalance, group: Group, member: Member, caller: Caller, former_leader: str | None
    ) -> JoinGroupResponse:
        """The assignment stays. A leader that came back must watch the topics again, but must not assign them
        (KIP-814). If the client's version is too old for that, the response names its former id as the leader."""
        response = rebalance.joined(group, member, caller)
        if caller.version >= _SKIP_ASSIGNMENT_VERSION:
            response.skip_assignment = member.id == group.leader
        else:
            response.leader = former_leader or ""
            response.members = []
        return response

    def sync(
        self, rebalance: Rebalance, group: Group, member: Member, request: SyncGroupRequest, caller: Caller, now: Now
    ) -> None:
        rebalance.has_synced(group, member.id)
        rebalance.outbox.answer(caller, rebalance.synced(group, member))

    def left(self, rebalance: Rebalance, group: Group, now: Now) -> Emptied | None:
        return rebalance.prepare(group, now)
