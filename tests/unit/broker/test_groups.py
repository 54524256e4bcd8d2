"""Groups of a running node, over the wire: where they are coordinated, how they gather, what they keep."""

from __future__ import annotations

import asyncio

import pytest

from highwater.broker.groups import _java_host, _uuid
from highwater.coordinator.coordinator import partition_for
from highwater.errors import Code
from highwater.model import ZERO_UUID, TopicPartition
from highwater.wire import records
from highwater.wire.codec import Message
from highwater.wire.messages.delete_groups_request import DeleteGroupsRequest
from highwater.wire.messages.delete_groups_response import DeleteGroupsResponse
from highwater.wire.messages.delete_topics_request import DeleteTopicsRequest
from highwater.wire.messages.delete_topics_response import DeleteTopicsResponse
from highwater.wire.messages.find_coordinator_request import FindCoordinatorRequest
from highwater.wire.messages.find_coordinator_response import FindCoordinatorResponse
from highwater.wire.messages.heartbeat_request import HeartbeatRequest
from highwater.wire.messages.heartbeat_response import HeartbeatResponse
from highwater.wire.messages.join_group_response import JoinGroupResponse
from highwater.wire.messages.leave_group_request import LeaveGroupRequest
from highwater.wire.messages.leave_group_response import LeaveGroupResponse
from highwater.wire.messages.list_groups_request import ListGroupsRequest
from highwater.wire.messages.list_groups_response import ListGroupsResponse
from highwater.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from highwater.wire.messages.offset_commit_response import OffsetCommitResponse
from highwater.wire.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from highwater.wire.messages.offset_delete_response import OffsetDeleteResponse
from highwater.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from highwater.wire.messages.offset_fetch_response import OffsetFetchResponse
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import ProduceResponse
from highwater.wire.messages.sync_group_request import SyncGroupRequest
from highwater.wire.messages.sync_group_response import SyncGroupResponse
from tests.unit.broker.grouping import (
    OFFSETS,
    commit,
    committed,
    described,
    find,
    heartbeat,
    join_request,
    joined,
    leave,
    serving,
    settle,
    synced,
    topic_id,
)
from tests.unit.broker.living import CLIENT, NODE, Living


def test_the_offsets_topic_is_made_when_a_coordinator_is_first_asked_for() -> None:
    with Living(offsets_topic_segment_bytes="1048576").start() as living:
        broker = living.node.broker
        assert OFFSETS not in broker.metadata.image.topics.by_name
        first = find(living, "g")
        assert (first.error_code, first.node_id, first.host, first.port) == (Code.NONE, 1, NODE, 9092)
        assert len(broker.metadata.image.topics.by_name[OFFSETS].partitions) == 5
        config = broker.metadata.log_config(OFFSETS)
        assert (config.compact, config.delete, config.segment_bytes) == (True, False, 1048576)
        asked = FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b"])
        many = living.ask(asked, FindCoordinatorResponse, 6)
        assert [(each.key, each.node_id, each.error_code) for each in many.coordinators] == [("a", 1, 0), ("b", 1, 0)]


def test_without_enough_brokers_for_the_offsets_topic_there_is_no_coordinator() -> None:
    with Living(offsets_topic_replication_factor="3").start() as living:
        assert find(living, "g").error_code == Code.COORDINATOR_NOT_AVAILABLE
        assert living.ask(join_request(), JoinGroupResponse, 9).error_code == Code.NOT_COORDINATOR


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_syncs_beats_and_leaves_in_every_version(version: int) -> None:
    with serving() as living:
        member = joined(living, version=version)
        assert (member.generation_id, member.leader, len(member.members)) == (1, member.member_id, 1)
        assert member.protocol_name == "range"
        assert synced(living, member, version=min(version, 5)).assignment == b"mine"
        assert heartbeat(living, member, min(version, 4)) == Code.NONE
        old = min(version, 5)
        assert leave(living, "nobody", old).error_code == (Code.UNKNOWN_MEMBER_ID if old < 3 else Code.NONE)
        assert leave(living, member.member_id, old).error_code == Code.NONE
        assert heartbeat(living, member, min(version, 4)) == Code.UNKNOWN_MEMBER_ID


def test_two_members_gather_and_the_leader_assigns() -> None:
    with serving() as living:
        first = joined(living)
        synced(living, first)
        expected = living.ask(join_request(), JoinGroupResponse, 9)
        assert expected.error_code == Code.MEMBER_ID_REQUIRED

        async def both() -> tuple[JoinGroupResponse, JoinGroupResponse]:
            return await asyncio.gather(
                living._ask(join_request(expected.member_id), JoinGroupResponse, 9),
                living._ask(join_request(first.member_id), JoinGroupResponse, 9),
            )

        second, again = living.sim.run(living._client.perform(both()))
        assert (second.generation_id, again.generation_id) == (2, 2)
        assert {each.member_id for each in again.members} == {first.member_id, second.member_id}
        assert second.members == []
        assert heartbeat(living, first) == Code.ILLEGAL_GENERATION


def test_a_member_without_heartbeats_for_a_session_is_removed() -> None:
    with serving() as living:
        member = joined(living)
        synced(living, member)
        for _ in range(3):
            living.sim.advance(8)
            assert heartbeat(living, member) == Code.NONE
        living.sim.advance(11)
        assert heartbeat(living, member) == Code.UNKNOWN_MEMBER_ID
        assert described(living).group_state == "Empty"


@pytest.mark.parametrize("version", range(2, 11))
def test_an_offset_is_committed_in_every_version_and_fetched(version: int) -> None:
    with serving() as living:
        assert commit(living, 42, 0, 1, version=version) == [0, 0]
        assert committed(living, 0, 1, version=min(version, 9)) == [(42, 0), (42, 0)]


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_are_fetched_in_every_version(version: int) -> None:
    with serving() as living:
        commit(living, 42)
        assert committed(living, 0, 1, version=version) == [(42, 0), (-1, 0)]


def test_offsets_of_a_missing_partition_cannot_be_committed() -> None:
    with serving() as living:
        assert commit(living, 1, 0, 7, version=9) == [Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION]
        assert commit(living, 1, 7, version=9) == [Code.UNKNOWN_TOPIC_OR_PARTITION]
        rows = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        strange = OffsetCommitRequestTopic(topic_id=type(ZERO_UUID)(b"x" * 16), partitions=rows)
        known = OffsetCommitRequestTopic(**topic_id(living), partitions=rows)  # type: ignore[arg-type]
        asked = OffsetCommitRequest(group_id="g", topics=[strange, known])
        answer = living.ask(asked, OffsetCommitResponse, 10)
        assert [(topic.topic_id, topic.partitions[0].error_code) for topic in answer.topics] == [
            (strange.topic_id, Code.UNKNOWN_TOPIC_ID),
            (known.topic_id, Code.NONE),
        ]
        topics = [
            OffsetFetchRequestTopics(topic_id=strange.topic_id, partition_indexes=[0]),
            OffsetFetchRequestTopics(topic_id=known.topic_id, partition_indexes=[0]),
        ]
        fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
        (group,) = living.ask(fetch, OffsetFetchResponse, 10).groups
        assert {topic.topic_id: topic.partitions[0].error_code for topic in group.topics} == {
            strange.topic_id: Code.UNKNOWN_TOPIC_ID,
            known.topic_id: Code.NONE,
        }


def test_all_offsets_of_several_groups_are_fetched_at_once() -> None:
    with serving() as living:
        commit(living, 1, group="a")
        commit(living, 2, group="b")
        groups = [OffsetFetchRequestGroup(group_id=each, topics=None) for each in ("a", "b", "c")]
        for version in (8, 10):
            answer = living.ask(OffsetFetchRequest(groups=groups), OffsetFetchResponse, version)
            found = [(each.group_id, [t.partitions[0].committed_offset for t in each.topics]) for each in answer.groups]
            assert found == [("a", [1]), ("b", [2]), ("c", [])]
            for group in answer.groups[:2]:
                assert group.topics[0].topic_id == (topic_id(living)["topic_id"] if version == 10 else ZERO_UUID)


def test_an_old_generation_cannot_commit() -> None:
    with serving() as living:
        member = joined(living)
        synced(living, member)
        name, generation = member.member_id, member.generation_id
        assert commit(living, 1, member=name, generation=generation) == [Code.NONE]
        assert commit(living, 2, member=name, generation=generation - 1) == [Code.ILLEGAL_GENERATION]
        assert commit(living, 2, member="zombie", generation=generation) == [Code.UNKNOWN_MEMBER_ID]
        assert committed(living) == [(1, 0)]


def test_offsets_and_groups_survive_a_crash() -> None:
    with serving(log_flush_interval_messages="1") as living:
        member = joined(living)
        synced(living, member)
        commit(living, 7, member=member.member_id, generation=member.generation_id)
        living.sim.crash(NODE)
        living.reborn().start()
        settle(living)
        assert committed(living) == [(7, 0)]
        assert heartbeat(living, member) == Code.NONE
        group = described(living)
        assert (group.group_state, [each.member_id for each in group.members]) == ("Stable", [member.member_id])


def test_a_group_is_described_with_its_members() -> None:
    with serving() as living:
        member = joined(living)
        synced(living, member)
        group = described(living, operations=True)
        (row,) = group.members
        assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
        assert (row.client_id, row.client_host) == ("test", f"/{CLIENT}")
        assert (row.member_metadata, row.member_assignment) == (b"m", b"mine")
        assert group.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
        assert described(living).authorized_operations == -(2**31)
        assert (described(living, "no").group_state, described(living, "no").error_code) == ("Dead", 69)
        assert (described(living, "no", 5).group_state, described(living, "no", 5).error_code) == ("Dead", 0)


def test_groups_are_listed_by_state_and_type() -> None:
    with serving() as living:
        synced(living, joined(living))
        commit(living, 1, group="offsets only")

        def listed(version: int, **filters: list[str]) -> list[tuple[str, str, str]]:
            answer = living.ask(ListGroupsRequest(**filters), ListGroupsResponse, version)
            assert answer.error_code == Code.NONE
            return sorted((each.group_id, each.group_state, each.group_type) for each in answer.groups)

        assert listed(0) == [("g", "", ""), ("offsets only", "", "")]
        assert listed(4, states_filter=["stable"]) == [("g", "Stable", "")]
        assert listed(5) == [("g", "Stable", "classic"), ("offsets only", "Empty", "classic")]
        assert listed(5, types_filter=["consumer"]) == []


def test_only_groups_without_members_are_deleted() -> None:
    with serving() as living:
        synced(living, joined(living))
        for group in ("a", "b", "c", "d"):
            commit(living, 1, group=group)
        asked = DeleteGroupsRequest(groups_names=["a", "b", "c", "d", "g", "none", "a"])
        for version, rest in ((2, Code.NONE), (0, Code.GROUP_ID_NOT_FOUND)):
            answer = living.ask(asked, DeleteGroupsResponse, version)
            assert {each.group_id: each.error_code for each in answer.results} == {
                **dict.fromkeys("abcd", rest),
                "g": Code.NON_EMPTY_GROUP,
                "none": Code.GROUP_ID_NOT_FOUND,
            }
            assert len(answer.results) == 6
        assert committed(living, group="a") == [(-1, 0)]


def test_offsets_are_deleted_partition_by_partition() -> None:
    with serving() as living:
        commit(living, 5, 0, 1)

        def delete(topic: str, *partitions: int, group: str = "g") -> tuple[int, list[int]]:
            rows = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
            request = OffsetDeleteRequest(
                group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=rows)]
            )
            answer = living.ask(request, OffsetDeleteResponse, 0)
            return answer.error_code, [row.error_code for each in answer.topics for row in each.partitions]

        assert delete("t", 1, 9) == (0, [Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION])
        assert delete("other", 0) == (0, [Code.UNKNOWN_TOPIC_OR_PARTITION])
        assert delete("t", 0, group="no") == (Code.GROUP_ID_NOT_FOUND, [])
        assert delete("t", 0, group="") == (Code.INVALID_GROUP_ID, [])
        assert committed(living, 0, 1) == [(5, 0), (-1, 0)]


def test_offsets_of_a_deleted_topic_are_gone() -> None:
    with serving() as living:
        commit(living, 5, version=10)
        delete_topic(living)
        living.create_topic("t", 2)
        assert committed(living) == [(-1, 0)]


@pytest.mark.parametrize("is_asked", [False, True])
def test_offsets_whose_tombstones_do_not_fit_one_batch_are_gone_too(is_asked: bool) -> None:
    group = "g" * 600
    with serving(message_max_bytes="1000") as living:
        for partition in (0, 1):
            commit(living, 5, partition, group=group)
        if is_asked:
            answer = living.ask(DeleteGroupsRequest(groups_names=[group]), DeleteGroupsResponse, 2)
            assert [each.error_code for each in answer.results] == [Code.NONE]
        else:
            delete_topic(living)
            living.create_topic("t", 2)
        assert committed(living, 0, 1, group=group) == [(-1, 0), (-1, 0)]


def delete_topic(living: Living) -> None:
    living.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000), DeleteTopicsResponse, 4)
    living.sim.run(living.sim.until(lambda: "t" not in living.node.broker.metadata.image.topics.by_name))


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_offsets_of_a_topic_that_is_deleted_while_its_groups_are_loaded_are_gone(is_made_anew: bool) -> None:
    with serving() as living:
        commit(living, 5, version=9)
        broker = living.node.broker
        partition = broker.hosted.get(TopicPartition(OFFSETS, partition_for("g", 5)))
        assert partition is not None
        living.world.call(broker.groups.removed, partition)
        # The load takes as long as what it has read is not committed.
        partition.log.move_high_watermark(0)
        partition.require_leader().high_watermark = 0
        living.world.call(broker.groups.role_changed, partition, broker.metadata.image)
        delete_topic(living)
        if is_made_anew:
            living.create_topic("t", 2)
        living.world.call(partition.tick)
        settle(living)
        assert committed(living) == [(-1, 0)]


def test_offsets_of_a_topic_that_is_deleted_while_its_groups_have_no_coordinator_are_gone() -> None:
    with serving() as living:
        commit(living, 5, version=9)
        broker = living.node.broker
        partition = broker.hosted.get(TopicPartition(OFFSETS, partition_for("g", 5)))
        assert partition is not None
        living.world.call(broker.groups.removed, partition)
        delete_topic(living)
        living.world.call(broker.groups.role_changed, partition, broker.metadata.image)
        settle(living)
        assert committed(living) == [(-1, 0)]


def test_unused_offsets_expire() -> None:
    with serving(offsets_retention_minutes="10", offsets_retention_check_interval_ms="60000") as living:
        commit(living, 5)
        living.sim.advance(9 * 60)
        assert committed(living) == [(5, 0)]
        living.sim.advance(2 * 60)
        assert committed(living) == [(-1, 0)]
        assert described(living).error_code == Code.GROUP_ID_NOT_FOUND


def test_a_clock_that_leaps_a_year_ahead_expires_no_offsets() -> None:
    with serving(offsets_retention_minutes="180", offsets_retention_check_interval_ms="30000") as living:
        commit(living, 5)
        living.sim.jump_clock(NODE, 365 * 24 * 3600.0)
        living.sim.advance(100)
        assert committed(living) == [(5, 0)]
        living.sim.advance(300)
        assert committed(living) == [(-1, 0)], "it is believed in the end, a day in an hour"


@pytest.mark.parametrize(
    ("request_", "response", "version"),
    [
        (join_request(group=""), JoinGroupResponse, 9),
        (SyncGroupRequest(protocol_type="c", protocol_name="r"), SyncGroupResponse, 5),
        (HeartbeatRequest(), HeartbeatResponse, 4),
        (LeaveGroupRequest(), LeaveGroupResponse, 5),
    ],
)
def test_a_group_without_a_name_has_no_members(request_: Message, response: type[Message], version: int) -> None:
    with Living().start() as living:
        assert living.ask(request_, response, version).error_code == Code.INVALID_GROUP_ID  # type: ignore[attr-defined]


def test_offsets_may_be_committed_for_an_empty_group_id() -> None:
    with serving() as living:
        assert commit(living, 3, group="") == [0]
        assert committed(living, group="") == [(3, 0)]


def test_from_version_5_on_a_sync_names_its_protocol() -> None:
    with serving() as living:
        member = joined(living)
        request = SyncGroupRequest(group_id="g", generation_id=1, member_id=member.member_id)
        assert living.ask(request, SyncGroupResponse, 5).error_code == Code.INCONSISTENT_GROUP_PROTOCOL
        assert living.ask(request, SyncGroupResponse, 4).error_code == Code.NONE


def test_offsets_are_refused_before_they_are_loaded_but_heartbeats_are_accepted() -> None:
    with serving() as living:
        member = joined(living)
        synced(living, member)
        shards = living.node.broker.groups.shards
        partition = living.node.broker.hosted.get(TopicPartition(OFFSETS, partition_for("g", 5)))
        assert partition is not None
        living.world.call(shards.removed, partition)
        assert heartbeat(living, member) == Code.NOT_COORDINATOR
        # A load that never ends: nothing of the partition is committed.
        partition.log.move_high_watermark(0)
        living.world.call(living.node.broker.groups.role_changed, partition, living.node.broker.metadata.image)
        living.sim.advance(1)
        assert heartbeat(living, member) == Code.NONE
        assert commit(living, 1) == [Code.COORDINATOR_LOAD_IN_PROGRESS]
        assert living.ask(join_request(), JoinGroupResponse, 9).error_code == Code.COORDINATOR_LOAD_IN_PROGRESS
        assert described(living).error_code == Code.COORDINATOR_LOAD_IN_PROGRESS
        answer = living.ask(ListGroupsRequest(), ListGroupsResponse, 5)
        assert (answer.error_code, answer.groups) == (Code.COORDINATOR_LOAD_IN_PROGRESS, [])


def test_clients_do_not_write_where_the_coordinator_does() -> None:
    with serving() as living:
        batch = records.build([(living.world.clock.wall_ms(), b"k", b"v", ())])
        data = TopicProduceData(name=OFFSETS, partition_data=[PartitionProduceData(index=0, records=batch)])
        answer = living.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), ProduceResponse, 9)
        assert answer.responses[0].partition_responses[0].error_code == Code.INVALID_TOPIC_EXCEPTION


def test_a_waiting_member_gets_an_error_when_the_node_stops() -> None:
    with serving(group_initial_rebalance_delay_ms="60000") as living:
        expected = living.ask(join_request(), JoinGroupResponse, 9)

        async def wait() -> JoinGroupResponse:
            return await living._ask(join_request(expected.member_id), JoinGroupResponse, 9)

        waiting = living.sim.loop.create_task(living._client.perform(wait()))
        living.sim.advance(1)
        living.stop()
        assert living.sim.run(_of(waiting)).error_code == Code.NOT_COORDINATOR


async def _of(task: asyncio.Task[JoinGroupResponse]) -> JoinGroupResponse:
    return await task


def test_group_records_are_compressed_by_the_configured_codec() -> None:
    with serving(offsets_topic_compression_codec="3") as living:
        commit(living, 1)
        log = living.node.broker.store.logs[TopicPartition(OFFSETS, partition_for("g", 5))]
        assert records.read_header(bytes(log.segments[0].file.read(0, 1000))).codec == 3


def test_addresses_are_written_as_java_writes_them() -> None:
    assert _java_host("127.0.0.1") == "/127.0.0.1"
    assert _java_host("::1") == "/0:0:0:0:0:0:0:1"
    assert _java_host("fe80::1%eth0") == "/fe80:0:0:0:0:0:0:1%eth0"


def test_the_unique_part_of_a_member_id_is_a_random_uuid() -> None:
    assert _uuid(bytes(16)) == "00000000-0000-4000-8000-000000000000"
    assert _uuid(b"\xff" * 16) == "ffffffff-ffff-4fff-bfff-ffffffffffff"
