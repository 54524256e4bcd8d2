"""How the leader's assignment reaches the members: stored first, once in a generation, or not at all."""

from __future__ import annotations

import pytest

from highwater.errors import Code
from highwater.wire.messages.sync_group_response import SyncGroupResponse
from tests.unit.groups.bench import Bench, subscription


def completing_group(bench: Bench, size: int = 2) -> list[str]:
    tokens = [bench.ask_join(bench.new_id()) for _ in range(size)]
    bench.pass_time(6)
    return [bench.joined(token).member_id for token in tokens]


def test_no_member_gets_an_assignment_before_it_is_committed() -> None:
    bench = Bench()
    leader, other = completing_group(bench)
    bench.holds = True
    tokens = [bench.ask_sync(other, 1), bench.ask_sync(leader, 1, {leader: b"one", other: b"two"})]
    assert all(bench.waits(token) for token in tokens)
    assert bench.state() == "CompletingRebalance"
    bench.commit()
    assert [bench.assignment(token) for token in tokens] == [b"two", b"one"]
    assert bench.state() == "Stable"


def test_a_member_that_the_leader_forgot_gets_nothing() -> None:
    bench = Bench()
    leader, other = completing_group(bench)
    bench.ask_sync(leader, 1, {leader: b"all"})
    assert bench.assignment(bench.ask_sync(other, 1)) == b""


def test_in_a_stable_group_the_assignment_can_be_asked_for_again() -> None:
    bench = Bench()
    leader, other = bench.stable_group(2)
    answer = bench.answer(bench.ask_sync(other, 1, {other: b"more"}), SyncGroupResponse)
    assert (answer.assignment, answer.protocol_type, answer.protocol_name) == (other.encode(), "consumer", "range")
    assert bench.assignment(bench.ask_sync(leader, 1, {other: b"more"})) == leader.encode()


def test_a_generation_has_one_assignment_even_if_the_leader_sends_two() -> None:
    bench = Bench()
    leader, other = completing_group(bench)
    bench.holds = True
    first = bench.ask_sync(leader, 1, {leader: b"a", other: b"b"})
    second = bench.ask_sync(leader, 1, {leader: b"c", other: b"d"})
    assert bench.refusal(first) is Code.REBALANCE_IN_PROGRESS
    bench.commit_all()
    assert bench.assignment(second) == b"a"
    bench.fail_over()
    assert bench.assignment(bench.ask_sync(other, 1)) == b"b"


def test_an_assignment_that_a_rebalance_overtook_is_not_handed_out() -> None:
    bench = Bench()
    leader, other = completing_group(bench)
    bench.holds = True
    waiting = bench.ask_sync(leader, 1, {leader: b"a", other: b"b"})
    bench.ask_join(other, {"range": subscription("more")})
    assert bench.refusal(waiting) is Code.REBALANCE_IN_PROGRESS
    assert bench.joined(bench.ask_join(leader)).generation_id == 2
    later = bench.ask_sync(other, 2)
    bench.commit()
    assert bench.waits(later), "what was meant for generation 1 is not for generation 2"
    assert bench.state() == "CompletingRebalance"


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Code.NOT_ENOUGH_REPLICAS, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.REQUEST_TIMED_OUT, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.NOT_LEADER_OR_FOLLOWER, Code.NOT_COORDINATOR),
        (Code.KAFKA_STORAGE_ERROR, Code.NOT_COORDINATOR),
        (Code.MESSAGE_TOO_LARGE, Code.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_assignment_that_cannot_be_written_starts_another_rebalance(failure: Code, code: Code) -> None:
    bench = Bench()
    leader, other = completing_group(bench)
    bench.holds = True
    tokens = [bench.ask_sync(other, 1), bench.ask_sync(leader, 1, {other: b"x"})]
    bench.fail(failure)
    assert [bench.refusal(token) for token in tokens] == [code, code]
    assert bench.state() == "PreparingRebalance"


def test_a_member_that_retries_while_the_assignment_is_overdue_is_answered_when_it_is_overdue_again() -> None:
    bench = Bench()
    token = bench.ask_join(bench.new_id())
    bench.pass_time(6)
    member = bench.joined(token).member_id
    bench.holds = True
    bench.ask_sync(member, 1, {member: b"a"})
    bench.delay()
    retried = bench.ask_sync(member, 1, {member: b"a"})
    assert bench.waits(retried)
    bench.delay()
    assert bench.refusal(retried) is Code.COORDINATOR_NOT_AVAILABLE


def test_while_an_assignment_is_overdue_members_retry_and_get_it_when_it_is_committed() -> None:
    bench = Bench()
    leader, other = completing_group(bench)
    bench.holds = True
    first = bench.ask_sync(leader, 1, {leader: b"a", other: b"b"})
    bench.delay()
    assert bench.refusal(first) is Code.COORDINATOR_NOT_AVAILABLE
    retried = bench.ask_sync(leader, 1, {leader: b"c", other: b"d"})
    assert len(bench.writes) == 1
    bench.commit()
    assert bench.assignment(retried) == b"a"


def test_members_that_never_ask_for_their_assignment_are_dropped() -> None:
    bench = Bench()
    leader, other, silent = completing_group(bench, 3)
    bench.ask_sync(other, 1)
    bench.ask_sync(leader, 1, {leader: b"a"})
    bench.keep_alive(59, 1, leader, other, silent)
    assert bench.state() == "Stable"
    bench.keep_alive(1, 1, leader, other)
    assert bench.state() == "PreparingRebalance"
    assert bench.heartbeat(silent, 1) is Code.UNKNOWN_MEMBER_ID
    assert bench.heartbeat(other, 1) is Code.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_assigns_is_dropped_and_the_others_start_over() -> None:
    bench = Bench()
    leader, other = completing_group(bench)
    waiting = bench.ask_sync(other, 1)
    bench.keep_alive(60, 1, leader)
    assert bench.refusal(waiting) is Code.REBALANCE_IN_PROGRESS
    assert bench.joined(bench.ask_join(other)).leader == other


def test_a_member_that_waits_for_its_assignment_needs_no_heartbeats_but_needs_them_after() -> None:
    bench = Bench()
    leader, other = completing_group(bench)
    waiting = bench.ask_sync(other, 1)
    bench.keep_alive(30, 1, leader)
    bench.ask_sync(leader, 1, {other: b"x"})
    assert bench.assignment(waiting) == b"x"
    bench.keep_alive(9, 1, leader)
    assert bench.state() == "Stable"
    bench.keep_alive(2, 1, leader)
    assert bench.heartbeat(other, 1) is Code.UNKNOWN_MEMBER_ID


def test_a_sync_is_refused_in_every_state_in_which_it_means_nothing() -> None:
    bench = Bench()
    assert bench.refusal(bench.ask_sync("nobody", 1)) is Code.UNKNOWN_MEMBER_ID
    leader, other = bench.stable_group(2)
    assert bench.refusal(bench.ask_sync("stranger", 1)) is Code.UNKNOWN_MEMBER_ID
    assert bench.refusal(bench.ask_sync(other, 0)) is Code.ILLEGAL_GENERATION
    assert bench.refusal(bench.ask_sync(other, 2)) is Code.ILLEGAL_GENERATION
    assert bench.refusal(bench.ask_sync(other, 1, instance="i")) is Code.UNKNOWN_MEMBER_ID
    bench.ask_join(leader)
    assert bench.refusal(bench.ask_sync(other, 1)) is Code.REBALANCE_IN_PROGRESS
    bench.leave(leader, other)
    assert bench.state() == "Empty"
    assert bench.refusal(bench.ask_sync(other, 1)) is Code.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("kind", "protocol"), [("connect", "range"), ("consumer", "sticky")])
def test_a_sync_under_another_protocol_is_refused(kind: str, protocol: str) -> None:
    """KIP-559."""
    bench = Bench()
    _, other = bench.stable_group(2)
    assert bench.refusal(bench.ask_sync(other, 1, kind=kind, protocol=protocol)) is Code.INCONSISTENT_GROUP_PROTOCOL
    assert bench.assignment(bench.ask_sync(other, 1, kind="consumer", protocol="range")) == other.encode()


def test_a_member_that_asks_late_for_its_assignment_stays() -> None:
    bench = Bench()
    leader, other = completing_group(bench)
    bench.ask_sync(leader, 1, {leader: b"l", other: b"o"})
    assert bench.state() == "Stable"
    bench.keep_alive(30, 1, leader, other)
    assert bench.assignment(bench.ask_sync(other, 1)) == b"o"
    bench.keep_alive(60, 1, leader, other)
    assert bench.state() == "Stable"
