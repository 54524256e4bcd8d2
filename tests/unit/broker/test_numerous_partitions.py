"""Requests that name partitions as plain numbers: how many they may name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater.apis import APIS
from highwater.net.registry import Role
from highwater.wire.codec import Message
from highwater.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from highwater.wire.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from highwater.wire.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from highwater.wire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from highwater.wire.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from highwater.wire.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from highwater.wire.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from highwater.wire.messages.fetch_request import FetchRequest, ForgottenTopic
from highwater.wire.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from highwater.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from highwater.wire.reader import TooMany

Naming = Callable[[list[int]], Message]

NAMING: dict[str, tuple[Naming, int, int]] = {
    "OffsetFetch": (
        lambda indexes: OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(topics=[OffsetFetchRequestTopics(name="a", partition_indexes=indexes)])]
        ),
        9,
        20_000,
    ),
    "ElectLeaders": (
        lambda indexes: ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="a", partitions=indexes)]),
        2,
        20_000,
    ),
    "ListPartitionReassignments": (
        lambda indexes: ListPartitionReassignmentsRequest(
            topics=[ListPartitionReassignmentsTopics(name="a", partition_indexes=indexes)]
        ),
        0,
        20_000,
    ),
    "AlterReplicaLogDirs": (
        lambda indexes: AlterReplicaLogDirsRequest(
            dirs=[AlterReplicaLogDir(topics=[AlterReplicaLogDirTopic(name="a", partitions=indexes)])]
        ),
        2,
        20_000,
    ),
    "DescribeProducers": (
        lambda indexes: DescribeProducersRequest(topics=[TopicRequest(name="a", partition_indexes=indexes)]),
        0,
        20_000,
    ),
    "DescribeLogDirs": (
        lambda indexes: DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="a", partitions=indexes)]),
        4,
        400_000,
    ),
    "Fetch": (
        lambda indexes: FetchRequest(forgotten_topics_data=[ForgottenTopic(topic="a", partitions=indexes)]),
        12,
        400_000,
    ),
}


def decoded(message: Message, version: int, role: Role = Role.BROKER) -> object:
    """The request as a listener of brokers or of controllers gets it."""
    [api] = [each for each in APIS[role] if each.key == message.API_KEY]
    return (api.decode or api.request.decode)(memoryview(message.encode(version)), version, api.most_elements)


@pytest.mark.parametrize("name", NAMING)
def test_a_request_names_no_more_partitions_by_number_than_it_may(name: str) -> None:
    """Each number takes four bytes on the wire, and a look-up and a row of the response."""
    naming, version, most = NAMING[name]
    assert decoded(naming(list(range(most - 20))), version)
    with pytest.raises(TooMany):
        decoded(naming(list(range(most + 4))), version)


def test_partitions_count_as_much_in_many_short_lists_as_in_a_long_one() -> None:
    topics = [DescribableLogDirTopic(topic="a", partitions=list(range(8))) for _ in range(33_000)]
    assert decoded(DescribeLogDirsRequest(topics=topics), 4)
    with pytest.raises(TooMany):
        decoded(DescribeLogDirsRequest(topics=[*topics, *topics[:400]]), 4)


def test_thousands_of_partitions_may_get_their_replicas_in_one_request() -> None:
    three, seven = list(range(3)), list(range(7))
    assigned = [CreatableReplicaAssignment(partition_index=index, broker_ids=three) for index in range(4_990)]
    created = CreateTopicsRequest(topics=[CreatableTopic(name="a", assignments=assigned)])
    assert decoded(created, 7, Role.CONTROLLER) == created
    added = [CreatePartitionsAssignment(broker_ids=three) for _ in range(4_990)]
    grown = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=5_000, assignments=added)])
    assert decoded(grown, 3, Role.CONTROLLER) == grown
    moves = [ReassignablePartition(partition_index=index, replicas=seven) for index in range(4_990)]
    moved = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="a", partitions=moves)])
    assert decoded(moved, 1, Role.CONTROLLER) == moved
