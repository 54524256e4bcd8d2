"""How a group gets from one generation to the next: waiting for members, dropping the absent, and telling all of it."""

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
"""A client may ask for a rebalance time-out of nothing, and a deadline that sets itself anew must not spin."""


class Emptied:
    """The record of a group that lost its last member. If it is not written, an heir of this coordinator finds the
    old generation, whose members will not be heard of: safe, so nothing is undone."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._leaving: tuple[Caller, list[MemberResponse]] | None = None

    def tell(self, caller: Caller, answers: list[MemberResponse]) -> None:
        """The LeaveGroup that emptied the group is answered when the record is committed."""
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
    """Acts on any group of a shard. What it returns is the record of a group that came out empty, if it did."""

    def __init__(self, settings: GroupSettings, deadlines: Deadlines, outbox: Outbox, has_room: HasRoom) -> None:
        self.settings = settings
        self.outbox = outbox
        self.has_room = has_room
        self._deadlines = deadlines

    # Members

    def admit(self, group: Group, member_id: str, join: Join, now: Now) -> None:
        """A new member: the group rebalances, or the rebalance under way has one more."""
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
        """What the member says now counts, and it waits for the next generation; one JoinGroup of each member does."""
        group.update(member, join)
        self.tell_joining(group, member.id, refused_join(Code.REBALANCE_IN_PROGRESS, member.id))
        group.joining[member.id] = join.caller

    def expect(self, group: Group, member_id: str, session_timeout_ms: int, now: Now) -> None:
        """An id was given out; whoever got it is to come back with it (KIP-394)."""
        group.expect(member_id)
        self._deadlines.set(Session(group.id, member_id), now.monotonic + session_timeout_ms / 1000)

    def forget(self, group: Group, member_id: str) -> None:
        group.forget(member_id)
        self._deadlines.cancel(Session(group.id, member_id))

    def renew(self, group: Group, member: Member, now: Now, timeout_ms: int | None = None) -> None:
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        self._deadlines.set(Session(group.id, member.id), now.monotonic + timeout_ms / 1000)

    def drop(self, group: Group, member_id: str, code: Code = Code.UNKNOWN_MEMBER_ID) -> None:
        """Removes a member. If it waits for something, the answer tells it to begin anew."""
        self._deadlines.cancel(Session(group.id, member_id))
        self.tell_joining(group, member_id, refused_join(code, ""))
        self.tell_syncing(group, member_id, SyncGroupResponse(error_code=code))
        group.remove(member_id)

    def replace(self, group: Group, old: Member, new_id: str, now: Now) -> Member:
        """Another process has the instance id now: the former one is fenced wherever it waits (KIP-345)."""
        self._deadlines.cancel(Session(group.id, old.id))
        self.tell_joining(group, old.id, refused_join(Code.FENCED_INSTANCE_ID, old.id))
        self.tell_syncing(group, old.id, SyncGroupResponse(error_code=Code.FENCED_INSTANCE_ID))
        new = group.replace(old, new_id)
        self.renew(group, new, now)
        return new

    def tell_joining(self, group: Group, member_id: str, response: JoinGroupResponse) -> None:
        caller = group.joining.pop(member_id, None)
        if caller is not None:
            self.outbox.answer(caller, response)

    def tell_syncing(self, group: Group, member_id: str, response: SyncGroupResponse) -> bool:
        caller = group.syncing.pop(member_id, None)
        if caller is not None:
            self.outbox.answer(caller, response)
        return caller is not None

    def joined(self, group: Group, member: Member, caller: Caller) -> JoinGroupResponse:
        """The leader, and nobody else, learns who the members are."""
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
        """All members have to join again. A group's first members are given time to find each other (KIP-134)."""
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
        """Ends the wait if all have joined. The first rebalance of a group is held back on purpose."""
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
        """The next generation is of those who joined, and of static members, who are waited for by their session."""
        self._deadlines.cancel(Joining(group.id))
        absent = [m.id for m in group.members.values() if m.id not in group.joining and m.instance_id is None]
        for member_id in absent:
            self.drop(group, member_id)
        if group.members and not group.lead_by_one_who_joined():
            self._wait_for_joins(group, max(group.rebalance_timeout_ms, _SHORTEST_RETRY_MS), now)
            return None
        group.next_generation(now.wall_ms)
        if group.state is State.EMPTY:
            return self._record_empty(group)
        for member in group.members.values():
            caller = group.joining.get(member.id)
            if caller is not None:
                self.tell_joining(group, member.id, self.joined(group, member, caller))
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
        """Nobody gets an assignment of this generation."""
        for member in group.members.values():
            group.assign(member, b"")
            if self.tell_syncing(group, member.id, SyncGroupResponse(error_code=code)):
                self.renew(group, member, now)

    def hand_out(self, group: Group, now: Now) -> None:
        for member in group.members.values():
            # While a member waits its session does not count, and may be over by now.
            if self.tell_syncing(group, member.id, self.synced(group, member)):
                self.renew(group, member, now)

    def has_synced(self, group: Group, member_id: str) -> None:
        group.unsynced.pop(member_id, None)
        if not group.unsynced:
            self._deadlines.cancel(Syncing(group.id))

    def syncing_is_over(self, group: Group, now: Now) -> None:
        """Whoever joined and never asked for its assignment would own partitions that nobody reads (KAFKA-9752)."""
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
