"""Members with a group.instance.id (KIP-345): they may come back, and only one process speaks for each."""

from __future__ import annotations

import pytest

from highwater.errors import Code
from tests.unit.groups.bench import RANGE, Bench, subscription


def test_a_static_member_needs_no_second_request_to_join() -> None:
    bench = Bench()
    token = bench.ask_join(instance="i")
    bench.pass_time(3)
    assert bench.joined(token).member_id == "i-u1"


def test_a_static_member_that_comes_back_gets_its_assignment_without_a_rebalance() -> None:
    bench = Bench()
    leader, other = bench.stable_group(instances=["a", "b"])
    answer = bench.joined(bench.ask_join(instance="b"))
    assert (answer.generation_id, answer.leader, answer.members, answer.skip_assignment) == (1, leader, [], False)
    assert answer.member_id != other
    assert bench.assignment(bench.ask_sync(answer.member_id, 1, instance="b")) == other.encode()
    assert bench.state() == "Stable"


def test_the_new_id_of_a_static_member_is_answered_when_it_is_committed_and_outlives_the_coordinator() -> None:
    bench = Bench()
    _, other = bench.stable_group(instances=["a", "b"])
    bench.holds = True
    token = bench.ask_join(instance="b")
    assert bench.waits(token)
    bench.commit()
    member = bench.joined(token).member_id
    bench.fail_over()
    assert bench.heartbeat(member, 1, instance="b") is Code.NONE
    assert bench.heartbeat(other, 1, instance="b") is Code.FENCED_INSTANCE_ID


def test_if_the_new_id_cannot_be_stored_the_member_retries_and_succeeds() -> None:
    bench = Bench()
    _, other = bench.stable_group(instances=["a", "b"])
    bench.holds = True
    token = bench.ask_join(instance="b")
    bench.fail(Code.NOT_ENOUGH_REPLICAS)
    assert bench.refusal(token) is Code.COORDINATOR_NOT_AVAILABLE
    bench.holds = False
    again = bench.joined(bench.ask_join(instance="b"))
    assert bench.assignment(bench.ask_sync(again.member_id, 1, instance="b")) == other.encode()


def test_a_leader_that_comes_back_is_asked_to_leave_the_assignment_alone() -> None:
    """KIP-814."""
    bench = Bench()
    leader, other = bench.stable_group(instances=["a", "b"])
    answer = bench.joined(bench.ask_join(instance="a", version=9))
    assert answer.skip_assignment
    assert answer.leader == answer.member_id != leader
    assert [m.member_id for m in answer.members] == [answer.member_id, other]
    assert bench.state() == "Stable"


@pytest.mark.parametrize("version", [5, 6, 7, 8])
def test_a_leader_that_is_too_old_for_that_learns_that_another_leads(version: int) -> None:
    bench = Bench()
    leader, _ = bench.stable_group(instances=["a", "b"])
    answer = bench.joined(bench.ask_join(instance="a", version=version))
    assert (answer.leader, answer.members, answer.generation_id) == (leader, [], 1)
    assert answer.member_id != leader


def test_a_static_member_whose_return_changes_the_protocol_rebalances_the_group() -> None:
    bench = Bench()
    both = {"range": subscription("t"), "sticky": subscription("t")}
    tokens = [bench.ask_join(instance=i, protocols=both) for i in ("a", "b")]
    bench.pass_time(6)
    leader, other = [bench.joined(token).member_id for token in tokens]
    bench.assign(1, [leader, other], leader)
    waiting = bench.ask_join(instance="b", protocols={"sticky": subscription("t")})
    assert bench.state() == "PreparingRebalance"
    bench.ask_join(leader, both, instance="a")
    assert (bench.joined(waiting).protocol_name, bench.joined(waiting).generation_id) == ("sticky", 2)


def test_every_request_of_a_replaced_static_member_is_fenced() -> None:
    bench = Bench()
    leader, old = bench.stable_group(instances=["a", "b"])
    bench.ask_join(instance="b")
    assert bench.heartbeat(old, 1, instance="b") is Code.FENCED_INSTANCE_ID
    assert bench.refusal(bench.ask_sync(old, 1, instance="b")) is Code.FENCED_INSTANCE_ID
    assert bench.refusal(bench.ask_join(old, instance="b")) is Code.FENCED_INSTANCE_ID
    assert bench.leave(instances={"b": old}) == [Code.FENCED_INSTANCE_ID]
    codes = bench.committed_codes(bench.ask_commit({("t", 0): 1}, old, 1, instance="b"))
    assert codes == [Code.FENCED_INSTANCE_ID]
    assert bench.heartbeat(leader, 1, instance="a") is Code.NONE
    assert bench.heartbeat(old, 1) is Code.UNKNOWN_MEMBER_ID, "without the instance id it is nobody"


def test_the_process_that_was_replaced_is_fenced_where_it_waits() -> None:
    bench = Bench()
    first = bench.ask_join(instance="i")
    second = bench.ask_join(instance="i")
    assert bench.refusal(first) is Code.FENCED_INSTANCE_ID
    bench.pass_time(3)
    member = bench.joined(second).member_id
    other = bench.ask_join(instance="j")
    bench.ask_join(member, instance="i")
    bench.joined(other)
    waiting = bench.ask_sync(bench.joined(other).member_id, 2, instance="j")
    replaced = bench.ask_join(instance="j")
    assert bench.refusal(waiting) is Code.FENCED_INSTANCE_ID
    assert bench.state() == "PreparingRebalance", "the leader may have got the id that is gone"
    assert bench.waits(replaced)


def test_an_instance_id_that_no_member_has_is_unknown() -> None:
    bench = Bench()
    leader, _ = bench.stable_group(instances=["a", "b"])
    assert bench.heartbeat(leader, 1, instance="z") is Code.UNKNOWN_MEMBER_ID
    assert bench.refusal(bench.ask_join(leader, instance="z")) is Code.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_to_a_dynamic_member_cannot_be_used_by_a_static_one() -> None:
    bench = Bench()
    bench.stable_group(1)
    pending = bench.new_id()
    assert bench.refusal(bench.ask_join(pending, instance="i")) is Code.UNKNOWN_MEMBER_ID


def test_a_static_member_that_is_absent_from_a_rebalance_stays_until_its_session_ends() -> None:
    bench = Bench()
    a, b = bench.stable_group(instances=["a", "b"])
    waiting = bench.ask_join(a, {"range": subscription("more")}, instance="a")
    for _ in range(59):
        bench.pass_time(1)
        bench.heartbeat(b, 1, instance="b")
    bench.pass_time(1)
    answer = bench.joined(waiting)
    assert [m.member_id for m in answer.members] == [a, b]
    for _ in range(11):
        bench.pass_time(1)
        bench.heartbeat(a, 2, instance="a")
    assert bench.state() == "PreparingRebalance"
    assert bench.heartbeat(b, 2, instance="b") is Code.UNKNOWN_MEMBER_ID


def test_a_leader_that_is_static_and_absent_does_not_lead_the_next_generation() -> None:
    bench = Bench()
    a, b = bench.stable_group(instances=["a", "b"])
    waiting = bench.ask_join(b, {"range": subscription("more")}, instance="b")
    for _ in range(60):
        bench.pass_time(1)
        bench.heartbeat(a, 1, instance="a")
    assert bench.joined(waiting).leader == b


def test_while_only_static_members_are_left_and_none_joins_the_rebalance_waits_on() -> None:
    bench = Bench()
    a, b = bench.stable_group(instances=["a", "b"])
    third = bench.ask_join(bench.new_id())
    bench.leave(bench.shard.describe("orders", 5).members[2].member_id)
    assert bench.refusal(third) is Code.UNKNOWN_MEMBER_ID
    for _ in range(70):
        bench.pass_time(1)
        assert bench.heartbeat(a, 1, instance="a") is Code.REBALANCE_IN_PROGRESS
        assert bench.heartbeat(b, 1, instance="b") is Code.REBALANCE_IN_PROGRESS
    tokens = [bench.ask_join(a, instance="a"), bench.ask_join(b, instance="b")]
    assert {bench.joined(token).generation_id for token in tokens} == {2}


def test_a_static_member_can_be_removed_by_its_instance_id_alone() -> None:
    bench = Bench()
    a, _ = bench.stable_group(instances=["a", "b"])
    assert bench.leave(instances={"b": "", "z": ""}) == [Code.NONE, Code.UNKNOWN_MEMBER_ID]
    assert bench.joined(bench.ask_join(a, instance="a")).generation_id == 2


def test_a_static_member_takes_the_same_place_when_it_comes_back_twice_at_once() -> None:
    bench = Bench()
    _, other = bench.stable_group(instances=["a", "b"])
    bench.holds = True
    first, second = bench.ask_join(instance="b"), bench.ask_join(instance="b")
    assert bench.refusal(first) is Code.FENCED_INSTANCE_ID
    bench.commit_all()
    member = bench.joined(second).member_id
    assert bench.assignment(bench.ask_sync(member, 1, instance="b")) == other.encode()


def test_a_rebalance_that_begins_while_the_new_id_is_written_takes_the_member_in() -> None:
    bench = Bench()
    leader, _ = bench.stable_group(instances=["a", "b"])
    bench.holds = True
    waiting = bench.ask_join(instance="b")
    bench.ask_join(leader, RANGE, instance="a")
    assert bench.joined(waiting).generation_id == 2
    bench.commit()
    assert bench.state() == "CompletingRebalance"


def test_a_member_that_came_back_has_a_session_again() -> None:
    bench = Bench()
    leader, _ = bench.stable_group(instances=["a", "b"])
    bench.holds = True
    waiting = bench.ask_join(instance="b")
    for _ in range(15):
        bench.pass_time(1)
        bench.heartbeat(leader, 1, instance="a")
    assert bench.waits(waiting)
    bench.commit()
    member = bench.joined(waiting).member_id
    for _ in range(10):
        bench.pass_time(1)
        bench.heartbeat(leader, 1, instance="a")
    assert bench.heartbeat(member, 1, instance="b") is Code.UNKNOWN_MEMBER_ID


def test_the_session_of_a_replaced_process_is_not_waited_for() -> None:
    bench = Bench()
    bench.stable_group(instances=["i"])
    ends = bench.shard.next_deadline
    assert ends is not None
    bench.pass_time(5)
    bench.ask_join(instance="i")
    assert bench.shard.next_deadline == ends + 5


def test_while_the_new_id_is_overdue_the_member_is_asked_to_retry() -> None:
    bench = Bench()
    bench.stable_group(instances=["a", "b"])
    bench.holds = True
    token = bench.ask_join(instance="b")
    bench.delay()
    assert bench.refusal(token) is Code.COORDINATOR_NOT_AVAILABLE


def test_a_replacement_must_fetch_the_assignment_of_the_member_it_replaced() -> None:
    bench = Bench()
    tokens = [bench.ask_join(instance=instance) for instance in ("a", "b")]
    bench.pass_time(6)
    leader, other = (bench.joined(token).member_id for token in tokens)
    bench.ask_sync(leader, 1, {leader: b"l", other: b"o"}, instance="a")
    assert bench.state() == "Stable"
    successor = bench.joined(bench.ask_join(instance="b")).member_id
    bench.keep_alive(59, 1, leader, successor)
    assert bench.state() == "Stable"
    bench.keep_alive(1, 1, leader)
    assert bench.state() == "PreparingRebalance"
    assert bench.heartbeat(successor, 1) is Code.UNKNOWN_MEMBER_ID
