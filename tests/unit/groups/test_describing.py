"""DescribeGroups and ListGroups."""

from __future__ import annotations

from highwater.errors import Code
from highwater.groups import GroupFilter
from highwater.groups.describing import Position
from highwater.model import TopicPartition
from highwater.wire.messages.describe_groups_response import DescribeGroupsResponse
from tests.unit.groups.bench import RANGE, Bench, G


def test_a_group_is_described_in_each_of_its_states() -> None:
    bench = Bench()
    token = bench.ask_join(version=3, client="app")
    described = bench.shard.describe(G, 6)
    assert (described.group_state, described.protocol_type) == ("PreparingRebalance", "consumer")
    assert [(m.client_id, m.client_host, m.member_metadata) for m in described.members] == [("app", "/127.0.0.1", b"")]
    bench.pass_time(3)
    member = bench.joined(token).member_id
    described = bench.shard.describe(G, 6)
    assert (described.group_state, described.protocol_data) == ("CompletingRebalance", "")
    assert [m.member_metadata for m in described.members] == [b""], "what was chosen is shown once it is in force"
    bench.assign(1, [member], member)
    described = bench.shard.describe(G, 6)
    assert (described.group_state, described.protocol_data, described.error_code) == ("Stable", "range", 0)
    assert [(m.member_id, m.member_metadata, m.member_assignment) for m in described.members] == [
        (member, RANGE["range"], member.encode())
    ]
    bench.leave(member)
    described = bench.shard.describe(G, 6)
    assert (described.group_state, described.protocol_type, described.members) == ("Empty", "consumer", [])


def test_a_group_that_is_not_there_is_dead_and_from_version_6_on_an_error() -> None:
    """KIP-1043."""
    bench = Bench()
    before, after = bench.shard.describe("none", 5), bench.shard.describe("none", 6)
    assert (before.group_state, before.error_code, before.error_message) == ("Dead", 0, None)
    assert (after.group_state, after.error_code) == ("Dead", Code.GROUP_ID_NOT_FOUND)
    assert after.error_message
    for version, described in ((5, before), (6, after)):
        assert DescribeGroupsResponse(groups=[described]).encode(version)


def test_groups_are_listed_by_state_and_type() -> None:
    bench = Bench()
    bench.stable_group(1, group="stable")
    bench.ask_commit({("t", 0): 1}, group="simple")
    bench.ask_join(version=3, group="new", kind="connect")

    def names(states: list[str], types: list[str]) -> list[str]:
        return [group.group_id for group in bench.shard.list_groups(GroupFilter(states, types))]

    assert names([], []) == ["stable", "simple", "new"]
    assert names(["stable", " EMPTY "], []) == ["stable", "simple"]
    assert names(["PreparingRebalance"], ["Classic"]) == ["new"]
    assert names([], ["consumer"]) == names(["Dead"], []) == []
    listed = list(bench.shard.list_groups(GroupFilter()))
    assert [(g.protocol_type, g.group_state, g.group_type) for g in listed] == [
        ("consumer", "Stable", "classic"),
        ("", "Empty", "classic"),
        ("connect", "PreparingRebalance", "classic"),
    ]


def test_the_positions_of_all_groups_are_given_whether_or_not_they_have_members() -> None:
    bench = Bench()
    members = bench.stable_group(2)
    bench.ask_commit({("t", 0): 5}, members[0], 1)
    bench.ask_commit({("t", 1): 7}, group="alone")
    bench.stable_group(1, group="idle")
    assert list(bench.shard.positions()) == [
        Position(G, 2, {TopicPartition("t", 0): 5}),
        Position("alone", 0, {TopicPartition("t", 1): 7}),
        Position("idle", 1, {}),
    ]


def test_a_group_deleted_during_a_listing_of_positions_is_left_out() -> None:
    bench = Bench()
    bench.ask_commit({("t", 0): 5})
    bench.ask_commit({("t", 1): 7}, group="gone")
    listing = bench.shard.positions()
    assert next(listing).group_id == G
    assert bench.delete_groups("gone") == [Code.NONE]
    assert list(listing) == []
