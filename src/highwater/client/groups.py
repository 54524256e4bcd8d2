"""Requests about consumer groups. Each is sent to the present coordinator of the group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from highwater.client.answers import check, failure
from highwater.client.client import Client
from highwater.client.connection import Connection
from highwater.errors import Code, KafkaError
from highwater.model import Endpoint, NodeId, TopicPartition
from highwater.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from highwater.wire.messages.delete_groups_request import DeleteGroupsRequest
from highwater.wire.messages.delete_groups_response import DeleteGroupsResponse
from highwater.wire.messages.describe_groups_request import DescribeGroupsRequest
from highwater.wire.messages.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from highwater.wire.messages.find_coordinator_request import FindCoordinatorRequest
from highwater.wire.messages.find_coordinator_response import FindCoordinatorResponse
from highwater.wire.messages.list_groups_request import ListGroupsRequest
from highwater.wire.messages.list_groups_response import ListedGroup, ListGroupsResponse
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
from highwater.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from highwater.wire.messages.offset_fetch_response import OffsetFetchResponse

T = TypeVar("T")
_BY_NAME = 9
"""The last versions of OffsetCommit and OffsetFetch that name topics by name."""
_MANY_COORDINATORS_FROM = 4
_MANY_GROUPS_FROM = 8


class Coordinator(NamedTuple):
    node: NodeId
    endpoint: Endpoint


class Committed(NamedTuple):
    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group: DescribedGroup
    coordinator: Coordinator


def assigned(member: DescribedGroupMember) -> list[TopicPartition]:
    """The partitions that were assigned to a consumer. Raises Malformed if the group is not a consumer group."""
    data = member.member_assignment
    if len(data) < 2:
        return []
    version = min(int.from_bytes(data[:2], "big"), ConsumerProtocolAssignment.VERSIONS[1])
    assignment = ConsumerProtocolAssignment.decode(data[2:], version)
    return [TopicPartition(each.topic, index) for each in assignment.assigned_partitions for index in each.partitions]


class Groups:
    def __init__(self, client: Client) -> None:
        self.client = client

    def coordinator(self, group_id: str) -> Coordinator:
        connection = self.client.any_connection()
        if connection.version(FindCoordinatorRequest) >= _MANY_COORDINATORS_FROM:
            asked = FindCoordinatorRequest(coordinator_keys=[group_id])
            (found,) = connection.request(asked, FindCoordinatorResponse).coordinators
            check(found.error_code, found.error_message)
            return Coordinator(NodeId(found.node_id), Endpoint(found.host, found.port))
        old = connection.request(FindCoordinatorRequest(key=group_id), FindCoordinatorResponse)
        check(old.error_code, old.error_message)
        return Coordinator(NodeId(old.node_id), Endpoint(old.host, old.port))

    def _asking(self, group_id: str, ask: Callable[[Connection], T]) -> T:
        """Retried while the coordinator is unknown, moves or loads."""
        return self.client.retrying(lambda: ask(self.client.connection(self.coordinator(group_id).endpoint)))

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
        """The consumer groups of all brokers."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        self.client.refresh([])
        found: dict[str, ListedGroup] = {}
        for broker in sorted(self.client.view.brokers):
            for group in self.client.retrying(lambda broker=broker: self._listed(broker, request)):  # type: ignore[misc]
                found.setdefault(group.group_id, group)
        return [group for group in found.values() if group.protocol_type in ("", "consumer")]

    def _listed(self, broker: NodeId, request: ListGroupsRequest) -> Sequence[ListedGroup]:
        answer = self.client.ask_broker(broker, request, ListGroupsResponse)
        check(answer.error_code)
        return answer.groups

    def describe(self, group_id: str) -> GroupDescription:
        def ask(connection: Connection) -> GroupDescription:
            request = DescribeGroupsRequest(groups=[group_id])
            (group,) = connection.request(request, DescribeGroupsResponse).groups
            check(group.error_code, group.error_message)
            return GroupDescription(group, self.coordinator(group_id))

        return self._asking(group_id, ask)

    def committed(self, group_id: str) -> dict[TopicPartition, Committed]:
        def ask(connection: Connection) -> dict[TopicPartition, Committed]:
            if connection.version(OffsetFetchRequest, _BY_NAME) >= _MANY_GROUPS_FROM:
                request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
                (group,) = connection.request(request, OffsetFetchResponse, cap=_BY_NAME).groups
                check(group.error_code)
                rows = [(topic.name, row) for topic in group.topics for row in topic.partitions]
                return {
                    TopicPartition(name, row.partition_index): Committed(
                        row.committed_offset, row.committed_leader_epoch
                    )
                    for name, row in rows
                    if row.committed_offset >= 0
                }
            old = connection.request(OffsetFetchRequest(group_id=group_id, topics=None), OffsetFetchResponse, cap=7)
            check(old.error_code)
            return {
                TopicPartition(topic.name, row.partition_index): Committed(
                    row.committed_offset, row.committed_leader_epoch
                )
                for topic in old.topics
                for row in topic.partitions
                if row.committed_offset >= 0
            }

        return self._asking(group_id, ask)

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, int], generation: int = -1, member_id: str = ""
    ) -> None:
        """A client that is not a member may commit while the group has no members."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, index), offset in offsets.items():
            row = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            topics.setdefault(topic, OffsetCommitRequestTopic(name=topic)).partitions.append(row)
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=list(topics.values()),
        )

        def ask(connection: Connection) -> None:
            answer = connection.request(request, OffsetCommitResponse, cap=_BY_NAME)
            for topic in answer.topics:
                for row in topic.partitions:
                    check(row.error_code)

        self._asking(group_id, ask)

    def delete(self, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
        return {group_id: self._deleted(group_id) for group_id in dict.fromkeys(group_ids)}

    def _deleted(self, group_id: str) -> KafkaError | None:
        def ask(connection: Connection) -> None:
            request = DeleteGroupsRequest(groups_names=[group_id])
            (result,) = connection.request(request, DeleteGroupsResponse).results
            check(result.error_code)

        try:
            self._asking(group_id, ask)
        except KafkaError as failed:
            return failed
        return None

    def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Raises an error that concerns the whole group."""
        topics: dict[str, OffsetDeleteRequestTopic] = {}
        for topic, index in partitions:
            row = OffsetDeleteRequestPartition(partition_index=index)
            topics.setdefault(topic, OffsetDeleteRequestTopic(name=topic)).partitions.append(row)
        request = OffsetDeleteRequest(group_id=group_id, topics=list(topics.values()))

        def ask(connection: Connection) -> dict[TopicPartition, KafkaError | None]:
            answer = connection.request(request, OffsetDeleteResponse)
            check(answer.error_code)
            return {
                TopicPartition(topic.name, row.partition_index): None
                if row.error_code == Code.NONE
                else failure(row.error_code)
                for topic in answer.topics
                for row in topic.partitions
            }

        return self._asking(group_id, ask)
