"""How offsets and groups end: OffsetDelete, DeleteGroups, retention, deleted topics."""

from __future__ import annotations

import pytest

from highwater.errors import Code
from highwater.groups import GroupFilter, GroupSettings
from highwater.wire.messages.offset_delete_response import OffsetDeleteResponse
from highwater.wire.messages.offset_fetch_response import OffsetFetchResponseGroup
from tests.unit.groups.bench import DAY_MS, Bench, G, subscription

DAY = DAY_MS / 1000
T0, U0 = ("t", 0), ("u", 0)


def test_offsets_of_a_topic_that_the_group_reads_are_not_deleted() -> None:
    bench = Bench()
    (member,) = bench.stable_group(1)
    bench.ask_commit({T0: 1, U0: 2}, member, 1)
    assert bench.delete_offsets(T0, U0) == (Code.NONE, [Code.GROUP_SUBSCRIBED_TO_TOPIC, Code.NONE])
    assert bench.offsets() == {T0: 1}
    bench.leave(member)
    assert bench.delete_offsets(T0, ("none", 1)) == (Code.NONE, [Code.NONE, Code.NONE])
    bench.fail_over()
    assert bench.offsets() == {}


def test_a_consumer_whose_subscription_cannot_be_read_may_read_any_topic() -> None:
    for metadata in (
        b"",
        b"\x00",
        b"\xff\xff\x00\x00\x00\x00",
        b"\x00\x01\x7f\xff\xff\xff",
        b"\x00\x00\x00\x00\x00\x01",
    ):
        bench = Bench()
        token = bench.ask_join(protocols={"range": metadata}, version=3)
        bench.pass_time(3)
        member = bench.joined(token).member_id
        bench.assign(1, [member], member)
        bench.ask_commit({T0: 1}, member, 1)
        assert bench.delete_offsets(T0) == (Code.NONE, [Code.GROUP_SUBSCRIBED_TO_TOPIC])
        bench.keep_alive(1, 1, member)


def test_a_subscription_of_a_later_version_is_understood() -> None:
    bench = Bench()
    metadata = b"\x00\x63" + subscription("t")[2:] + b"whatever comes later"
    token = bench.ask_join(protocols={"range": metadata}, version=3)
    bench.pass_time(3)
    member = bench.joined(token).member_id
    bench.assign(1, [member], member)
    assert bench.delete_offsets(T0, U0) == (Code.NONE, [Code.GROUP_SUBSCRIBED_TO_TOPIC, Code.NONE])


def test_offsets_of_members_with_a_protocol_of_their_own_are_not_deleted() -> None:
    bench = Bench()
    token = bench.ask_join(kind="connect", version=3)
    bench.pass_time(3)
    assert bench.delete_offsets(T0)[0] is Code.NON_EMPTY_GROUP
    bench.leave(bench.joined(token).member_id)
    assert bench.delete_offsets(T0) == (Code.NONE, [Code.NONE])


def test_offsets_of_no_group_are_not_deleted() -> None:
    bench = Bench()
    assert bench.delete_offsets(T0)[0] is Code.GROUP_ID_NOT_FOUND
    assert bench.delete_offsets(T0, group="")[0] is Code.INVALID_GROUP_ID


def test_a_deletion_overtakes_no_commit_and_is_overtaken_by_none() -> None:
    bench = Bench()
    bench.ask_commit({U0: 1})
    bench.holds = True
    bench.ask_commit({T0: 1})
    token = bench.ask_delete_offsets(T0)
    bench.ask_commit({T0: 2})
    assert bench.waits(token)
    bench.commit()
    assert bench.offsets() == {U0: 1, T0: 1}
    bench.commit()
    assert bench.offsets() == {U0: 1}
    bench.commit()
    assert bench.offsets() == {U0: 1, T0: 2}


def test_an_empty_group_is_deleted_with_its_offsets() -> None:
    bench = Bench()
    (member,) = bench.stable_group(1)
    bench.ask_commit({T0: 1}, member, 1)
    assert bench.delete_groups(G, "none") == [Code.NON_EMPTY_GROUP, Code.GROUP_ID_NOT_FOUND]
    bench.leave(member)
    bench.ask_commit({U0: 1}, group="simple")
    assert bench.delete_groups(G, "none", "simple") == [Code.NONE, Code.GROUP_ID_NOT_FOUND, Code.NONE]
    for _ in range(2):
        assert (bench.state(), bench.state("simple"), bench.offsets(), bench.offsets("simple")) == (
            "Dead",
            "Dead",
            {},
            {},
        )
        bench.fail_over()


def test_a_group_whose_deletion_is_being_written_is_dead_and_its_offsets_are_still_there() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1})
    bench.holds = True
    bench.ask_commit({U0: 1})
    token = bench.ask_delete_groups(G)
    assert bench.state() == "Dead"
    assert bench.refusal(bench.ask_join()) is Code.COORDINATOR_NOT_AVAILABLE
    assert bench.refusal(bench.ask_leave("m")) is Code.COORDINATOR_NOT_AVAILABLE
    assert bench.refusal(bench.ask_sync("m", 1)) is Code.COORDINATOR_NOT_AVAILABLE
    assert bench.delete_groups(G) == [Code.COORDINATOR_NOT_AVAILABLE]
    assert bench.delete_offsets(T0)[0] is Code.COORDINATOR_NOT_AVAILABLE
    assert bench.offsets() == {T0: 1}
    bench.commit_all()
    assert bench.deleted_codes(token) == [Code.NONE]
    assert bench.offsets() == {}, "also what was being written when the deletion came"
    assert bench.refusal(bench.ask_join()) is Code.MEMBER_ID_REQUIRED, "a new group of the same name"


def test_a_deletion_that_cannot_be_written_leaves_the_group_as_it_was() -> None:
    bench = Bench()
    (member,) = bench.stable_group(1)
    bench.ask_commit({T0: 1}, member, 1)
    bench.leave(member)
    bench.holds = True
    token = bench.ask_delete_groups("none", G)
    bench.fail(Code.NOT_ENOUGH_REPLICAS)
    assert bench.deleted_codes(token) == [Code.GROUP_ID_NOT_FOUND, Code.COORDINATOR_NOT_AVAILABLE]
    assert (bench.state(), bench.offsets()) == ("Empty", {T0: 1})
    bench.holds = False
    assert bench.refusal(bench.ask_join()) is Code.MEMBER_ID_REQUIRED


def test_offsets_of_an_empty_group_expire_with_the_group() -> None:
    bench = Bench(GroupSettings(max_session_timeout_ms=30 * DAY_MS))
    token = bench.ask_join(version=3, session_ms=20 * DAY_MS)
    bench.pass_time(3)
    member = bench.joined(token).member_id
    bench.assign(1, [member], member)
    bench.ask_commit({T0: 1}, member, 1)
    bench.pass_time(5 * DAY)
    bench.leave(member)
    bench.pass_time(7 * DAY - 700)
    assert bench.offsets() == {T0: 1}
    bench.pass_time(1_400)
    assert (bench.offsets(), bench.state()) == ({}, "Dead")
    bench.fail_over()
    assert (bench.offsets(), bench.state(), list(bench.shard.list_groups(GroupFilter()))) == ({}, "Dead", [])


def test_offsets_of_a_simple_consumer_expire_by_their_own_age() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1})
    bench.pass_time(4 * DAY)
    bench.ask_commit({U0: 1})
    bench.pass_time(3 * DAY + 600)
    assert bench.offsets() == {U0: 1}
    bench.pass_time(4 * DAY)
    assert (bench.offsets(), bench.state()) == ({}, "Dead")


def test_a_stable_group_keeps_the_offsets_of_the_topics_that_it_reads() -> None:
    bench = Bench(GroupSettings(max_session_timeout_ms=30 * DAY_MS))
    token = bench.ask_join(version=3, session_ms=20 * DAY_MS)
    bench.pass_time(3)
    member = bench.joined(token).member_id
    bench.assign(1, [member], member)
    bench.ask_commit({T0: 1, U0: 2}, member, 1)
    bench.pass_time(7 * DAY + 600)
    assert bench.offsets() == {T0: 1}
    assert bench.state() == "Stable"


@pytest.mark.parametrize("kind", ["connect", "consumer"])
def test_no_offset_expires_while_the_subscription_of_a_group_is_unknown(kind: str) -> None:
    bench = Bench(GroupSettings(max_session_timeout_ms=30 * DAY_MS))
    token = bench.ask_join(version=3, kind=kind, protocols={"x": b"?"}, session_ms=20 * DAY_MS)
    bench.pass_time(3)
    member = bench.joined(token).member_id
    bench.assign(1, [member], member)
    bench.ask_commit({T0: 1}, member, 1)
    bench.pass_time(8 * DAY)
    assert bench.offsets() == {T0: 1}


def test_a_client_of_old_says_itself_how_long_its_offsets_are_kept() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1}, retention_ms=3_600_000, version=4)
    bench.ask_commit({U0: 1}, retention_ms=30 * DAY_MS, version=2)
    bench.fail_over()
    bench.pass_time(3_600 - 600)
    assert bench.offsets() == {T0: 1, U0: 1}
    bench.pass_time(1_201)
    assert bench.offsets() == {U0: 1}
    bench.pass_time(20 * DAY)
    assert bench.offsets() == {U0: 1}
    bench.pass_time(10 * DAY)
    assert bench.offsets() == {}


def test_an_offset_expires_at_the_end_of_the_retention_that_its_client_asked_for() -> None:
    """Kafka's check counts that very millisecond, too."""
    bench = Bench()
    bench.ask_commit({T0: 1}, retention_ms=3_600_000, version=4)
    bench.fail_over()
    bench.pass_time(3_600)
    assert bench.offsets() == {}


def test_an_offset_that_is_being_committed_again_does_not_expire() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1})
    bench.pass_time(7 * DAY - 1)
    bench.holds = True
    bench.ask_commit({T0: 2})
    bench.pass_time(1_200)
    assert len(bench.writes) == 1
    bench.commit()
    assert bench.offsets() == {T0: 2}


def test_a_group_that_a_member_is_about_to_join_does_not_expire() -> None:
    bench = Bench()
    bench.stable_group(1)
    bench.pass_time(599 - 6)
    member = bench.new_id()
    bench.pass_time(2)
    assert bench.state() == "Empty"
    assert bench.waits(bench.ask_join(member))


def test_the_offsets_of_a_deleted_topic_go_with_it() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1}, version=10, topic_id=b"a" * 16)
    bench.ask_commit({T0: 1}, version=10, topic_id=b"b" * 16, group="anew")
    bench.ask_commit({T0: 1, U0: 1}, group="old")
    bench.topics_deleted({"t": b"a" * 16})
    assert (bench.offsets(), bench.offsets("anew"), bench.offsets("old")) == ({}, {T0: 1}, {U0: 1})
    bench.fail_over()
    assert (bench.offsets(), bench.offsets("anew"), bench.offsets("old")) == ({}, {T0: 1}, {U0: 1})


def test_offsets_of_a_topic_deleted_while_there_was_no_coordinator_are_removed_after_the_load() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1}, version=10, topic_id=b"a" * 16)
    bench.ask_commit({T0: 1}, version=10, topic_id=b"b" * 16, group="anew")
    bench.ask_commit({T0: 1, U0: 1}, group="old")
    bench.fail_over()
    bench.topics_are({"t": b"b" * 16})
    assert (bench.offsets(), bench.offsets("anew"), bench.offsets("old")) == ({}, {T0: 1}, {T0: 1})
    bench.fail_over()
    assert (bench.offsets(), bench.offsets("anew"), bench.offsets("old")) == ({}, {T0: 1}, {T0: 1})


def test_a_fetch_of_stable_offsets_sees_their_deletion() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1})
    bench.holds = True
    bench.ask_delete_groups(G)
    token = bench.ask_fetch(T0, require_stable=True)
    bench.commit()
    assert bench.answer(token, OffsetFetchResponseGroup).topics[0].partitions[0].committed_offset == -1


def test_to_delete_an_offset_that_is_not_there_writes_nothing() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1})
    written = list(bench.log)
    assert bench.delete_offsets(U0) == (Code.NONE, [Code.NONE])
    assert bench.log == written


@pytest.mark.parametrize("way", ["an offset", "an offset that was loaded", "a group that was loaded", "a last member"])
def test_a_group_that_the_log_knows_outlives_a_join_that_is_refused(way: str) -> None:
    bench = Bench()
    if "offset" in way:
        bench.ask_commit({T0: 1})
    elif "group" in way:
        bench.leave(*bench.stable_group(1))
    else:
        waiting = bench.ask_join(version=3)
        bench.leave("client-u1")
        assert bench.refusal(waiting) is Code.UNKNOWN_MEMBER_ID
        bench.pass_time(3)
    if "loaded" in way:
        bench.fail_over()
    assert bench.refusal(bench.ask_join(kind="")) is Code.INCONSISTENT_GROUP_PROTOCOL
    assert bench.state() == "Empty"
    assert bench.delete_groups(G) == [Code.NONE]


def test_an_empty_group_whose_removal_is_refused_is_tried_again_soon() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1})
    bench.holds = True
    bench.pass_time(7 * DAY + 600)
    assert len(bench.writes) == 1
    bench.fail(Code.NOT_ENOUGH_REPLICAS)
    assert bench.shard.next_deadline == bench.now.monotonic + 10
    assert bench.state() == "Empty"


def test_a_deletion_that_is_refused_holds_nothing_else_back() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1})
    bench.holds = True
    bench.ask_delete_groups(G)
    bench.fail(Code.NOT_ENOUGH_REPLICAS)
    assert bench.shard.next_deadline == bench.now.monotonic + 600


def test_a_group_that_is_deleted_before_retention_has_looked_at_it_is_passed_over() -> None:
    bench = Bench(GroupSettings(offsets_retention_ms=1000, offsets_retention_check_interval_ms=60_000))
    for group in ("a", "b"):
        bench.ask_commit({T0: 1}, group=group)
    bench.pauses = True
    bench.pass_time(60)
    assert bench.shard.is_behind, "the check has begun"
    token = bench.ask_delete_groups("b")
    written = len(bench.log)
    while bench.shard.is_behind:
        bench.proceed()
    assert bench.deleted_codes(token) == [Code.NONE]
    assert (bench.offsets("a"), bench.offsets("b")) == ({}, {})
    tombstones = [record.key for record in bench.log[written:]]
    assert len(tombstones) == len(set(tombstones)) == 4, "of each group, its offset and itself"


def test_a_second_deletion_of_an_offset_waits_for_the_first() -> None:
    """The first tombstone may have reached no other replica yet, and the offset would be there again."""
    bench = Bench()
    bench.ask_commit({T0: 1})
    bench.holds = True
    first, second = bench.ask_delete_offsets(T0), bench.ask_delete_offsets(T0)
    assert bench.waits(first) and bench.waits(second)
    bench.commit_all()
    for token in (first, second):
        response = bench.answer(token, OffsetDeleteResponse)
        assert (response.error_code, response.topics[0].partitions[0].error_code) == (Code.NONE, Code.NONE)


def test_a_second_deletion_of_an_offset_is_tried_itself_if_the_first_fails() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1})
    bench.holds = True
    first, second = bench.ask_delete_offsets(T0), bench.ask_delete_offsets(T0)
    bench.fail(Code.NOT_ENOUGH_REPLICAS)
    assert bench.answer(first, OffsetDeleteResponse).error_code == Code.COORDINATOR_NOT_AVAILABLE
    assert bench.waits(second)
    bench.commit_all()
    assert (bench.answer(second, OffsetDeleteResponse).error_code, bench.offsets()) == (Code.NONE, {})


def test_a_second_deletion_of_an_offset_that_waits_too_long_must_be_sent_again() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1})
    bench.holds = True
    bench.ask_delete_offsets(T0)
    second = bench.ask_delete_offsets(T0)
    bench.delay()
    assert bench.answer(second, OffsetDeleteResponse).error_code == Code.COORDINATOR_NOT_AVAILABLE


def test_while_a_group_is_being_deleted_a_second_deletion_must_be_sent_again() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1})
    bench.holds = True
    bench.ask_delete_groups(G)
    assert bench.delete_groups(G) == [Code.COORDINATOR_NOT_AVAILABLE]
    assert bench.delete_offsets(T0)[0] is Code.COORDINATOR_NOT_AVAILABLE
    bench.commit_all()
    assert bench.delete_groups(G) == [Code.GROUP_ID_NOT_FOUND]


def test_a_read_during_an_overdue_deletion_must_look_for_the_coordinator() -> None:
    bench = Bench()
    bench.ask_commit({T0: 1})
    bench.holds = True
    deletion = bench.ask_delete_offsets(T0)
    reading = bench.ask_fetch(require_stable=True)
    assert bench.waits(reading)
    bench.delay()
    assert bench.answer(reading, OffsetFetchResponseGroup).error_code == Code.NOT_COORDINATOR
    assert bench.answer(deletion, OffsetDeleteResponse).error_code == Code.COORDINATOR_NOT_AVAILABLE
    bench.commit_all()
    assert bench.offsets() == {}
