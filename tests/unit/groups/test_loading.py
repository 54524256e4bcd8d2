"""What a new coordinator makes of the records it finds, and what the old one says when it goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import pack

import pytest

from highwater.effects import Record, UnknownWrite
from highwater.errors import Code
from highwater.groups import GroupFilter, GroupSettings, GroupShard
from highwater.groups.offsets import OffsetTable
from highwater.groups.records import CommittedOffset, group_tombstone
from highwater.model import TopicPartition, Uuid
from highwater.wire.codec import Malformed
from highwater.wire.messages.group_metadata_key import GroupMetadataKey
from highwater.wire.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from highwater.wire.messages.join_group_response import JoinGroupResponse
from highwater.wire.messages.offset_commit_key import OffsetCommitKey
from highwater.wire.messages.offset_commit_value import OffsetCommitValue
from highwater.wire.messages.offset_fetch_response import OffsetFetchResponseGroup
from tests.unit.groups.bench import DAY_MS, RANGE, SESSION_MS, START_MS, Bench, G

T0 = ("t", 0)


def offset_record(offset: int, version: int = 4, kind: int = 1, group: str = G) -> Record:
    value = OffsetCommitValue(offset=offset, metadata="m", commit_timestamp=1, expire_timestamp=-1)
    key = OffsetCommitKey(group=group, topic="t", partition=0)
    return Record(pack(">h", kind) + key.encode(0), pack(">h", version) + value.encode(version))


def group_record(version: int, **fields: object) -> Record:
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", session_timeout=SESSION_MS, subscription=RANGE["range"]
    )
    member.assignment = b"mine"
    usual = {"protocol_type": "consumer", "generation": 7, "protocol": "range", "leader": "m", "members": [member]}
    value = GroupMetadataValue(**(usual | fields))  # type: ignore[arg-type]
    return Record(pack(">h", 2) + GroupMetadataKey(group=G).encode(0), pack(">h", version) + value.encode(version))


def foreign(kind: int, value: bytes | None = b"?") -> Record:
    return Record(pack(">h", kind) + pack(">h", len(G)) + G.encode() + b"\x00\x01x", value)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("kind", [0, 1])
def test_offsets_of_every_version_are_loaded(version: int, kind: int) -> None:
    bench = Bench(log=[offset_record(5, version, kind)])
    assert (bench.offsets(), bench.state()) == ({T0: 5}, "Empty")


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_groups_of_every_version_are_loaded(version: int) -> None:
    bench = Bench(log=[group_record(version)])
    assert bench.state() == "Stable"
    assert bench.heartbeat("m", 7) is Code.NONE
    assert bench.assignment(bench.ask_sync("m", 7)) == b"mine"


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_a_group_recorded_without_a_protocol_answers_as_each_version_can(version: int, name: str | None) -> None:
    bench = Bench(log=[group_record(3, protocol=None, leader="another")])
    assert bench.joined(bench.ask_join("m", {"": RANGE["range"]}, version=version)).protocol_name == name


def test_the_last_record_counts_and_a_tombstone_removes() -> None:
    tombstone = Record(offset_record(1).key, None)
    assert Bench(log=[offset_record(5), offset_record(6)]).offsets() == {T0: 6}
    assert Bench(log=[offset_record(5), tombstone]).offsets() == {}
    gone = Bench(log=[group_record(3), Record(group_record(3).key, None)])
    assert (gone.state(), list(gone.shard.list_groups(GroupFilter()))) == ("Dead", [])


def test_loaded_members_have_their_session_from_the_load_on() -> None:
    bench = Bench(log=[group_record(3)])
    bench.pass_time(9.9)
    assert bench.state() == "Stable"
    bench.pass_time(0.2)
    assert bench.state() == "Empty"


def test_a_loaded_member_goes_on_with_its_generation_and_rejoins() -> None:
    bench = Bench(log=[group_record(3)])
    assert bench.committed_codes(bench.ask_commit({T0: 1}, "m", 7)) == [Code.NONE]
    assert bench.joined(bench.ask_join("m")).generation_id == 8


@pytest.mark.parametrize("kind", [3, 5, 8, 11, 15, 17, 23])
def test_groups_of_other_kinds_are_left_alone(kind: int) -> None:
    bench = Bench(log=[offset_record(5), foreign(kind), foreign(kind)])
    assert list(bench.shard._registry.foreign) == [G]
    assert bench.offsets() == {T0: 5}
    assert bench.refusal(bench.ask_join()) is Code.INCONSISTENT_GROUP_PROTOCOL
    assert bench.committed_codes(bench.ask_commit({T0: 6})) == [Code.GROUP_ID_NOT_FOUND]
    assert bench.delete_groups(G) == [Code.GROUP_ID_NOT_FOUND]
    assert (bench.state(), list(bench.shard.list_groups(GroupFilter()))) == ("Dead", [])
    bench.pass_time(30 * 24 * 3600)
    assert bench.offsets() == {T0: 5}, "they do not expire"


def test_the_tombstone_of_a_group_of_another_kind_gives_its_name_back() -> None:
    bench = Bench(log=[offset_record(5), foreign(3), foreign(5), foreign(5, None), foreign(3, None)])
    assert not bench.shard._registry.foreign
    assert bench.state() == "Empty"
    assert bench.refusal(bench.ask_join()) is Code.MEMBER_ID_REQUIRED


def test_records_of_unknown_kinds_are_left_alone() -> None:
    bench = Bench(log=[Record(pack(">h", 99) + b"?", b"?"), offset_record(5)])
    assert bench.offsets() == {T0: 5}


@pytest.mark.parametrize(
    "record",
    [
        Record(b"\x00", b""),
        Record(b"\x00\x01\x00", b""),
        Record(offset_record(1).key, b"\x00\x09"),
        Record(offset_record(1).key, offset_record(1).value[:-9]),  # type: ignore[index]
        Record(group_record(3).key, b"\x00\x03\x00"),
    ],
)
def test_a_record_that_cannot_be_read_is_not_passed_over(record: Record) -> None:
    with pytest.raises(Malformed):
        GroupShard(GroupSettings(), lambda: "u", lambda: 1 << 20).replay(*record)


def test_offsets_of_a_transaction_count_when_its_marker_is_there() -> None:
    bench = Bench(log=[offset_record(5)])
    bench.shard.replay(*offset_record(6), producer_id=9)
    bench.shard.replay(*offset_record(7, group="other"), producer_id=8)
    assert (bench.offsets(), bench.offsets("other")) == ({T0: 5}, {})
    bench.shard.end_transaction(9, commit=True)
    bench.shard.end_transaction(8, commit=False)
    assert (bench.offsets(), bench.offsets("other")) == ({T0: 6}, {})


def test_a_transaction_that_is_committed_makes_its_group_known_though_it_was_removed_meanwhile() -> None:
    bench = Bench()
    bench.shard.replay(*offset_record(6), producer_id=9)
    bench.shard.replay(*group_tombstone(G))
    assert bench.state() == "Dead"
    bench.shard.end_transaction(9, commit=True)
    assert (bench.state(), bench.offsets()) == ("Empty", {T0: 6})


def test_a_later_commit_is_not_undone_by_a_transaction_that_ends_after_it() -> None:
    bench = Bench()
    bench.shard.replay(*offset_record(6), producer_id=9)
    bench.ask_commit({T0: 8})
    bench.shard.end_transaction(9, commit=True)
    assert bench.offsets() == {T0: 8}


def test_a_transaction_that_is_still_open_when_all_is_loaded_counts_as_aborted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An Apache Kafka wrote it, and was stopped. Nobody will end it here, so readers must not wait for its end."""
    bench = Bench(log=[offset_record(5)])
    bench.shard.replay(*offset_record(6), producer_id=9)
    bench.shard.replay(*offset_record(7, group="other"), producer_id=9)
    with caplog.at_level("WARNING"):
        bench.do(bench.shard.loaded(bench.now))
    assert caplog.messages == ["the open transaction of producer 9 is aborted: nobody will end it"]
    stable = bench.answer(bench.ask_fetch(T0, require_stable=True), OffsetFetchResponseGroup)
    assert (stable.topics[0].partitions[0].error_code, stable.topics[0].partitions[0].committed_offset) == (0, 5)
    bench.shard.end_transaction(9, commit=True)
    assert (bench.offsets(), bench.offsets("other")) == ({T0: 5}, {})
    bench.pass_time(8 * DAY_MS / 1000)
    assert (bench.offsets(), bench.state(), bench.state("other")) == ({}, "Dead", "Dead")


def test_a_resigning_shard_answers_all_waiting_requests_and_keeps_nothing() -> None:
    bench = Bench()
    leader, other = bench.stable_group(2)
    joining = bench.ask_join(leader)
    first = bench.ask_join(bench.new_id(group="b"), group="b")
    bench.pass_time(3)
    member = bench.joined(first).member_id
    bench.holds = True
    syncing = bench.ask_sync(member, 1, {member: b"x"}, group="b")
    commit = bench.ask_commit({T0: 1}, group="c")
    stable = bench.ask_fetch(T0, group="c", require_stable=True)
    deleting = bench.ask_delete_groups("c")
    assert bench.deleted_codes(deleting) == [Code.GROUP_ID_NOT_FOUND]
    write = bench.writes[0]
    bench.do(bench.shard.resigned(bench.now))
    assert not bench.open
    assert [bench.refusal(token) for token in (joining, syncing)] == [Code.NOT_COORDINATOR] * 2
    assert bench.answer(joining, JoinGroupResponse).member_id == leader
    assert bench.committed_codes(commit) == [Code.NOT_COORDINATOR]
    assert bench.answer(stable, OffsetFetchResponseGroup).error_code == Code.NOT_COORDINATOR
    assert bench.shard.next_deadline is None
    assert list(bench.shard.list_groups(GroupFilter())) == []
    with pytest.raises(UnknownWrite):
        bench.shard.committed(write, bench.now)
    assert bench.heartbeat(other, 1) is Code.UNKNOWN_MEMBER_ID


def test_a_write_is_reported_on_once() -> None:
    bench = Bench()
    bench.holds = True
    bench.ask_commit({T0: 1})
    (write,) = bench.writes
    bench.commit()
    for report in (bench.shard.committed, bench.shard.overdue):
        with pytest.raises(UnknownWrite):
            report(write, bench.now)
    with pytest.raises(UnknownWrite):
        bench.shard.failed(write, Code.NOT_ENOUGH_REPLICAS, bench.now)


def test_a_record_of_no_producer_counts_at_once() -> None:
    bench = Bench()
    bench.shard.replay(*offset_record(6), producer_id=-1)
    assert bench.offsets() == {T0: 6}


def test_of_two_transactions_the_one_that_committed_later_in_the_log_counts() -> None:
    """Whichever of them ends first."""
    for order in ((8, 9), (9, 8)):
        bench = Bench()
        bench.shard.replay(*offset_record(6), producer_id=8)
        bench.shard.replay(*offset_record(7), producer_id=9)
        for producer in order:
            bench.shard.end_transaction(producer, commit=True)
        assert bench.offsets() == {T0: 7}


def test_a_table_of_offsets_knows_the_writes_under_way_and_forgets_them() -> None:
    class Written:
        changes: dict[TopicPartition, CommittedOffset | None] = {TopicPartition("t", 0): None}

        def when_settled(self, resume: Callable[[Code], None]) -> None: ...

    table, first, second = OffsetTable(), Written(), Written()
    table.begin(G, first)
    table.begin(G, second)
    assert (table.groups(), table.last_written(G)) == ([G], second)
    table.end(G, second)
    assert (table.groups(), table.last_written(G)) == ([G], first)
    table.end(G, first)
    assert (table.groups(), table.last_written(G), table.places(G)) == ([], None, [])


def test_a_pending_commit_of_a_partition_is_found_without_a_search_of_all() -> None:
    """While a replica of the coordinator's partition is slow, a group may have tens of thousands of commits under
    way, and one request may ask for thousands of places."""
    looked_at = [0]

    class Changes(dict[TopicPartition, CommittedOffset | None]):
        def __contains__(self, place: object) -> bool:
            looked_at[0] += 1
            return super().__contains__(place)

        def __getitem__(self, place: TopicPartition) -> CommittedOffset | None:
            looked_at[0] += 1
            return super().__getitem__(place)

        def __iter__(self) -> Iterator[TopicPartition]:
            looked_at[0] += 1
            return super().__iter__()

    class Written:
        def __init__(self, offset: int) -> None:
            self.changes = Changes({TopicPartition("t", 0): CommittedOffset(offset, -1, "", 0)})

        def when_settled(self, resume: Callable[[Code], None]) -> None: ...

    table, under_way = OffsetTable(), [Written(number) for number in range(500)]
    for each in under_way:
        table.begin(G, each)
    looked_at[0] = 0
    for index in range(100):
        place = TopicPartition("t", index)
        assert table.is_writing(G, place) == (index == 0)
        assert table.last(G, place) == (under_way[-1].changes[place] if index == 0 else None)
    assert table.places(G) == [TopicPartition("t", 0)]
    assert looked_at[0] < 10
    table.end(G, under_way.pop())
    assert table.last(G, TopicPartition("t", 0)) is under_way[-1].changes[TopicPartition("t", 0)]


def test_a_group_whose_last_offset_is_removed_is_none_of_the_table() -> None:
    table, place = OffsetTable(), TopicPartition("t", 0)
    offset = CommittedOffset(5, -1, "", 0)
    assert offset == CommittedOffset(5, -1, "", 0, -1, Uuid(bytes(16)))
    table.put(G, place, offset)
    assert (table.groups(), dict(table.of(G))) == ([G], {place: offset})
    table.remove(G, place)
    assert (table.groups(), dict(table.of(G))) == ([], {})


def test_the_order_of_commits_is_remembered_only_while_a_transaction_is_open() -> None:
    table, offset = OffsetTable(), CommittedOffset(5, -1, "", 0)
    for producer in (7, 8):
        table.hold(producer, G, TopicPartition("t", producer), offset)
    table.put(G, TopicPartition("t", 0), offset)
    table.end_transaction(7, commit=True)
    assert set(table._orders) == {(G, TopicPartition("t", 0)), (G, TopicPartition("t", 7))}
    table.end_transaction(8, commit=True)
    assert table._orders == {}


def test_an_offset_that_was_removed_is_not_brought_back_by_a_transaction_that_held_it() -> None:
    bench = Bench()
    bench.shard.replay(*offset_record(6), producer_id=9)
    bench.shard.replay(offset_record(6).key, None)
    bench.shard.end_transaction(9, commit=True)
    assert bench.offsets() == {}


@pytest.mark.parametrize(("since_ms", "is_kept"), [(START_MS, True), (-1, False), (START_MS - 8 * DAY_MS, False)])
def test_the_offsets_of_a_loaded_group_are_unused_since_it_was_left(since_ms: int, is_kept: bool) -> None:
    """Or since they were committed, where an old record does not say."""
    group = group_record(3, protocol_type="consumer", current_state_timestamp=since_ms, members=[])
    bench = Bench(log=[offset_record(5), group])
    bench.pass_time(700)
    assert bench.offsets() == ({T0: 5} if is_kept else {})


def test_records_are_written_in_the_versions_that_kafka_writes() -> None:
    bench = Bench()
    (member,) = bench.stable_group(1)
    bench.ask_commit({T0: 5}, member, 1)
    group, offset = bench.log
    assert (group.key[:2], (group.value or b"")[:2]) == (b"\x00\x02", b"\x00\x03")
    assert (offset.key[:2], (offset.value or b"")[:2]) == (b"\x00\x01", b"\x00\x04")


def test_every_kind_of_record_of_other_groups_is_known_by_whose_it_is() -> None:
    kinds = {"consumer": (3, 4, 5, 6, 7, 8, 16), "share": (10, 11, 12, 13, 14, 15), "streams": (17, 19, 20, 21, 22, 23)}
    for owner, numbers in kinds.items():
        for number in numbers:
            assert Bench(log=[foreign(number)]).shard._registry.foreign == {G: owner}


def test_a_loaded_group_has_the_leader_of_its_record() -> None:
    members = [MemberMetadata(member_id=name, session_timeout=SESSION_MS, subscription=b"") for name in ("m", "n")]
    bench = Bench(log=[group_record(3, members=members, leader="n")])
    bench.ask_join("m")
    assert bench.waits(bench.ask_join("n")) is False
    assert bench.state() == "CompletingRebalance"


def test_a_classic_group_that_follows_one_of_another_kind_is_one() -> None:
    bench = Bench(log=[foreign(3), group_record(3)])
    assert (dict(bench.shard._registry.foreign), bench.state()) == ({}, "Stable")


@pytest.mark.parametrize(("version", "timeout"), [(0, SESSION_MS), (1, 77)])
def test_a_member_of_version_0_has_one_time_out_for_both(version: int, timeout: int) -> None:
    member = MemberMetadata(member_id="m", session_timeout=SESSION_MS, subscription=RANGE["range"])
    if version:
        member.rebalance_timeout = 77
    bench = Bench(log=[group_record(version, members=[member])])
    (group,) = bench.shard._registry
    assert group.rebalance_timeout_ms == timeout


def test_a_table_that_is_cleared_knows_of_no_write() -> None:
    class Written:
        changes: dict[TopicPartition, CommittedOffset | None] = {TopicPartition("t", 0): None}

        def when_settled(self, resume: Callable[[Code], None]) -> None: ...

    table = OffsetTable()
    table.begin(G, Written())
    table.hold(7, G, TopicPartition("t", 1), CommittedOffset(5, -1, "", 0))
    table.clear()
    assert (table.groups(), table.places(G), table.last_written(G)) == ([], [], None)
