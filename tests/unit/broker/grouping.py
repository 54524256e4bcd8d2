"""A running node with a group coordinator, and requests of groups to it."""

from __future__ import annotations

from highwater.errors import Code
from highwater.wire.messages.describe_groups_request import DescribeGroupsRequest
from highwater.wire.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from highwater.wire.messages.find_coordinator_request import FindCoordinatorRequest
from highwater.wire.messages.find_coordinator_response import FindCoordinatorResponse
from highwater.wire.messages.heartbeat_request import HeartbeatRequest
from highwater.wire.messages.heartbeat_response import HeartbeatResponse
from highwater.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from highwater.wire.messages.join_group_response import JoinGroupResponse
from highwater.wire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from highwater.wire.messages.leave_group_response import LeaveGroupResponse
from highwater.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from highwater.wire.messages.offset_commit_response import OffsetCommitResponse
from highwater.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from highwater.wire.messages.offset_fetch_response import OffsetFetchResponse
from highwater.wire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from highwater.wire.messages.sync_group_response import SyncGroupResponse
from tests.unit.broker.living import Living

OFFSETS = "__consumer_offsets"


def serving(**settings: str) -> Living:
    """A node whose coordinator is there: `t` has two partitions."""
    living = Living(**settings).start()
    living.create_topic("t", 2)
    assert find(living, "g").error_code == Code.NONE
    settle(living)
    return living


def settle(living: Living) -> None:
    """All partitions of the offsets topic are loaded."""
    shards = living.node.broker.groups.shards
    living.sim.run(living.sim.until(lambda: len(list(shards.active)) == 5))


def find(living: Living, group: str) -> FindCoordinatorResponse:
    return living.ask(FindCoordinatorRequest(key=group), FindCoordinatorResponse, 2)


def join_request(member: str = "", group: str = "g", instance: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        member_id=member,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )


def joined(living: Living, group: str = "g", version: int = 9) -> JoinGroupResponse:
    answer = living.ask(join_request(group=group), JoinGroupResponse, version)
    if answer.error_code == Code.MEMBER_ID_REQUIRED:
        answer = living.ask(join_request(answer.member_id, group), JoinGroupResponse, version)
    assert answer.error_code == Code.NONE
    return answer


def synced(living: Living, member: JoinGroupResponse, group: str = "g", version: int = 5) -> SyncGroupResponse:
    request = SyncGroupRequest(
        group_id=group,
        generation_id=member.generation_id,
        member_id=member.member_id,
        protocol_type="consumer" if version >= 5 else None,
        protocol_name="range" if version >= 5 else None,
        assignments=[SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"mine")],
    )
    return living.ask(request, SyncGroupResponse, version)


def heartbeat(living: Living, member: JoinGroupResponse, version: int = 4, group: str = "g") -> int:
    request = HeartbeatRequest(group_id=group, generation_id=member.generation_id, member_id=member.member_id)
    return living.ask(request, HeartbeatResponse, version).error_code


def leave(living: Living, member: str, version: int = 5, group: str = "g") -> LeaveGroupResponse:
    if version >= 3:
        request = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member)])
    else:
        request = LeaveGroupRequest(group_id=group, member_id=member)
    return living.ask(request, LeaveGroupResponse, version)


def topic_id(living: Living, name: str = "t") -> dict[str, object]:
    return {"topic_id": living.node.broker.metadata.image.topics.by_name[name].id}


def commit(
    living: Living,
    offset: int,
    *partitions: int,
    version: int = 9,
    group: str = "g",
    member: str = "",
    generation: int = -1,
) -> list[int]:
    rows = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="note")
        for index in partitions or (0,)
    ]
    named = topic_id(living) if version >= 10 else {"name": "t"}
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequestTopic(**named, partitions=rows)],  # type: ignore[arg-type]
    )
    answer = living.ask(request, OffsetCommitResponse, version)
    return [row.error_code for topic in answer.topics for row in topic.partitions]


def committed(living: Living, *partitions: int, version: int = 9, group: str = "g") -> list[tuple[int, int]]:
    """(offset, error) of each partition."""
    indexes = list(partitions or (0,))
    if version < 8:
        asked = OffsetFetchRequest(
            group_id=group, topics=[OffsetFetchRequestTopic(name="t", partition_indexes=indexes)]
        )
        old = living.ask(asked, OffsetFetchResponse, version)
        assert old.error_code == Code.NONE
        return [(row.committed_offset, row.error_code) for topic in old.topics for row in topic.partitions]
    named = topic_id(living) if version >= 10 else {"name": "t"}
    topics = [OffsetFetchRequestTopics(**named, partition_indexes=indexes)]  # type: ignore[arg-type]
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    (answer,) = living.ask(asked, OffsetFetchResponse, version).groups
    assert answer.error_code == Code.NONE
    return [(row.committed_offset, row.error_code) for topic in answer.topics for row in topic.partitions]


def described(living: Living, group: str = "g", version: int = 6, operations: bool = False) -> DescribedGroup:
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=operations)
    (answer,) = living.ask(request, DescribeGroupsResponse, version).groups
    return answer
