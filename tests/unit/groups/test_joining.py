"""How a group comes to a generation: who is waited for, how long, who leads, what they speak."""

from __future__ import annotations

import pytest

from highwater.errors import Code
from highwater.groups import GroupSettings
from highwater.groups.member import MOST_SAID, size_of
from highwater.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from highwater.wire.messages.join_group_response import JoinGroupResponse
from tests.unit.groups.bench import RANGE, SESSION_MS, Bench, subscription


def test_a_member_without_an_id_is_given_one_and_asked_to_come_back() -> None:
    bench = Bench()
    first = bench.answer(bench.ask_join(client="app"), JoinGroupResponse)
    assert (Code(first.error_code), first.member_id) == (Code.MEMBER_ID_REQUIRED, "app-u1")
    assert bench.waits(bench.ask_join("app-u1"))


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_before_version_4_a_member_is_in_at_once(version: int) -> None:
    bench = Bench()
    token = bench.ask_join(version=version)
    bench.pass_time(3)
    assert bench.joined(token).member_id == "client-u1"


def test_version_0_has_one_timeout_for_session_and_rebalance() -> None:
    """KIP-62."""
    bench = Bench()
    tokens = [bench.ask_join(version=0, session_ms=7_000, rebalance_ms=-1) for _ in range(2)]
    bench.pass_time(7)
    leader, other = [bench.joined(token).member_id for token in tokens]
    bench.assign(1, [leader, other], leader)
    again = bench.ask_join(leader, version=0, session_ms=7_000, rebalance_ms=-1)
    bench.keep_alive(6, 1, other)
    assert bench.waits(again)
    bench.keep_alive(1, 1, other)
    assert [m.member_id for m in bench.joined(again).members] == [leader]


def test_an_id_that_is_not_used_within_the_session_is_void() -> None:
    bench = Bench()
    member = bench.new_id(session_ms=6_000)
    bench.pass_time(5.9)
    assert bench.state() == "Empty"
    bench.pass_time(0.2)
    assert bench.refusal(bench.ask_join(member)) is Code.UNKNOWN_MEMBER_ID
    assert bench.state() == "Dead", "of a group that nobody is in and the log does not know, nothing is left"


def test_the_first_rebalance_is_held_back_and_extended_while_members_come() -> None:
    bench = Bench(GroupSettings(initial_rebalance_delay_ms=3_000))
    tokens = [bench.ask_join(version=3, rebalance_ms=10_000)]
    for _ in range(2):
        bench.pass_time(2.9)
        tokens.append(bench.ask_join(version=3, rebalance_ms=10_000))
    bench.pass_time(3.1)
    assert all(bench.waits(token) for token in tokens), "somebody came in the second delay, so there is a third"
    bench.pass_time(0.2)
    assert {bench.joined(token).generation_id for token in tokens} == {1}


def test_the_first_rebalance_is_not_held_back_beyond_the_rebalance_timeout() -> None:
    bench = Bench(GroupSettings(initial_rebalance_delay_ms=3_000))
    first = bench.ask_join(version=3, rebalance_ms=7_000)
    for _ in range(6):
        bench.pass_time(1)
        bench.ask_join(version=3, rebalance_ms=7_000)
    bench.pass_time(0.9)
    assert bench.waits(first)
    bench.pass_time(0.2)
    assert len(bench.joined(first).members) == 7


def test_without_a_delay_the_first_rebalance_ends_at_once() -> None:
    bench = Bench(GroupSettings(initial_rebalance_delay_ms=0))
    token = bench.ask_join(version=3)
    bench.pass_time(0)
    assert bench.joined(token).generation_id == 1


def test_the_first_member_leads_and_only_it_gets_the_list_of_members() -> None:
    bench = Bench()
    tokens = [bench.ask_join(bench.new_id()) for _ in range(3)]
    bench.pass_time(6)
    leader, *others = [bench.joined(token) for token in tokens]
    assert {answer.leader for answer in (leader, *others)} == {leader.member_id}
    assert [m.member_id for m in leader.members] == [leader.member_id, *(other.member_id for other in others)]
    assert [m.metadata for m in leader.members] == [RANGE["range"]] * 3
    assert all(not other.members for other in others)


def test_a_new_member_makes_the_others_join_again() -> None:
    bench = Bench()
    leader, other = bench.stable_group(2)
    third = bench.ask_join(bench.new_id())
    assert bench.state() == "PreparingRebalance"
    assert bench.heartbeat(leader, 1) is Code.REBALANCE_IN_PROGRESS
    again = [bench.ask_join(leader), bench.ask_join(other)]
    assert {bench.joined(token).generation_id for token in (third, *again)} == {2}
    assert len(bench.joined(again[0]).members) == 3


def test_members_that_do_not_join_again_in_time_are_dropped() -> None:
    bench = Bench()
    leader, absent = bench.stable_group(2)
    rejoined = bench.ask_join(leader)
    for _ in range(6):
        bench.pass_time(9.9)
        assert bench.heartbeat(absent, 1) is Code.REBALANCE_IN_PROGRESS
    assert bench.waits(rejoined)
    bench.pass_time(0.7)
    assert [m.member_id for m in bench.joined(rejoined).members] == [leader]
    assert bench.heartbeat(absent, 1) is Code.UNKNOWN_MEMBER_ID


def test_if_the_leader_is_dropped_a_joined_member_leads() -> None:
    bench = Bench()
    leader, second, third = bench.stable_group(3)
    late = bench.ask_join(third, {"range": subscription("t", "more")})
    bench.keep_alive(59, 1, leader, second)
    bench.pass_time(2)
    assert bench.joined(late).leader == third


def test_a_new_member_that_waits_too_long_is_refused() -> None:
    bench = Bench()
    leader, slow = bench.stable_group(2)
    bench.ask_join(leader, {"range": subscription("u")}, rebalance_ms=3_600_000)
    waiting = bench.ask_join(version=3)
    bench.keep_alive(299, 1, slow)
    assert bench.waits(waiting)
    bench.keep_alive(1, 1, slow)
    assert bench.refusal(waiting) is Code.UNKNOWN_MEMBER_ID


def test_a_member_that_missed_the_answer_gets_it_again() -> None:
    bench = Bench()
    token = bench.ask_join(bench.new_id())
    bench.pass_time(3)
    first = bench.joined(token)
    assert bench.joined(bench.ask_join(first.member_id)) == first
    assert bench.state() == "CompletingRebalance"


def test_a_second_join_of_a_member_takes_the_place_of_the_first() -> None:
    bench = Bench()
    leader, _ = bench.stable_group(2)
    first = bench.ask_join(leader)
    second = bench.ask_join(leader)
    assert bench.refusal(first) is Code.REBALANCE_IN_PROGRESS
    assert bench.waits(second)


def test_an_unchanged_follower_that_joins_a_stable_group_changes_nothing() -> None:
    bench = Bench()
    leader, follower = bench.stable_group(2)
    answer = bench.joined(bench.ask_join(follower))
    assert (answer.generation_id, answer.leader, answer.members) == (1, leader, [])
    assert bench.state() == "Stable"


def test_the_leader_rebalances_a_stable_group_by_joining() -> None:
    bench = Bench()
    leader, _ = bench.stable_group(2)
    assert bench.waits(bench.ask_join(leader))
    assert bench.state() == "PreparingRebalance"


def test_a_follower_with_other_metadata_rebalances_a_stable_group() -> None:
    """Cooperative consumers do so when they have given partitions up (KIP-429)."""
    bench = Bench()
    leader, follower = bench.stable_group(2)
    changed = bench.ask_join(follower, {"range": subscription("t", "other")})
    assert bench.state() == "PreparingRebalance"
    bench.ask_join(leader)
    assert bench.joined(changed).generation_id == 2


def test_a_member_that_changes_while_the_leader_assigns_starts_over() -> None:
    bench = Bench()
    tokens = [bench.ask_join(bench.new_id()) for _ in range(2)]
    bench.pass_time(6)
    leader, other = [bench.joined(token).member_id for token in tokens]
    waiting = bench.ask_sync(other, 1)
    bench.ask_join(leader, {"range": subscription("more")})
    assert bench.refusal(waiting) is Code.REBALANCE_IN_PROGRESS
    assert bench.state() == "PreparingRebalance"


def test_the_protocol_with_most_votes_among_those_that_all_know_is_chosen() -> None:
    bench = Bench()
    said = [("a", "b", "c"), ("c", "b"), ("b", "c"), ("c", "x", "b"), ("c", "b")]
    tokens = [bench.ask_join(protocols={name: name.encode() for name in names}, version=3) for names in said]
    bench.pass_time(9)
    assert {bench.joined(token).protocol_name for token in tokens} == {"c"}
    assert {m.metadata for m in bench.joined(tokens[0]).members} == {b"c"}


@pytest.mark.parametrize(
    ("protocols", "kind"),
    [({"sticky": b""}, "consumer"), (RANGE, "connect"), ({}, "consumer"), (RANGE, "")],
)
def test_a_member_that_has_nothing_in_common_with_the_group_is_refused(protocols: dict[str, bytes], kind: str) -> None:
    bench = Bench()
    bench.stable_group(1)
    assert bench.refusal(bench.ask_join(protocols=protocols, kind=kind)) is Code.INCONSISTENT_GROUP_PROTOCOL
    if not (protocols and kind):
        assert bench.refusal(bench.ask_join(protocols=protocols, kind=kind, group="new")) is (
            Code.INCONSISTENT_GROUP_PROTOCOL
        )
        assert bench.state("new") == "Dead"


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001, -1])
def test_a_session_outside_the_limits_is_refused(session_ms: int) -> None:
    bench = Bench()
    assert bench.refusal(bench.ask_join(session_ms=session_ms)) is Code.INVALID_SESSION_TIMEOUT
    assert bench.refusal(bench.ask_join(session_ms=6_000)) is Code.MEMBER_ID_REQUIRED


def test_a_group_has_a_name() -> None:
    bench = Bench()
    assert bench.refusal(bench.ask_join(group="")) is Code.INVALID_GROUP_ID
    assert bench.heartbeat("m", 1, group="") is Code.INVALID_GROUP_ID
    assert bench.refusal(bench.ask_sync("m", 1, group="")) is Code.INVALID_GROUP_ID
    assert bench.refusal(bench.ask_leave("m", group="")) is Code.INVALID_GROUP_ID


def test_a_member_id_that_no_coordinator_gave_is_unknown() -> None:
    bench = Bench()
    assert bench.refusal(bench.ask_join("stranger")) is Code.UNKNOWN_MEMBER_ID
    bench.stable_group(1)
    assert bench.refusal(bench.ask_join("stranger")) is Code.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_no_other_member() -> None:
    bench = Bench(GroupSettings(max_size=2))
    leader, other = bench.stable_group(2)
    assert bench.refusal(bench.ask_join()) is Code.GROUP_MAX_SIZE_REACHED
    assert bench.waits(bench.ask_join(leader)), "its own members may always join"
    bench.ask_join(other)
    assert bench.state() == "CompletingRebalance"


def test_a_full_group_whose_assignment_is_awaited_takes_no_other_member() -> None:
    bench = Bench(GroupSettings(max_size=2))
    leader, other = bench.stable_group(2)
    for member in (leader, other):
        bench.ask_join(member)
    assert bench.state() == "CompletingRebalance"
    assert bench.refusal(bench.ask_join()) is Code.GROUP_MAX_SIZE_REACHED
    assert bench.joined(bench.ask_join(other)).generation_id == 2, "its own members may always join"


@pytest.mark.parametrize("how", ["it leaves", "it is not heard of"])
def test_a_group_whose_only_member_id_never_joined_is_dead(how: str) -> None:
    bench = Bench()
    member = bench.new_id()
    assert bench.state() == "Empty"
    if how == "it leaves":
        bench.leave(member)
    else:
        bench.pass_time(SESSION_MS / 1000 + 1)
    assert bench.state() == "Dead"


def test_a_group_gives_out_no_more_member_ids_than_it_takes_members() -> None:
    bench = Bench(GroupSettings(max_size=2))
    first = bench.new_id()
    bench.new_id()
    assert bench.refusal(bench.ask_join()) is Code.GROUP_MAX_SIZE_REACHED
    bench.ask_join(first)
    bench.new_id()


def test_a_group_above_a_lowered_limit_loses_the_members_that_join_last() -> None:
    bench = Bench()
    members = bench.stable_group(3)
    bench.settings = GroupSettings(max_size=2)
    bench.fail_over()
    assert bench.state() == "PreparingRebalance"
    tokens = [bench.ask_join(member) for member in members]
    assert bench.refusal(tokens[2]) is Code.GROUP_MAX_SIZE_REACHED
    assert {bench.joined(token).generation_id for token in tokens[:2]} == {2}


def test_a_client_id_of_any_length_gives_a_member_id_that_can_be_sent() -> None:
    bench = Bench()
    member = bench.new_id(client="\U0001f600" * 8_000)
    token = bench.ask_join(member)
    bench.pass_time(3)
    bench.assign(1, [bench.joined(token).member_id], member)
    bench.fail_over()
    assert bench.heartbeat(member, 1) is Code.NONE


def test_a_protocol_named_twice_counts_once() -> None:
    bench = Bench()
    caller = bench.caller(3)
    twice = [JoinGroupRequestProtocol(name="range", metadata=data) for data in (b"first", b"second")]
    request = JoinGroupRequest(
        group_id="twice", session_timeout_ms=6_000, rebalance_timeout_ms=6_000, protocol_type="x", protocols=twice
    )
    bench.do(bench.shard.join(request, caller, bench.now))
    bench.pass_time(3)
    assert isinstance(caller.token, int)
    assert [m.metadata for m in bench.joined(caller.token).members] == [b"first"]


def test_the_metadata_of_all_members_of_a_group_is_bounded() -> None:
    bench = Bench()
    large = {"range": bytes(1 << 20)}
    tokens = [bench.ask_join(protocols=large, version=3) for _ in range(15)]
    assert bench.refusal(bench.ask_join(protocols={"range": bytes(2 << 20)}, version=3)) is Code.GROUP_MAX_SIZE_REACHED
    tokens.append(bench.ask_join(protocols={"range": bytes(500_000)}, version=3))
    bench.pass_time(60)
    members = [bench.joined(token).member_id for token in tokens]
    assert len(members) == 16, "a member that has been let in stays"


def test_a_member_that_joins_again_needs_room_only_for_what_is_new() -> None:
    bench = Bench()
    first = bench.ask_join(protocols={"range": bytes(10 << 20)}, version=3)
    bench.pass_time(3)
    member = bench.joined(first).member_id
    again = bench.ask_join(member, protocols={"range": bytes(11 << 20)}, version=3)
    assert bench.joined(again).member_id == member
    larger = bench.ask_join(member, protocols={"range": bytes(17 << 20)}, version=3)
    assert bench.refusal(larger) is Code.GROUP_MAX_SIZE_REACHED


def test_the_metadata_of_a_groups_members_may_take_all_the_room_and_no_more() -> None:
    first = {"range": bytes(1 << 20)}
    left = MOST_SAID - size_of(tuple(first.items())) - size_of((("range", b""),))
    for said, is_admitted in ((left + 1, False), (left, True)):
        bench = Bench()
        bench.ask_join(protocols=first, version=3)
        token = bench.ask_join(protocols={"range": bytes(said)}, version=3)
        assert bench.waits(token) is is_admitted


def test_the_group_leader_gets_the_metadata_of_a_members_latest_join() -> None:
    bench = Bench()
    leader, other = bench.stable_group(2)
    bench.ask_join(other, {"range": subscription("u")})
    listed = bench.joined(bench.ask_join(leader)).members
    assert {member.member_id: member.metadata for member in listed} == {
        leader: subscription("t"),
        other: subscription("u"),
    }


def test_a_member_that_joins_again_is_given_the_time_that_it_asks_for_now() -> None:
    bench = Bench()
    leader, other = bench.stable_group(2)
    bench.ask_join(other, {"range": subscription("u")}, session_ms=20_000)
    bench.ask_join(leader, session_ms=20_000)
    bench.assign(2, [leader, other], leader)
    bench.pass_time(15)
    assert bench.heartbeat(other, 2) is Code.NONE
    assert bench.heartbeat(leader, 2) is Code.NONE


def test_the_size_of_a_members_protocols_includes_the_cost_of_keeping_them() -> None:
    assert size_of((("range", b"abc"), ("sticky", b""))) == 200 + 5 + 3 + 200 + 6
    assert MOST_SAID == 16 * 1024 * 1024


def test_a_member_id_begins_with_as_much_of_the_client_id_as_has_room() -> None:
    assert Bench().new_id(client="x" * 1_025) == "x" * 1_024 + "-u1"


def test_a_member_that_is_turned_away_from_a_stable_group_leaves_it_and_the_others_rebalance() -> None:
    """It has said too much. Nobody would read what was assigned to it."""
    bench = Bench()
    leader, other = bench.stable_group(2)
    turned_away = bench.ask_join(other, {"range": bytes(MOST_SAID)})
    assert bench.refusal(turned_away) is Code.GROUP_MAX_SIZE_REACHED
    assert bench.heartbeat(leader, 1) is Code.REBALANCE_IN_PROGRESS
    assert [member.member_id for member in bench.joined(bench.ask_join(leader)).members] == [leader]
