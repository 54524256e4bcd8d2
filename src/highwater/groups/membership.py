"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from highwater.effects import Caller, Now
from highwater.errors import Code
from highwater.groups.completing import Completing
from highwater.groups.group import Group
from highwater.groups.member import Join
from highwater.groups.phase import Phase
from highwater.groups.preparing import Preparing
from highwater.groups.rebalance import Rebalance
from highwater.groups.refusals import left, refused_join
from highwater.groups.registry import Registry
from highwater.groups.stable import Stable
from highwater.groups.states import State
from highwater.wire.messages.heartbeat_request import HeartbeatRequest
from highwater.wire.messages.heartbeat_response import HeartbeatResponse
from highwater.wire.messages.join_group_request import JoinGroupRequest
from highwater.wire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from highwater.wire.messages.leave_group_response import MemberResponse
from highwater.wire.messages.sync_group_request import SyncGroupRequest
from highwater.wire.messages.sync_group_response import SyncGroupResponse

PHASES: Final[dict[State, Phase]] = {
    State.PREPARING: Preparing(),
    State.COMPLETING: Completing(),
    State.STABLE: Stable(),
}

_MEMBER_ID_REQUIRED_VERSION: Final = 4
_LONGEST_PREFIX: Final = 1_024
"""The longest prefix of a member id. A client id may have the largest length of a string in the protocol, and then
nothing could be added to it."""


class Membership:
    def __init__(self, registry: Registry, rebalance: Rebalance, unique: Callable[[], str]) -> None:
        self._registry = registry
        self._rebalance = rebalance
        self._outbox = rebalance.outbox
        self._unique = unique

    # JoinGroup

    def join(self, request: JoinGroupRequest, caller: Caller, now: Now) -> None:
        settings = self._rebalance.settings
        join = Join.of(request, caller)
        if not request.group_id:
            self._refuse(join, Code.INVALID_GROUP_ID, join.member_id)
        elif not settings.min_session_timeout_ms <= join.session_timeout_ms <= settings.max_session_timeout_ms:
            self._refuse(join, Code.INVALID_SESSION_TIMEOUT, join.member_id)
        elif request.group_id in self._registry.foreign:
            self._refuse(join, Code.INCONSISTENT_GROUP_PROTOCOL, "")
        elif join.member_id and self._registry.get(request.group_id) is None:
            self._refuse(join, Code.UNKNOWN_MEMBER_ID, join.member_id)
        else:
            group = self._registry.get_or_create(request.group_id, now.wall_ms)
            self._join(group, join, now)
            self.forget_if_unused(group)

    def _join(self, group: Group, join: Join, now: Now) -> None:
        phase = PHASES.get(group.state)
        if group.state is State.DEAD:
            self._refuse(join, Code.COORDINATOR_NOT_AVAILABLE, join.member_id)
        elif phase is not None and not self._admits(phase, group, join):
            self._turn_away(group, join, now)
        elif not group.supports(join.protocol_type, join.protocols):
            self._refuse(join, Code.INCONSISTENT_GROUP_PROTOCOL, join.member_id)
        elif not self._rebalance.has_room(group.growth_by(join)):
            self._turn_away(group, join, now)
        elif join.member_id:
            self._join_known(group, join, now)
        elif join.instance_id is not None:
            self._join_static(group, join, join.instance_id, now)
        elif join.caller.version >= _MEMBER_ID_REQUIRED_VERSION:
            # So a client that goes away after its first JoinGroup leaves no member behind (KIP-394).
            if len(group.pending) >= self._rebalance.settings.max_size:
                self._refuse(join, Code.GROUP_MAX_SIZE_REACHED, "")
                return
            member_id = self._new_member_id(join)
            self._rebalance.expect(group, member_id, join.session_timeout_ms, now)
            self._refuse(join, Code.MEMBER_ID_REQUIRED, member_id)
        else:
            self._rebalance.admit(group, self._new_member_id(join), join, now)

    def _admits(self, phase: Phase, group: Group, join: Join) -> bool:
        return phase.admits(group, join.member_id, self._rebalance.settings.max_size) and group.has_room(join)

    def _turn_away(self, group: Group, join: Join, now: Now) -> None:
        if join.member_id in group.members:
            self._rebalance.drop(group, join.member_id, Code.GROUP_MAX_SIZE_REACHED)
            self._rebalance.prepare_or_finish(group, now)
        self._refuse(join, Code.GROUP_MAX_SIZE_REACHED, "")

    def _join_static(self, group: Group, join: Join, instance_id: str, now: Now) -> None:
        member_id = self._new_member_id(join)
        former = group.instances.get(instance_id)
        if former is None:
            self._rebalance.admit(group, member_id, join, now)
            return
        leader = group.leader
        member = self._rebalance.replace(group, group.members[former], member_id, now)
        PHASES[group.state].replaced(self._rebalance, group, member, join, leader, now)

    def _join_known(self, group: Group, join: Join, now: Now) -> None:
        if join.member_id in group.pending and join.instance_id is None:
            self._rebalance.admit(group, join.member_id, join, now)
            return
        refusal = group.refusal_of(join.member_id, join.instance_id)
        if refusal:
            self._refuse(join, refusal, join.member_id)
        else:
            PHASES[group.state].rejoin(self._rebalance, group, group.members[join.member_id], join, now)

    def _new_member_id(self, join: Join) -> str:
        prefix = join.caller.client_id if join.instance_id is None else join.instance_id
        return f"{prefix[:_LONGEST_PREFIX]}-{self._unique()}"

    def _refuse(self, join: Join, code: Code, member_id: str) -> None:
        self._outbox.answer(join.caller, refused_join(code, member_id))

    def forget_if_unused(self, group: Group) -> None:
        """Removes a group that has no members and no records in the log."""
        if group.state is State.EMPTY and not group.pending and not group.is_recorded:
            self._registry.remove(group.id)

    # SyncGroup

    def sync(self, request: SyncGroupRequest, caller: Caller, now: Now) -> None:
        group = self._registry.get(request.group_id)
        refusal = self._refusal_of_sync(group, request)
        if refusal or group is None:
            self._outbox.answer(caller, SyncGroupResponse(error_code=refusal))
        else:
            member = group.members[request.member_id]
            PHASES[group.state].sync(self._rebalance, group, member, request, caller, now)

    def _refusal_of_sync(self, group: Group | None, request: SyncGroupRequest) -> Code:
        refusal = self._refusal_of(
            group, request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
        if refusal or group is None:
            return refusal
        # Both fields are set from version 5 on (KIP-559).
        same_type = request.protocol_type in (None, group.protocol_type)
        same_protocol = request.protocol_name in (None, group.protocol)
        return Code.NONE if same_type and same_protocol else Code.INCONSISTENT_GROUP_PROTOCOL

    def _refusal_of(
        self, group: Group | None, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> Code:
        """NONE if this is a member of the current generation, or else the error."""
        if not group_id:
            return Code.INVALID_GROUP_ID
        if group is None:
            return Code.UNKNOWN_MEMBER_ID
        if group.state is State.DEAD:
            return Code.COORDINATOR_NOT_AVAILABLE
        refusal = group.refusal_of(member_id, instance_id)
        if refusal:
            return refusal
        return Code.NONE if generation == group.generation else Code.ILLEGAL_GENERATION

    # Heartbeat

    def heartbeat(self, request: HeartbeatRequest, caller: Caller, now: Now) -> None:
        group = self._registry.get(request.group_id)
        code = self._refusal_of(
            group, request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
        if group is not None and not code:
            self._rebalance.renew(group, group.members[request.member_id], now)
            code = PHASES[group.state].heartbeat
        self._outbox.answer(caller, HeartbeatResponse(error_code=code))

    # LeaveGroup

    def leave(self, request: LeaveGroupRequest, caller: Caller, now: Now) -> None:
        group = self._registry.get(request.group_id)
        identities = request.members if caller.version >= 3 else [MemberIdentity(member_id=request.member_id)]
        if not request.group_id:
            self._outbox.answer(caller, left(caller, (), Code.INVALID_GROUP_ID))
        elif group is not None and group.state is State.DEAD:
            self._outbox.answer(caller, left(caller, (), Code.COORDINATOR_NOT_AVAILABLE))
        elif group is None:
            self._outbox.answer(caller, left(caller, [_left(each, Code.UNKNOWN_MEMBER_ID) for each in identities]))
        else:
            self._leave(group, identities, caller, now)
            self.forget_if_unused(group)

    def _leave(self, group: Group, identities: list[MemberIdentity], caller: Caller, now: Now) -> None:
        size = len(group.members)
        answers = [_left(each, self._remove(group, each)) for each in identities]
        if len(group.members) < size:
            emptied = PHASES[group.state].left(self._rebalance, group, now)
        else:
            # The group may have waited only for a client that was given an id and has left now.
            emptied = self._rebalance.finish(group, now)
        if emptied is not None:
            emptied.answer_later(caller, answers)
        else:
            self._outbox.answer(caller, left(caller, answers))

    def _remove(self, group: Group, identity: MemberIdentity) -> Code:
        member_id = identity.member_id
        if not member_id:
            # By instance id alone: an administrator removes a static member (KIP-345).
            if identity.group_instance_id is None or identity.group_instance_id not in group.instances:
                return Code.UNKNOWN_MEMBER_ID
            member_id = group.instances[identity.group_instance_id]
        elif member_id in group.pending:
            self._rebalance.forget(group, member_id)
            return Code.NONE
        else:
            refusal = group.refusal_of(member_id, identity.group_instance_id)
            if refusal:
                return refusal
        self._rebalance.drop(group, member_id)
        return Code.NONE


def _left(identity: MemberIdentity, code: Code) -> MemberResponse:
    return MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code)
