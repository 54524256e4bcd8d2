"""Tombstones are written in pieces: what fits a batch, a turn of the loop for each, and again where one is refused."""

from __future__ import annotations

import pytest

from highwater.effects import Now, Outbox
from highwater.errors import Code
from highwater.groups import GroupFilter, GroupSettings
from highwater.groups.deadlines import Deadlines
from highwater.groups.offsets import OffsetTable
from highwater.groups.records import GROUP_METADATA, kind_of
from highwater.groups.registry import Registry
from highwater.groups.tombstones import AT_ONCE, RETRY_SECONDS, OffsetsEnding, Tombstones
from highwater.wire.messages.offset_delete_response import OffsetDeleteResponse
from highwater.wire.messages.offset_fetch_response import OffsetFetchResponseGroup
from tests.unit.groups.bench import DAY_MS, Bench, G

DAY = DAY_MS / 1000
T0, U0 = ("t", 0), ("u", 0)
GONE = {"t": bytes(16)}
MANY = {("t", partition): 7 for partition in range(1_000)}


@pytest.mark.parametrize("group, most_bytes", [("g" * 1_200, 1 << 20), ("g", 1_000)])
def test_a_group_with_more_offsets_than_a_batch_has_room_for_is_deleted(group: str, most_bytes: int) -> None:
    bench = Bench()
    for first in range(0, 1_000, 200):
        bench.ask_commit({("t", first + partition): 7 for partition in range(200)}, group=group)
    bench.most_bytes = most_bytes
    assert bench.delete_groups(group) == [Code.NONE]
    for _ in range(2):
        assert (bench.offsets(group), bench.state(group), bench.refused) == ({}, "Dead", [])
        bench.fail_over()


def test_the_tombstone_of_a_group_is_the_last() -> None:
    for most_bytes in range(90, 400):
        bench = Bench()
        bench.ask_commit({("t", partition): 7 for partition in range(9)})
        before, bench.most_bytes = len(bench.log), most_bytes
        assert bench.delete_groups(G) == [Code.NONE]
        assert not bench.refused
        written = [kind_of(record.key) == GROUP_METADATA for record in bench.log[before:]]
        assert written == [False] * 9 + [True]


def test_groups_that_are_deleted_by_one_request_have_each_an_outcome_of_their_own() -> None:
    bench = Bench()
    for group in ("a", "b", "c"):
        bench.ask_commit(MANY, group=group)
    bench.holds = True
    token = bench.ask_delete_groups("a", "none", "b", "c")
    assert len(bench.writes) == 3
    bench.fail(Code.NOT_ENOUGH_REPLICAS, 1)
    assert bench.waits(token)
    bench.holds = False
    bench.commit_all()
    assert bench.deleted_codes(token) == [
        Code.NONE,
        Code.GROUP_ID_NOT_FOUND,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NONE,
    ]
    assert (bench.state("a"), bench.state("b"), bench.state("c")) == ("Dead", "Empty", "Dead")


def test_a_deletion_that_is_refused_half_way_leaves_the_group_and_can_be_asked_for_again() -> None:
    bench = Bench()
    bench.ask_commit(MANY)
    bench.holds = True
    token = bench.ask_delete_groups(G)
    bench.commit()
    bench.fail(Code.NOT_ENOUGH_REPLICAS)
    assert bench.deleted_codes(token) == [Code.COORDINATOR_NOT_AVAILABLE]
    assert (bench.state(), len(bench.offsets()), bench.writes) == ("Empty", 1_000 - AT_ONCE, [])
    bench.holds = False
    assert bench.delete_groups(G) == [Code.NONE]
    assert (bench.state(), bench.offsets()) == ("Dead", {})


def test_a_deletion_that_has_not_begun_is_sent_to_the_next_coordinator() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1})
    bench.pauses = True
    token = bench.ask_delete_groups(G)
    assert bench.waits(token)
    bench.fail_over()
    assert bench.deleted_codes(token) == [Code.NOT_COORDINATOR]
    assert (bench.state(), bench.offsets()) == ("Empty", {T0: 1})


def test_the_deletion_of_a_topic_is_written_piece_by_piece_as_the_driver_asks_for_it() -> None:
    bench = Bench()
    for group in ("a", "b", "c"):
        bench.ask_commit(MANY, group=group)
    bench.pauses = True
    bench.topics_deleted(GONE)
    before, rounds = len(bench.log), 0
    assert len(bench.offsets("a")) == 1_000
    while bench.shard.is_behind:
        known = len(bench.log)
        bench.proceed()
        assert len(bench.log) - known <= AT_ONCE
        rounds += 1
    assert len(bench.log) - before == 3_000
    assert rounds < 3_000 // AT_ONCE * 3
    assert (bench.offsets("a"), bench.offsets("b"), bench.offsets("c")) == ({}, {}, {})


def test_retention_is_written_piece_by_piece_as_the_driver_asks_for_it() -> None:
    bench = Bench(GroupSettings(offsets_retention_check_interval_ms=8 * DAY_MS))
    bench.ask_commit(MANY)
    bench.pauses = True
    bench.pass_time(8 * DAY)
    assert len(bench.offsets()) == 1_000
    bench.proceed()
    bench.proceed()
    assert (len(bench.offsets()), bench.state()) == (1_000 - AT_ONCE, "Dead")
    while bench.shard.is_behind:
        bench.proceed()
    assert (bench.offsets(), list(bench.shard.list_groups(GroupFilter()))) == ({}, [])


def test_more_offsets_than_a_batch_has_room_for_expire() -> None:
    bench = Bench()
    bench.ask_commit(MANY)
    bench.most_bytes = 1_000
    bench.pass_time(8 * DAY)
    assert (bench.offsets(), bench.state(), bench.refused) == ({}, "Dead", [])


def test_the_largest_batch_size_may_change_between_two_pieces_of_tombstones() -> None:
    bench = Bench()
    bench.ask_commit(MANY)
    bench.pauses = True
    bench.topics_deleted(GONE)
    while bench.shard.is_behind:
        bench.most_bytes = max(bench.most_bytes // 4, 200)
        bench.proceed()
    assert (bench.offsets(), bench.refused) == ({}, [])


def test_a_tombstone_that_no_batch_has_room_for_is_tried_again_until_one_has() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1}, group="long" * 100)
    bench.ask_commit({T0: 1})
    bench.most_bytes = 300
    bench.topics_deleted(GONE)
    assert (bench.offsets("long" * 100), bench.offsets()) == ({T0: 1}, {})
    assert [write.about for write in bench.refused] == [f"the tombstones of 1 offsets of group {'long' * 100}"]
    bench.pass_time(RETRY_SECONDS)
    assert len(bench.refused) == 2
    bench.most_bytes = 1_000
    bench.pass_time(RETRY_SECONDS)
    assert (bench.offsets("long" * 100), len(bench.refused)) == ({}, 2)


def test_while_the_log_takes_nothing_one_piece_is_tried_at_a_time() -> None:
    bench = Bench()
    for group in ("a", "b", "c"):
        bench.ask_commit({T0: 1}, group=group)
    bench.holds = True
    bench.topics_deleted(GONE)
    tried = len(bench.writes)
    while bench.writes:
        bench.fail(Code.NOT_ENOUGH_REPLICAS)
    assert tried == 3, "none was refused when the others were written"
    bench.pauses = True
    bench.pass_time(RETRY_SECONDS)
    bench.proceed()
    bench.fail(Code.NOT_ENOUGH_REPLICAS)
    assert not bench.shard.is_behind
    bench.holds = bench.pauses = False
    bench.pass_time(RETRY_SECONDS)
    assert (bench.offsets("a"), bench.offsets("b"), bench.offsets("c")) == ({}, {}, {})


@pytest.mark.parametrize("pieces", [0, 1], ids=["before it is looked for", "before its tombstone is written"])
def test_an_offset_that_is_committed_after_its_topic_was_deleted_is_of_the_next_one_and_stays(pieces: int) -> None:
    bench = Bench()
    bench.ask_commit({T0: 1, U0: 1})
    bench.pauses = True
    bench.topics_deleted(GONE)
    for _ in range(pieces):
        bench.proceed()
    bench.ask_commit({T0: 2})
    bench.pauses = False
    bench.do([])
    bench.pass_time(RETRY_SECONDS)
    assert bench.offsets() == {T0: 2, U0: 1}


def test_an_offset_that_was_being_committed_when_its_topic_was_deleted_goes() -> None:
    bench = Bench()
    bench.holds = True
    bench.ask_commit({T0: 1})
    bench.topics_deleted(GONE)
    bench.holds = False
    bench.commit_all()
    assert bench.offsets() == {T0: 1}
    bench.pass_time(RETRY_SECONDS)
    assert bench.offsets() == {}


def test_an_offset_goes_with_its_topic_though_a_commit_in_its_place_failed() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1})
    bench.pauses = bench.holds = True
    bench.topics_deleted(GONE)
    bench.ask_commit({T0: 2})
    bench.pauses = False
    bench.do([])
    bench.fail(Code.NOT_ENOUGH_REPLICAS)
    bench.holds = False
    bench.pass_time(RETRY_SECONDS)
    assert bench.offsets() == {}


def test_an_offset_that_came_of_age_and_is_committed_before_its_piece_stays() -> None:
    bench = Bench(GroupSettings(offsets_retention_check_interval_ms=8 * DAY_MS))
    bench.ask_commit({T0: 1, U0: 1})
    bench.pass_time(2 * DAY)
    bench.ask_commit({U0: 2})
    bench.pauses = True
    bench.pass_time(6 * DAY)
    bench.proceed()
    bench.ask_commit({T0: 2})
    bench.pauses = False
    bench.do([])
    assert bench.offsets() == {T0: 2, U0: 2}


def test_a_piece_fills_its_batch_to_the_last_byte() -> None:
    """A batch takes 61 bytes, and a tombstone 20 beside its key: two for its kind, and two before each name."""
    each = 20 + 10 + len(G) + len("t")
    for room, expected in ((3 * each, 3), (3 * each - 1, 2), (1, 1)):
        bench = Bench()
        bench.ask_commit({("t", partition): 1 for partition in range(5)})
        bench.pauses = bench.holds = True
        bench.most_bytes = 61 + room
        bench.topics_deleted(GONE)
        while not bench.writes and not bench.refused:
            bench.proceed()
        assert [len(write.records) for write in (*bench.writes, *bench.refused)] == [expected]


def test_a_resigning_shard_has_nothing_left_to_look_for() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1})
    bench.pauses = True
    bench.topics_deleted(GONE)
    assert bench.shard.is_behind
    bench.do(bench.shard.resigned(bench.now))
    assert not bench.shard.is_behind


def test_a_resigning_shard_forgets_tombstones_that_were_put_off() -> None:
    queue = Tombstones(Registry(), OffsetTable(), Deadlines(), Outbox())
    queue.put_off(OffsetsEnding(queue, G, [], lambda place, now: True), Now(0.0, 0))
    queue.abandon(Code.NOT_COORDINATOR)
    queue.retry()
    assert not queue.is_behind


def test_offsets_whose_removal_was_refused_can_be_read_at_once() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1})
    bench.holds = True
    bench.ask_delete_groups(G)
    waiting = bench.ask_fetch(T0, require_stable=True)
    assert bench.waits(waiting)
    bench.fail(Code.NOT_ENOUGH_REPLICAS)
    assert not bench.waits(waiting)
    assert not bench.waits(bench.ask_fetch(T0, require_stable=True))


def test_a_resigning_shard_forgets_tombstones_that_it_did_not_write() -> None:
    queue = Tombstones(Registry(), OffsetTable(), Deadlines(), Outbox())
    queue.add(OffsetsEnding(queue, G, [], lambda place, now: True))
    assert queue.is_behind
    queue.abandon(Code.NOT_COORDINATOR)
    assert not queue.is_behind


def test_a_fetch_that_waits_for_an_overdue_removal_must_look_for_the_coordinator() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1})
    bench.holds = True
    bench.topics_deleted(GONE)
    waiting = bench.ask_fetch(T0, require_stable=True)
    assert bench.waits(waiting)
    bench.delay()
    assert bench.answer(waiting, OffsetFetchResponseGroup).error_code == Code.NOT_COORDINATOR


def test_deleted_offsets_go_in_pieces_that_fit_a_batch() -> None:
    bench = Bench()
    bench.ask_commit(MANY)
    bench.most_bytes = 4_000
    bench.holds = True
    token = bench.ask_delete_offsets(*MANY)
    assert bench.waits(token)
    assert len(bench.writes) == 1
    bench.holds = False
    bench.commit_all()
    assert bench.answer(token, OffsetDeleteResponse).error_code == Code.NONE
    assert (bench.offsets(), bench.refused) == ({}, [])


def test_few_deleted_offsets_are_looked_at_between_two_turns_of_the_loop() -> None:
    bench = Bench()
    bench.ask_commit(MANY)
    bench.pauses = True
    bench.ask_delete_offsets(*MANY)
    left = [len(bench.offsets())]
    while bench.shard.is_behind:
        bench.proceed()
        left.append(len(bench.offsets()))
    assert left == [1_000, 750, 500, 250, 0]


def test_an_offset_that_is_committed_after_its_deletion_was_asked_for_stays() -> None:
    bench = Bench()
    bench.ask_commit(MANY)
    bench.holds = bench.pauses = True
    under_way = bench.ask_commit({("t", 900): 8})
    token = bench.ask_delete_offsets(*MANY)
    later = bench.ask_commit({("t", 800): 9})
    bench.holds = bench.pauses = False
    bench.commit_all()
    assert bench.answer(token, OffsetDeleteResponse).error_code == Code.NONE
    assert [bench.committed_codes(each) for each in (under_way, later)] == [[Code.NONE], [Code.NONE]]
    for _ in range(2):
        assert bench.offsets() == {("t", 800): 9}
        bench.fail_over()


def test_an_offset_deletion_fails_with_its_first_failed_piece() -> None:
    bench = Bench()
    bench.ask_commit(MANY)
    bench.holds = True
    token = bench.ask_delete_offsets(*MANY)
    bench.commit()
    bench.fail(Code.NOT_ENOUGH_REPLICAS)
    assert bench.answer(token, OffsetDeleteResponse).error_code == Code.COORDINATOR_NOT_AVAILABLE
    assert (len(bench.offsets()), bench.writes, bench.shard.is_behind) == (1_000 - AT_ONCE, [], False)
    late = bench.ask_delete_offsets(*MANY)
    bench.delay()
    assert bench.answer(late, OffsetDeleteResponse).error_code == Code.COORDINATOR_NOT_AVAILABLE
    bench.holds = False
    bench.commit_all()
    assert bench.offsets() == {}
    bench.ask_commit(MANY)
    bench.pauses = True
    left = bench.ask_delete_offsets(*MANY)
    bench.fail_over()
    assert bench.answer(left, OffsetDeleteResponse).error_code == Code.NOT_COORDINATOR
    assert len(bench.offsets()) == 1_000


def test_the_number_of_waiting_offset_deletions_is_bounded() -> None:
    """Each of them keeps what it names, and a name takes four bytes of a request."""
    bench = Bench()
    bench.ask_commit(MANY)
    bench.pauses = True
    tokens = [bench.ask_delete_offsets(*MANY) for _ in range(12)]
    deleted = bench.answer(tokens.pop(), OffsetDeleteResponse)
    assert deleted.error_code == Code.COORDINATOR_LOAD_IN_PROGRESS
    bench.pauses = False
    bench.do([])
    assert [bench.answer(token, OffsetDeleteResponse).error_code for token in tokens] == [Code.NONE] * 11
    bench.ask_commit({T0: 1})
    for each in (T0, U0):
        assert bench.delete_offsets(each) == (Code.NONE, [Code.NONE])
    assert bench.shard._removal.tombstones.given_up == 0


def test_few_offsets_of_a_deleted_topic_are_looked_at_between_two_turns_of_the_loop() -> None:
    class Looked(dict[str, bytes]):
        times = 0

        def __contains__(self, name: object) -> bool:
            self.times += 1
            return super().__contains__(name)

    bench, looked = Bench(), Looked(GONE)
    for group in ("a", "b", "c"):
        bench.ask_commit(MANY, group=group)
    bench.pauses = True
    bench.topics_deleted(looked)
    assert looked.times == 0
    while bench.shard.is_behind:
        looked.times = 0
        bench.proceed()
        assert looked.times <= AT_ONCE
    assert all(bench.offsets(group) == {} for group in ("a", "b", "c"))


def test_an_offset_committed_while_those_of_a_deleted_topic_are_looked_for_stays() -> None:
    """It is of another topic of that name. What was under way when the topic was deleted goes."""
    bench = Bench()
    for group in ("a", "b"):
        bench.ask_commit({T0: 1, U0: 1}, group=group)
    bench.pauses = bench.holds = True
    bench.ask_commit({("t", 1): 2}, group="a")
    bench.topics_deleted(GONE)
    bench.ask_commit({T0: 3}, group="b")
    bench.commit_all()
    bench.pauses = bench.holds = False
    bench.do([])
    bench.pass_time(RETRY_SECONDS)
    assert (bench.offsets("a"), bench.offsets("b")) == ({U0: 1}, {T0: 3, U0: 1})
    assert not bench.shard._offsets._watching
