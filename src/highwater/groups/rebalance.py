"""Moves a group to its next generation: waits for members, drops those that are absent, and answers all of them."""

from __future__ import annotations

from typing import Final

from highwater.effects import Caller, Now, Outbox
from highwater.errors import Code
from highwater.groups.deadlines import Deadlines, Joining, Session, Syncing
from highwater.groups.footprint import HasRoom
from highwater.groups.group import Group
from highwater.groups.member import Join, Member
from highwater.groups.records import group_record
from highwater.groups.refusals import left, refused_join, translated
from highwater.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from highwater.groups.states import State, may_become
from highwater.wire.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from highwater.wire.messages.leave_group_response import MemberResponse
from highwater.wire.messages.sync_group_response import SyncGroupResponse

_SHORTEST_RETRY_MS: Final = 1_000
"""The shortest time before the next attempt: a client may ask for a rebalance timeout of 0."""


class Emptied:
    """The record of a group that lost its last member. If it cannot be written, the next coordinator loads the old
    generation, and the sessions of its members expire. That is safe, so nothing is undone."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._leaving: tuple[Caller, list[MemberResponse]] | None = None

    def answer_later(self, caller: Caller, answers: list[MemberResponse]) -> None:
        """Answers the LeaveGroup that emptied the group when the record is committed."""
        self._leaving = (caller, answers)

    def committed(self, now: Now) -> None:
        self._answer(Code.NONE)

    def failed(self, code: Code, now: Now) -> None:
        self._answer(code)

    def overdue(self, code: Code, now: Now) -> None:
        self._answer(code)

    def _answer(self, code: Code) -> None:
        if self._leaving is not None:
            caller, answers = self._leaving
            self._leaving = None
            self._outbox.answer(caller, left(caller, answers, translated(code)))


class Rebalance:
    """Acts on any group of a shard. Methods that may empty a group return its record, or None."""

    def __init__(self, settings: GroupSettings, deadlines: Deadlines, outbox: Outbox, has_room: HasRoom) -> None:
        self.settings = settings
        self.outbox = outbox
        self.has_room = has_room
        self._deadlines = deadlines

    # Members

    def admit(self, group: Group, member_id: str, join: Join, now: Now) -> None:
        """Adds a new member: the group begins a rebalance, or the member joins the one that is under way."""
        member = Member(
            member_id,
            join.instance_id,
            join.caller.client_id,
            join.caller.client_host,
            join.rebalance_timeout_ms,
            join.session_timeout_ms,
            join.protocols,
            is_new=True,
        )
        if group.state is State.PREPARING and group.came_from is State.EMPTY:
            group.was_joined = True
        group.add(member, join.protocol_type)
        group.joining[member_id] = join.caller
        self.renew(group, member, now, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.prepare_or_finish(group, now)

    def rejoin(self, group: Group, member: Member, join: Join, now: Now) -> None:
        self.update(group, member, join)
        self.prepare_or_finish(group, now)

    def update(self, group: Group, member: Member, join: Join) -> None:
        """Stores the member's new metadata. The member waits for the next generation. Only its last JoinGroup waits; an
        earlier one is answered."""
        group.update(member, join)
        self.answer_joining(group, member.id, refused_join(Code.REBALANCE_IN_PROGRESS, member.id))
        group.joining[member.id] = join.caller

    def expect(self, group: Group, member_id: str, session_timeout_ms: int, now: Now) -> None:
        """A member id was given out. The client has to join again with it (KIP-394)."""
        group.expect(member_id)
        self._deadlines.set(Session(group.id, member_id), now.monotonic + session_timeout_ms / 1000)

    def forget(self, group: Group, member_id: str) -> None:
        group.forget(member_id)
        self._deadlines.cancel(Session(group.id, member_id))

    def renew(self, group: Group, member: Member, now: Now, timeout_ms: int | None = None) -> None:
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        self._deadlines.set(Session(group.id, member.id), now.monotonic + timeout_ms / 1000)

    def drop(self, group: Group, member_id: str, code: Code = Code.UNKNOWN_MEMBER_ID) -> None:
        """Removes a member. If one of its requests waits, the response has `code`, and the client joins anew."""
        self._deadlines.cancel(Session(group.id, member_id))
        self.answer_joining(group, member_id, refused_join(code, ""))
        self.answer_syncing(group, member_id, SyncGroupResponse(error_code=code))
        group.remove(member_id)

    def replace(self, group: Group, old: Member, new_id: str, now: Now) -> Member:
        """Another process has the instance id now. Waiting requests of the former one are fenced (KIP-345)."""
        self._deadlines.cancel(Session(group.id, old.id))
        self.answer_joining(group, old.id, refused_join(Code.FENCED_INSTANCE_ID, old.id))
        self.answer_syncing(group, old.id, SyncGroupResponse(error_code=Code.FENCED_INSTANCE_ID))
        new = group.replace(old, new_id)
        self.renew(group, new, now)
        return new

    def answer_joining(self, group: Group, member_id: str, response: JoinGroupResponse) -> None:
        caller = group.joining.pop(member_id, None)
        if caller is not None:
            self.outbox.answer(caller, response)

    def answer_syncing(self, group: Group, member_id: str, response: SyncGroupResponse) -> bool:
        caller = group.syncing.pop(member_id, None)
        if caller is not None:
            self.outbox.answer(caller, response)
        return caller is not None

    def joined(self, group: Group, member: Member, caller: Caller) -> JoinGroupResponse:
        """The response to a JoinGroup. Only the leader gets the list of members."""
        members = group.members.values() if member.id == group.leader else ()
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol if group.protocol is not None or caller.version >= 7 else "",
            leader=group.leader or "",
            member_id=member.id,
            members=[
                JoinGroupResponseMember(
                    member_id=each.id, group_instance_id=each.instance_id, metadata=each.metadata(group.protocol)
                )
                for each in members
            ],
        )

    def synced(self, group: Group, member: Member) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
        )

    # Preparing

    def prepare_or_finish(self, group: Group, now: Now) -> Emptied | None:
        return self.prepare(group, now) if may_become(group.state, State.PREPARING) else self.finish(group, now)

    def prepare(self, group: Group, now: Now) -> Emptied | None:
        """All members have to join again. The first rebalance of an empty group is delayed, so that more members can
        join (KIP-134)."""
        if group.state is State.COMPLETING:
            self.withhold(group, Code.REBALANCE_IN_PROGRESS, now)
        group.unsynced.clear()
        self._deadlines.cancel(Syncing(group.id))
        group.move(State.PREPARING, now.wall_ms)
        if group.came_from is State.EMPTY:
            group.was_joined = False
            group.delay_ms = self.settings.initial_rebalance_delay_ms
            group.delay_left_ms = max(group.rebalance_timeout_ms - group.delay_ms, 0)
            self._wait_for_joins(group, group.delay_ms, now)
            return None
        if group.has_all_joined:
            return self.complete(group, now)
        self._wait_for_joins(group, group.rebalance_timeout_ms, now)
        return None

    def finish(self, group: Group, now: Now) -> Emptied | None:
        """Ends the wait if all members have joined, except for the first rebalance of a group, which is delayed on
        purpose."""
        held_back = group.came_from is State.EMPTY
        return None if held_back else self.finish_now(group, now)

    def finish_now(self, group: Group, now: Now) -> Emptied | None:
        if group.state is State.PREPARING and group.has_all_joined:
            return self.complete(group, now)
        return None

    def joining_is_over(self, group: Group, now: Now) -> None:
        if group.state is not State.PREPARING:
            return
        if group.came_from is State.EMPTY and group.was_joined and group.delay_left_ms:
            group.was_joined = False
            left_ms, group.delay_left_ms = group.delay_left_ms, max(group.delay_left_ms - group.delay_ms, 0)
            group.delay_ms = min(self.settings.initial_rebalance_delay_ms, left_ms)
            self._wait_for_joins(group, group.delay_ms, now)
        else:
            self.complete(group, now)

    def complete(self, group: Group, now: Now) -> Emptied | None:
        """Begins the next generation. It has the members that joined, and all static members: those are removed only
        when their session is over."""
        self._deadlines.cancel(Joining(group.id))
        absent = [m.id for m in group.members.values() if m.id not in group.joining and m.instance_id is None]
        for member_id in absent:
            self.drop(group, member_id)
        if group.members and not group.choose_joined_leader():
            self._wait_for_joins(group, max(group.rebalance_timeout_ms, _SHORTEST_RETRY_MS), now)
            return None
        group.next_generation(now.wall_ms)
        if group.state is State.EMPTY:
            return self._record_empty(group)
        for member in group.members.values():
            caller = group.joining.get(member.id)
            if caller is not None:
                self.answer_joining(group, member.id, self.joined(group, member, caller))
            self.renew(group, member, now)
            member.is_new = False
        self._deadlines.set(Syncing(group.id), now.monotonic + group.rebalance_timeout_ms / 1000)
        return None

    def _record_empty(self, group: Group) -> Emptied:
        emptied = Emptied(self.outbox)
        group.is_recorded = True
        self.outbox.write([group_record(group, {})], emptied)
        return emptied

    def _wait_for_joins(self, group: Group, timeout_ms: int, now: Now) -> None:
        self._deadlines.set(Joining(group.id), now.monotonic + timeout_ms / 1000)

    # Completing

    def withhold(self, group: Group, code: Code, now: Now) -> None:
        """No member gets an assignment of this generation. Waiting SyncGroup requests are answered with `code`."""
        for member in group.members.values():
            group.assign(member, b"")
            if self.answer_syncing(group, member.id, SyncGroupResponse(error_code=code)):
                self.renew(group, member, now)

    def hand_out(self, group: Group, now: Now) -> None:
        for member in group.members.values():
            # A member's session does not count while its request waits, and may be over by now.
            if self.answer_syncing(group, member.id, self.synced(group, member)):
                self.renew(group, member, now)

    def has_synced(self, group: Group, member_id: str) -> None:
        group.unsynced.pop(member_id, None)
        if not group.unsynced:
            self._deadlines.cancel(Syncing(group.id))

    def syncing_is_over(self, group: Group, now: Now) -> None:
        """Removes members that never asked for their assignment: no consumer would read their partitions
        (KAFKA-9752)."""
        if group.state in (State.COMPLETING, State.STABLE) and group.unsynced:
            for member_id in list(group.unsynced):
                self.drop(group, member_id)
            self.prepare(group, now)

    # Going

    def session_is_over(self, group: Group, member_id: str, now: Now) -> None:
        if member_id in group.pending:
            self.forget(group, member_id)
            self.finish_now(group, now)
            return
        member = group.members.get(member_id)
        if member is None:
            return
        waits = member_id in group.joining or member_id in group.syncing
        if member.is_new or not waits:
            self.drop(group, member_id)
            self.gone(group, now)

    def gone(self, group: Group, now: Now) -> Emptied | None:
        if may_become(group.state, State.PREPARING):
            return self.prepare(group, now)
        return self.finish_now(group, now)
