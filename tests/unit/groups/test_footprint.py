"""What a coordinator keeps for clients is counted and bounded: then what is there goes on, and new is refused."""

from __future__ import annotations

from itertools import pairwise
from struct import pack

from highwater.errors import Code
from highwater.groups import MOST_KEPT, GroupSettings
from highwater.groups.subscription import subscribed_topics
from highwater.wire.messages.sync_group_response import SyncGroupResponse
from tests.unit.groups.bench import RANGE, Bench, G, subscription
from tests.unit.groups.history import counted_anew

T0 = ("t", 0)
MANY = {("t", partition): 7 for partition in range(1_000)}


def full(bench: Bench) -> Bench:
    """Nothing more is taken in."""
    bench.room = bench.shard.size
    return bench


def test_a_new_member_without_room_learns_that_the_group_is_full() -> None:
    bench = Bench()
    (member,) = bench.stable_group(1)
    full(bench)
    for version in (3, 9):
        for group in (G, "new"):
            assert bench.refusal(bench.ask_join(group=group, version=version)) is Code.GROUP_MAX_SIZE_REACHED
    assert bench.refusal(bench.ask_join(instance="i")) is Code.GROUP_MAX_SIZE_REACHED
    assert (bench.state(), bench.state("new")) == ("Stable", "Dead")
    assert bench.shard.size == bench.room == counted_anew(bench.shard)
    bench.leave(member)
    bench.room += 1
    assert bench.shard.size < bench.room


def test_where_there_is_no_room_a_member_may_come_back_with_a_little_more_and_not_with_much() -> None:
    bench = Bench()
    (member,) = bench.stable_group(1)
    full(bench)
    token = bench.ask_join(member, {"range": subscription("t", "another")})
    assert not bench.waits(token)
    assert bench.refusal(token) is Code.NONE
    assert bench.refusal(bench.ask_join(member, {"range": bytes(10_000)})) is Code.GROUP_MAX_SIZE_REACHED
    assert bench.shard.describe(G, 5).members == []


def test_where_there_is_no_room_an_offset_that_is_there_moves_on_and_no_other_comes() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1}, metadata="some")
    full(bench)
    assert bench.committed_codes(bench.ask_commit({T0: 2}, metadata="more")) == [Code.NONE]
    long = bench.ask_commit({T0: 3}, metadata="x" * 1_000)
    assert bench.committed_codes(long) == [Code.INVALID_COMMIT_OFFSET_SIZE]
    for group in (G, "new"):
        token = bench.ask_commit({("t", 1): 1}, group=group)
        assert bench.committed_codes(token) == [Code.INVALID_COMMIT_OFFSET_SIZE]
    assert (bench.offsets(), bench.offsets("new")) == ({T0: 2}, {})
    assert bench.delete_groups(G) == [Code.NONE]
    assert bench.committed_codes(bench.ask_commit({("t", 1): 1})) == [Code.NONE]


def test_a_commit_that_is_being_written_takes_room_until_it_is_committed() -> None:
    """A client that commits the same offset again and again while a follower is behind is asked to wait."""
    bench = Bench()
    bench.ask_commit({T0: 1})
    full(bench)
    bench.holds = True
    first = bench.ask_commit({T0: 2})
    second = bench.ask_commit({T0: 3})
    assert bench.waits(first)
    assert bench.committed_codes(second) == [Code.COORDINATOR_NOT_AVAILABLE]
    bench.commit_all()
    assert bench.waits(bench.ask_commit({T0: 4}))


def test_an_assignment_without_room_is_sent_to_no_member() -> None:
    bench = Bench()
    leader, other = bench.stable_group(2)
    for member in (leader, other):
        bench.ask_join(member)
    log = list(full(bench).log)
    waiting = bench.ask_sync(other, 2)
    token = bench.ask_sync(leader, 2, {leader: bytes(10_000), other: b"a"})
    for each in (token, waiting):
        assert bench.answer(each, SyncGroupResponse).error_code == Code.GROUP_MAX_SIZE_REACHED
    assert (bench.state(), bench.log) == ("PreparingRebalance", log)


def test_an_id_that_was_given_out_takes_room_until_it_is_used_or_its_time_is_over() -> None:
    bench = Bench()
    before = bench.shard.size
    for number in range(10):
        bench.ask_join(group=f"g{number}", client="c" * 1_000)
    assert bench.shard.size - before > 10 * 2_000
    bench.pass_time(20)
    assert bench.shard.size == before == 0


def test_loaded_offsets_are_kept_even_without_room() -> None:
    bench = Bench()
    bench.ask_commit(MANY)
    size, bench.room = bench.shard.size, 0
    bench.fail_over()
    assert (len(bench.offsets()), bench.shard.size) == (1_000, size)
    bench.do(bench.shard.resigned(bench.now))
    assert bench.shard.size == 0


def test_offsets_that_no_batch_has_room_for_are_refused_before_they_are_turned_into_bytes() -> None:
    """The name of the group stands in every record."""
    bench = Bench()
    token = bench.ask_commit(MANY, group="g" * 30_000)
    assert set(bench.committed_codes(token)) == {Code.INVALID_COMMIT_OFFSET_SIZE}
    assert bench.refused == []


def test_long_subscriptions_of_one_group_are_not_read() -> None:
    """To read them takes the loop's time, and many times their memory. Members that say the same count once."""
    bench = Bench(GroupSettings(initial_rebalance_delay_ms=0))
    (member,) = bench.stable_group(1)
    (group,) = bench.shard._registry
    for count, is_read in ((20_000, True), (20_001, False)):
        names = [f"t{number}" for number in range(count)]
        bench.ask_join(member, {"range": subscription(*names)})
        assert group.subscribed == (frozenset(names) if is_read else None)
        assert group.reads("another") is not is_read
    assert subscribed_topics([subscription(*names[:15_000])] * 3) == frozenset(names[:15_000])
    assert subscribed_topics([subscription(*names[:15_000]), subscription(*names[10_000:])]) is None


def test_a_subscription_to_more_topics_than_are_read_is_refused_by_their_number() -> None:
    for count, is_read in ((20_000, True), (20_001, False)):
        encoded = pack(">hi", 1, count) + pack(">h6s", 6, b"orders") * count + pack(">i", -1)
        assert (subscribed_topics([encoded]) is not None) is is_read


def test_an_assignment_counts_as_long_as_it_is_there() -> None:
    bench = Bench()
    (member,) = bench.stable_group(1)
    sizes = []
    for generation, assignment in ((2, b"a"), (3, bytes(50_000)), (4, b"a")):
        bench.ask_join(member)
        assert bench.assignment(bench.ask_sync(member, generation, {member: assignment})) == assignment
        sizes.append(bench.shard.size)
        assert bench.shard.size == counted_anew(bench.shard)
    assert sizes[1] > sizes[0] + 40_000
    assert sizes[2] == sizes[0]


def test_the_size_of_a_group_counts_everything_of_its_members() -> None:
    bench = Bench(GroupSettings(initial_rebalance_delay_ms=0))
    sizes = [bench.shard.size]
    for protocols, client in ((RANGE, "c"), ({"range": bytes(50_000)}, "c"), (RANGE, "c" * 30_000)):
        bench.ask_join(protocols=protocols, client=client, version=3)
        sizes.append(bench.shard.size)
    first, second, third = (after - before for before, after in pairwise(sizes))
    assert 4_096 <= first < 10_000
    assert 50_000 <= second < 60_000
    assert 31_000 <= third < 60_000
    assert MOST_KEPT == 56 * 1024 * 1024


def test_a_group_knows_only_the_protocols_that_its_members_name_now() -> None:
    bench = Bench(GroupSettings(initial_rebalance_delay_ms=0))
    (member,) = bench.stable_group(1)
    (group,) = bench.shard._registry
    for number in range(5):
        bench.ask_join(member, {f"p{number}": b"", "range": b""})
    assert dict(group._support) == {"p4": 1, "range": 1}
