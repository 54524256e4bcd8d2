"""How members stay and go: heartbeats in every state, sessions that end, LeaveGroup."""

from __future__ import annotations

import pytest

from highwater.effects import Now
from highwater.errors import Code
from highwater.groups.deadlines import Deadline, Joining, RetentionCheck, Session, Syncing
from highwater.groups.shard import EXPIRED_AT_ONCE
from highwater.wire.messages.leave_group_response import LeaveGroupResponse
from tests.unit.groups.bench import Bench, G


def test_a_heartbeat_is_answered_by_the_state_of_the_group() -> None:
    bench = Bench()
    assert bench.heartbeat("m", 0) is Code.UNKNOWN_MEMBER_ID, "no group"
    token = bench.ask_join(bench.new_id())
    assert bench.heartbeat("m", 0) is Code.UNKNOWN_MEMBER_ID
    bench.pass_time(3)
    member = bench.joined(token).member_id
    assert (bench.state(), bench.heartbeat(member, 1)) == ("CompletingRebalance", Code.NONE)
    bench.assign(1, [member], member)
    assert (bench.state(), bench.heartbeat(member, 1)) == ("Stable", Code.NONE)
    bench.new_id()
    bench.ask_join(member)
    assert (bench.state(), bench.heartbeat(member, 1)) == ("PreparingRebalance", Code.REBALANCE_IN_PROGRESS)
    bench.leave(member)
    bench.pass_time(10)
    assert (bench.state(), bench.heartbeat(member, 1)) == ("Empty", Code.UNKNOWN_MEMBER_ID)
    bench.holds = True
    bench.ask_delete_groups("orders")
    assert (bench.state(), bench.heartbeat(member, 1)) == ("Dead", Code.COORDINATOR_NOT_AVAILABLE)


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_a_heartbeat_of_another_generation_is_refused(generation: int) -> None:
    bench = Bench()
    (member,) = bench.stable_group(1)
    assert bench.heartbeat(member, generation) is Code.ILLEGAL_GENERATION


def test_a_heartbeat_of_another_generation_does_not_prolong_the_session() -> None:
    bench = Bench()
    member, _ = bench.stable_group(2)
    bench.pass_time(9)
    bench.heartbeat(member, 0)
    bench.pass_time(1)
    assert bench.heartbeat(member, 1) is Code.UNKNOWN_MEMBER_ID


def test_a_member_without_heartbeats_is_removed_and_the_others_rebalance() -> None:
    bench = Bench()
    leader, other = bench.stable_group(2)
    bench.pass_time(9.9)
    bench.heartbeat(leader, 1)
    assert bench.state() == "Stable"
    bench.pass_time(0.1)
    assert bench.state() == "PreparingRebalance"
    rejoined = bench.joined(bench.ask_join(leader))
    assert (rejoined.generation_id, [m.member_id for m in rejoined.members]) == (2, [leader])
    assert bench.heartbeat(other, 1) is Code.UNKNOWN_MEMBER_ID


def test_the_last_session_that_ends_leaves_an_empty_group_of_the_next_generation() -> None:
    bench = Bench()
    bench.stable_group(2)
    bench.pass_time(11)
    assert bench.state() == "Empty"
    bench.fail_over()
    assert bench.state() == "Empty"
    token = bench.ask_join(bench.new_id())
    bench.pass_time(3)
    assert bench.joined(token).generation_id == 3


def test_a_member_that_waits_in_a_rebalance_needs_no_heartbeats() -> None:
    bench = Bench()
    leader, slow = bench.stable_group(2)
    waiting = bench.ask_join(leader)
    bench.keep_alive(50, 1, slow)
    assert bench.waits(waiting)
    bench.ask_join(slow)
    assert bench.joined(waiting).generation_id == 2


def test_a_member_that_leaves_is_gone_at_once() -> None:
    bench = Bench()
    leader, other = bench.stable_group(2)
    assert bench.leave(other) == [Code.NONE]
    assert bench.state() == "PreparingRebalance"
    assert bench.heartbeat(other, 1) is Code.UNKNOWN_MEMBER_ID
    assert bench.joined(bench.ask_join(leader)).generation_id == 2


def test_when_the_last_awaited_member_leaves_the_rebalance_ends() -> None:
    bench = Bench()
    leader, other = bench.stable_group(2)
    waiting = bench.ask_join(leader)
    bench.leave(other)
    assert bench.joined(waiting).generation_id == 2


def test_the_last_member_that_leaves_is_answered_when_that_is_committed() -> None:
    bench = Bench()
    members = bench.stable_group(2)
    bench.holds = True
    leaving = bench.ask_leave(*members)
    assert bench.waits(leaving)
    assert bench.state() == "Empty"
    bench.commit()
    assert [m.error_code for m in bench.answer(leaving, LeaveGroupResponse).members] == [0, 0]


def test_if_the_last_leave_cannot_be_written_the_member_gets_an_error() -> None:
    bench = Bench()
    (member,) = bench.stable_group(1)
    bench.holds = True
    leaving = bench.ask_leave(member)
    bench.fail(Code.NOT_ENOUGH_REPLICAS)
    assert bench.refusal(leaving) is Code.COORDINATOR_NOT_AVAILABLE


def test_a_member_that_leaves_while_it_waits_must_join_again() -> None:
    bench = Bench()
    leader, other = bench.stable_group(2)
    joining = bench.ask_join(leader)
    bench.leave(leader)
    assert bench.refusal(joining) is Code.UNKNOWN_MEMBER_ID
    assert bench.joined(bench.ask_join(other)).leader == other


def test_a_member_that_leaves_while_it_waits_for_its_assignment_gets_an_error() -> None:
    bench = Bench()
    tokens = [bench.ask_join(bench.new_id()) for _ in range(2)]
    bench.pass_time(6)
    _, other = [bench.joined(token).member_id for token in tokens]
    waiting = bench.ask_sync(other, 1)
    bench.leave(other)
    assert bench.refusal(waiting) is Code.UNKNOWN_MEMBER_ID


def test_several_leave_in_one_request_and_each_is_answered() -> None:
    bench = Bench()
    leader, other, third = bench.stable_group(3)
    pending = bench.new_id()
    assert bench.leave(other, "stranger", third, pending) == [Code.NONE, Code.UNKNOWN_MEMBER_ID, Code.NONE, Code.NONE]
    assert bench.refusal(bench.ask_join(pending)) is Code.UNKNOWN_MEMBER_ID
    assert bench.joined(bench.ask_join(leader)).generation_id == 2


def test_a_client_that_never_joined_leaves_without_a_rebalance() -> None:
    bench = Bench()
    bench.stable_group(1)
    assert bench.leave(bench.new_id()) == [Code.NONE]
    assert bench.state() == "Stable"


def test_when_an_expected_member_leaves_the_rebalance_ends() -> None:
    bench = Bench()
    (leader,) = bench.stable_group(1)
    expected = bench.new_id()
    waiting = bench.ask_join(leader)
    assert bench.waits(waiting)
    bench.leave(expected)
    assert bench.joined(waiting).generation_id == 2


def test_before_version_3_the_error_of_the_leaving_member_is_the_whole_response() -> None:
    bench = Bench()
    (member,) = bench.stable_group(1)
    assert bench.refusal(bench.ask_leave("stranger", version=2)) is Code.UNKNOWN_MEMBER_ID
    assert bench.refusal(bench.ask_leave("stranger", version=0, group="none")) is Code.UNKNOWN_MEMBER_ID
    assert bench.refusal(bench.ask_leave(member, version=1)) is Code.NONE
    assert bench.state() == "Empty"


def test_a_group_of_static_members_that_are_all_silent_does_not_spin() -> None:
    bench = Bench()
    bench.stable_group(instances=["a", "b"])
    for instance in ("a", "b"):
        bench.joined(bench.ask_join(instance=instance, rebalance_ms=0, session_ms=20_000))
    third = bench.new_id()
    waiting = bench.ask_join(third, rebalance_ms=0)
    bench.leave(third)
    assert bench.refusal(waiting) is Code.UNKNOWN_MEMBER_ID
    bench.pass_time(10)
    assert bench.state() == "PreparingRebalance"
    bench.pass_time(20)
    assert bench.state() == "Empty"


def test_sessions_that_end_together_are_gone_through_some_at_a_time() -> None:
    """Their driver gives way to others in between: the next deadline has passed, so it comes back at once."""
    bench = Bench()
    for _ in range(3 * EXPIRED_AT_ONCE):
        bench.new_id()
    group = bench.shard._registry.get(G)
    assert group is not None
    later = Now(bench.now.monotonic + 60, bench.now.wall_ms + 60_000)
    left = []
    while (due := bench.shard.next_deadline) is not None and due <= later.monotonic:
        bench.do(bench.shard.expired(later))
        left.append(len(group.pending))
    assert left[:3] == [2 * EXPIRED_AT_ONCE, EXPIRED_AT_ONCE, 0]


def test_if_the_last_leave_is_overdue_the_member_gets_one_answer() -> None:
    bench = Bench()
    (member,) = bench.stable_group(1)
    bench.holds = True
    leaving = bench.ask_leave(member)
    bench.delay()
    assert bench.refusal(leaving) is Code.COORDINATOR_NOT_AVAILABLE
    bench.commit()
    assert bench.state() == "Empty"


def test_no_deadline_is_left_when_the_last_member_has_left() -> None:
    bench = Bench()
    members = bench.stable_group(2)
    bench.leave(*members)
    assert bench.shard.next_deadline is not None
    assert bench.shard.next_deadline > bench.now.monotonic + 500, "only offsets are looked at from time to time"


@pytest.mark.parametrize(("version", "named"), [(2, 0), (3, 1), (4, 1)])
def test_from_version_3_on_the_response_names_the_members_that_left(version: int, named: int) -> None:
    bench = Bench()
    (member,) = bench.stable_group(1)
    answer = bench.answer(bench.ask_leave(member, version=version), LeaveGroupResponse)
    assert len(answer.members) == named


def waited_for(bench: Bench) -> set[Deadline]:
    """All deadlines but that of the retention of offsets, which is always there."""
    return set(bench.shard._deadlines._due) - {RetentionCheck()}


def test_each_state_of_a_group_has_only_its_own_deadlines() -> None:
    bench = Bench()
    first = bench.new_id()
    assert waited_for(bench) == {Session(G, first)}
    bench.leave(first)
    assert waited_for(bench) == set()
    first, second = bench.new_id(), bench.new_id()
    bench.ask_join(first)
    assert waited_for(bench) == {Session(G, first), Session(G, second), Joining(G)}
    bench.ask_join(second)
    bench.pass_time(6)
    assert bench.state() == "CompletingRebalance"
    assert waited_for(bench) == {Session(G, first), Session(G, second), Syncing(G)}
    bench.leave(second)
    assert bench.state() == "PreparingRebalance"
    assert waited_for(bench) == {Session(G, first), Joining(G)}
    bench.joined(bench.ask_join(first))
    assert waited_for(bench) == {Session(G, first), Syncing(G)}
    bench.ask_sync(first, 2, {first: b""})
    assert bench.state() == "Stable"
    assert waited_for(bench) == {Session(G, first)}
    bench.leave(first)
    assert waited_for(bench) == set()


def test_each_deadline_comes_when_its_time_is_over() -> None:
    bench = Bench()

    def left() -> float:
        assert bench.shard.next_deadline is not None
        return bench.shard.next_deadline - bench.now.monotonic

    member = bench.new_id(session_ms=400_000)
    assert left() == 400
    joining = bench.ask_join(member, session_ms=400_000)
    assert left() == 3, "others may find the group meanwhile"
    bench.pass_time(3)
    bench.joined(joining)
    assert left() == 60, "the time for members to sync is that for them to join"
    bench.ask_sync(member, 1, {member: b""})
    bench.pass_time(1)
    bench.heartbeat(member, 1)
    assert left() == 400


def test_a_commit_in_a_rebalance_is_as_good_as_a_heartbeat() -> None:
    bench = Bench()
    leader, other = bench.stable_group(2)
    bench.ask_join(leader)
    assert bench.state() == "PreparingRebalance"
    bench.pass_time(8)
    assert bench.committed_codes(bench.ask_commit({("t", 0): 1}, other, 1)) == [Code.NONE]
    bench.pass_time(8)
    assert bench.heartbeat(other, 1) is Code.REBALANCE_IN_PROGRESS
