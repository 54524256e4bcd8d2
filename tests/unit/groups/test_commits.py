"""OffsetCommit: which members may commit when, what is stored, and the error when it cannot be."""

from __future__ import annotations

import pytest

from highwater.errors import Code
from highwater.groups.records import read_offset_value
from highwater.wire.messages.offset_fetch_response import OffsetFetchResponseGroup
from tests.unit.groups.bench import START_MS, Bench

T0 = ("t", 0)


def test_a_consumer_that_assigns_its_own_partitions_commits_without_a_group() -> None:
    bench = Bench()
    assert bench.committed_codes(bench.ask_commit({T0: 5, ("u", 3): 7})) == [Code.NONE, Code.NONE]
    assert bench.offsets() == {T0: 5, ("u", 3): 7}
    assert bench.state() == "Empty"


def test_e12_a_commit_is_answered_when_it_is_committed_and_outlives_the_coordinator() -> None:
    bench = Bench()
    members = bench.stable_group(2)
    bench.holds = True
    token = bench.ask_commit({T0: 5}, members[1], 1)
    assert bench.waits(token)
    assert bench.offsets() == {}
    bench.commit()
    assert bench.committed_codes(token) == [Code.NONE]
    bench.fail_over()
    assert bench.offsets() == {T0: 5}


def test_e12_a_zombie_of_an_old_generation_is_refused() -> None:
    bench = Bench()
    leader, zombie = bench.stable_group(2)
    bench.leave(zombie)
    bench.ask_join(leader)
    bench.assign(2, [leader], leader)
    assert bench.committed_codes(bench.ask_commit({T0: 5}, zombie, 1)) == [Code.UNKNOWN_MEMBER_ID]
    assert bench.committed_codes(bench.ask_commit({T0: 5}, leader, 1)) == [Code.ILLEGAL_GENERATION]
    assert bench.offsets() == {}


def test_a_commit_is_judged_by_the_state_of_the_group() -> None:
    bench = Bench()
    assert bench.committed_codes(bench.ask_commit({T0: 1}, "m", 3, version=8)) == [Code.ILLEGAL_GENERATION]
    assert bench.committed_codes(bench.ask_commit({T0: 1}, "m", 3, version=9)) == [Code.GROUP_ID_NOT_FOUND]
    assert bench.committed_codes(bench.ask_commit({T0: 1}, "m", 0, version=9)) == [Code.GROUP_ID_NOT_FOUND]
    token = bench.ask_join(bench.new_id())
    bench.pass_time(3)
    member = bench.joined(token).member_id
    assert bench.committed_codes(bench.ask_commit({T0: 1}, member, 1)) == [Code.REBALANCE_IN_PROGRESS]
    bench.assign(1, [member], member)
    assert bench.committed_codes(bench.ask_commit({T0: 1}, member, 1)) == [Code.NONE]
    assert bench.committed_codes(bench.ask_commit({T0: 2})) == [Code.UNKNOWN_MEMBER_ID], "the group has members"
    assert bench.committed_codes(bench.ask_commit({T0: 2}, member)) == [Code.ILLEGAL_GENERATION]
    bench.new_id()
    bench.ask_join(member)
    assert bench.state() == "PreparingRebalance"
    assert bench.committed_codes(bench.ask_commit({T0: 3}, member, 1)) == [Code.NONE], "before it gives it up"
    bench.leave(member)
    bench.pass_time(10)
    assert bench.state() == "Empty"
    assert bench.committed_codes(bench.ask_commit({T0: 4}, member, 1)) == [Code.UNKNOWN_MEMBER_ID]
    assert bench.committed_codes(bench.ask_commit({T0: 5})) == [Code.NONE]
    assert bench.offsets() == {T0: 5}
    bench.holds = True
    bench.ask_delete_groups("orders")
    assert bench.committed_codes(bench.ask_commit({T0: 6})) == [Code.COORDINATOR_NOT_AVAILABLE]


def test_a_commit_is_as_good_as_a_heartbeat() -> None:
    bench = Bench()
    (member,) = bench.stable_group(1)
    for _ in range(3):
        bench.pass_time(9)
        bench.ask_commit({T0: 1}, member, 1)
    assert bench.heartbeat(member, 1) is Code.NONE


def test_the_metadata_and_epoch_of_an_offset_are_kept() -> None:
    bench = Bench()
    bench.ask_commit({T0: 5}, metadata="note", epoch=4)
    bench.ask_commit({("u", 0): 6}, metadata=None)
    bench.fail_over()
    response = bench.answer(bench.ask_fetch(T0, ("u", 0), ("none", 0)), OffsetFetchResponseGroup)
    found = [(p.committed_offset, p.metadata, p.committed_leader_epoch) for t in response.topics for p in t.partitions]
    assert found == [(5, "note", 4), (6, "", -1), (-1, "", -1)]


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ("é" * 4_096, Code.NONE),
        ("é" * 4_097, Code.OFFSET_METADATA_TOO_LARGE),
        ("\U0001f600" * 2_049, Code.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_a_note_that_is_too_long_is_refused_for_its_partition_alone(metadata: str, code: Code) -> None:
    bench = Bench()
    assert bench.committed_codes(bench.ask_commit({T0: 5}, metadata=metadata)) == [code]
    assert bench.offsets() == ({} if code else {T0: 5})


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Code.NOT_ENOUGH_REPLICAS, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.NOT_LEADER_OR_FOLLOWER, Code.NOT_COORDINATOR),
        (Code.MESSAGE_TOO_LARGE, Code.INVALID_COMMIT_OFFSET_SIZE),
        (Code.RECORD_LIST_TOO_LARGE, Code.INVALID_COMMIT_OFFSET_SIZE),
        (Code.CORRUPT_MESSAGE, Code.CORRUPT_MESSAGE),
    ],
)
def test_a_commit_that_cannot_be_written_gets_an_error_and_changes_nothing(failure: Code, expected: Code) -> None:
    bench = Bench()
    bench.holds = True
    token = bench.ask_commit({T0: 5})
    bench.fail(failure)
    assert bench.committed_codes(token) == [expected]
    assert (bench.offsets(), bench.state()) == ({}, "Dead")


def test_an_overdue_commit_gets_an_error_and_counts_once_it_is_committed() -> None:
    bench = Bench()
    bench.holds = True
    token = bench.ask_commit({T0: 5})
    bench.delay()
    assert bench.committed_codes(token) == [Code.COORDINATOR_NOT_AVAILABLE]
    assert bench.offsets() == {}
    bench.commit()
    assert bench.offsets() == {T0: 5}


def test_commits_count_in_the_order_in_which_they_came() -> None:
    bench = Bench()
    bench.holds = True
    for offset in (5, 9, 7):
        bench.ask_commit({T0: offset})
    bench.fail(Code.MESSAGE_TOO_LARGE, index=1)
    bench.commit()
    assert bench.offsets() == {T0: 5}
    bench.commit()
    assert bench.offsets() == {T0: 7}


def test_a_fetch_of_stable_offsets_waits_for_the_commits_under_way() -> None:
    """KIP-447."""
    bench = Bench()
    bench.ask_commit({T0: 1})
    bench.holds = True
    bench.ask_commit({T0: 2})
    bench.ask_commit({T0: 3}, group="other")
    stable = bench.ask_fetch(T0, require_stable=True)
    anyhow = bench.ask_fetch(T0)
    assert bench.waits(stable)
    assert bench.answer(anyhow, OffsetFetchResponseGroup).topics[0].partitions[0].committed_offset == 1
    bench.commit()
    assert bench.answer(stable, OffsetFetchResponseGroup).topics[0].partitions[0].committed_offset == 2


@pytest.mark.parametrize("version", [1, 2, 7, 8])
def test_a_fetch_of_stable_offsets_gets_an_error_if_they_do_not_come(version: int) -> None:
    bench = Bench()
    bench.holds = True
    bench.ask_commit({T0: 2})
    stable = bench.ask_fetch(T0, require_stable=True, version=version)
    bench.delay()
    response = bench.answer(stable, OffsetFetchResponseGroup)
    code = response.error_code if version >= 2 else response.topics[0].partitions[0].error_code
    assert code == Code.NOT_COORDINATOR


def test_an_offset_of_a_deleted_topic_does_not_hold_for_the_next_topic_of_its_name() -> None:
    bench = Bench()
    bench.ask_commit({T0: 5}, version=10, topic_id=b"a" * 16)
    for topic_id, offset in ((b"a" * 16, 5), (b"b" * 16, -1), (bytes(16), 5)):
        response = bench.answer(bench.ask_fetch(T0, topic_id=topic_id), OffsetFetchResponseGroup)
        assert response.topics[0].partitions[0].committed_offset == offset


@pytest.mark.parametrize(
    ("generation", "code"), [(-1, Code.NONE), (0, Code.UNKNOWN_MEMBER_ID), (1, Code.UNKNOWN_MEMBER_ID)]
)
def test_in_an_empty_group_only_a_commit_without_a_generation_is_accepted(generation: int, code: Code) -> None:
    bench = Bench()
    bench.ask_commit({T0: 5})
    assert bench.committed_codes(bench.ask_commit({T0: 6}, generation=generation)) == [code]


@pytest.mark.parametrize(
    ("retention_ms", "expire_ms"), [(-1, -1), (0, START_MS), (60_000, START_MS + 60_000), (2**63 - 1, 2**63 - 1)]
)
def test_a_retention_of_its_own_is_kept_as_the_time_at_which_an_offset_expires(
    retention_ms: int, expire_ms: int
) -> None:
    """-1 leaves it to the broker; no time lies beyond what the field can hold."""
    bench = Bench()
    bench.holds = True
    bench.ask_commit({T0: 5}, retention_ms=retention_ms, version=4)
    (record,) = bench.writes[0].records
    assert record.value is not None
    assert read_offset_value(record.value).expire_ms == expire_ms
