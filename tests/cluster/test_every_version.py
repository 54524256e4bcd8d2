"""Each version of each advertised API is answered, with what it has a field for and no error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import time_ns

import pytest

from highwater.apis import APIS
from highwater.client import Admin, Client, Connection, NewTopic
from highwater.model import ZERO_UUID, Endpoint, Uuid
from highwater.net.registry import Role
from highwater.wire.codec import Message
from highwater.wire.messages.alter_configs_request import AlterableConfig as ReplacedConfig
from highwater.wire.messages.alter_configs_request import AlterConfigsRequest
from highwater.wire.messages.alter_configs_request import AlterConfigsResource as ReplacedResource
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
from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from highwater.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from highwater.wire.messages.delete_groups_request import DeleteGroupsRequest
from highwater.wire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from highwater.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from highwater.wire.messages.describe_cluster_request import DescribeClusterRequest
from highwater.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from highwater.wire.messages.describe_groups_request import DescribeGroupsRequest
from highwater.wire.messages.describe_groups_response import DescribeGroupsResponse
from highwater.wire.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from highwater.wire.messages.describe_producers_request import DescribeProducersRequest
from highwater.wire.messages.describe_producers_request import TopicRequest as ProducersTopic
from highwater.wire.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData
from highwater.wire.messages.describe_quorum_request import TopicData as QuorumTopic
from highwater.wire.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from highwater.wire.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from highwater.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from highwater.wire.messages.find_coordinator_request import FindCoordinatorRequest
from highwater.wire.messages.find_coordinator_response import FindCoordinatorResponse
from highwater.wire.messages.heartbeat_request import HeartbeatRequest
from highwater.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from highwater.wire.messages.index import RESPONSES, load
from highwater.wire.messages.init_producer_id_request import InitProducerIdRequest
from highwater.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from highwater.wire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from highwater.wire.messages.list_config_resources_request import ListConfigResourcesRequest
from highwater.wire.messages.list_groups_request import ListGroupsRequest
from highwater.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from highwater.wire.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from highwater.wire.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from highwater.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from highwater.wire.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.sync_group_request import SyncGroupRequest
from highwater.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from highwater.wire.records import build
from tests.cluster.nodes import Node, wait_until

TOPIC = "every"
NOW = time_ns() // 1_000_000
REFUSED = {11: 79, 12: 25, 13: 25, 14: 25, 34: 57, 43: 84, 64: 102}
"""A member that joins gets its id first, and only then it may send heartbeats, leave or sync; there is no such
directory; the leader is the preferred one; there is no such broker."""


def produce(version: int, topic: Uuid) -> Message:
    batch = build([(NOW, b"k", b"v", [])])
    named = {"topic_id": topic} if version >= 13 else {"name": TOPIC}
    data = TopicProduceData(**named, partition_data=[PartitionProduceData(index=0, records=batch)])
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])


def fetch(version: int, topic: Uuid) -> Message:
    named = {"topic_id": topic} if version >= 13 else {"topic": TOPIC}
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100_000)
    return FetchRequest(max_wait_ms=10, min_bytes=1, topics=[FetchTopic(**named, partitions=[partition])])


def list_offsets(version: int, topic: Uuid) -> Message:
    asked = [ListOffsetsPartition(partition_index=0, timestamp=NOW)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=asked)])


def create_topics(version: int, topic: Uuid) -> Message:
    name = f"made-{version}"
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])


def delete_topics(version: int, topic: Uuid) -> Message:
    """What `create_topics` made in the same version, or the last one that it made."""
    name = f"made-{max(version, 2)}" if version > 1 else "made-7"
    if version >= 6:
        return DeleteTopicsRequest(topics=[DeleteTopicState(name=name)])
    return DeleteTopicsRequest(topic_names=[name])


def create_partitions(version: int, topic: Uuid) -> Message:
    return CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=TOPIC, count=2 + version, assignments=None)])


def find_coordinator(version: int, topic: Uuid) -> Message:
    return FindCoordinatorRequest(coordinator_keys=["g"]) if version >= 4 else FindCoordinatorRequest(key="g")


def offset_commit(version: int, topic: Uuid) -> Message:
    named = {"topic_id": topic} if version >= 10 else {"name": TOPIC}
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=version)
    return OffsetCommitRequest(group_id=f"g{version}", topics=[OffsetCommitRequestTopic(**named, partitions=[row])])


def offset_fetch(version: int, topic: Uuid) -> Message:
    if version < 8:
        asked = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
        return OffsetFetchRequest(group_id="g2", topics=[asked])
    named = {"topic_id": topic} if version >= 10 else {"name": TOPIC}
    topics = [OffsetFetchRequestTopics(**named, partition_indexes=[0])]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g2", topics=topics)])


def join_group(version: int, topic: Uuid) -> Message:
    return JoinGroupRequest(
        group_id=f"joined-{version}",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )


def leave_group(version: int, topic: Uuid) -> Message:
    if version < 3:
        return LeaveGroupRequest(group_id="joined-0", member_id="m")
    return LeaveGroupRequest(group_id="joined-0", members=[MemberIdentity(member_id="m")])


def sync_group(version: int, topic: Uuid) -> Message:
    protocol = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    return SyncGroupRequest(group_id="joined-0", member_id="m", **protocol)


def offset_delete(version: int, topic: Uuid) -> Message:
    row = OffsetDeleteRequestPartition(partition_index=0)
    return OffsetDeleteRequest(group_id="g9", topics=[OffsetDeleteRequestTopic(name=TOPIC, partitions=[row])])


def alter_configs(version: int, topic: Uuid) -> Message:
    change = AlterableConfig(name="retention.ms", config_operation=0, value="-1")
    resource = AlterConfigsResource(resource_type=2, resource_name=TOPIC, configs=[change])
    return IncrementalAlterConfigsRequest(resources=[resource])


def leader_epochs(version: int, topic: Uuid) -> Message:
    asked = [OffsetForLeaderPartition(partition=0, leader_epoch=0)]
    return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=TOPIC, partitions=asked)])


QUESTIONS: dict[int, Callable[[int, Uuid], Message]] = {
    0: produce,
    1: fetch,
    2: list_offsets,
    3: lambda version, topic: MetadataRequest(topics=[MetadataRequestTopic(topic_id=ZERO_UUID, name=TOPIC)]),
    8: offset_commit,
    9: offset_fetch,
    10: find_coordinator,
    11: join_group,
    12: lambda version, topic: HeartbeatRequest(group_id="joined-0", member_id="m"),
    13: leave_group,
    14: sync_group,
    15: lambda version, topic: DescribeGroupsRequest(groups=["g2"]),
    16: lambda version, topic: ListGroupsRequest(),
    19: create_topics,
    20: delete_topics,
    21: lambda version, topic: DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=version % 2)])
        ],
        timeout_ms=10_000,
    ),
    18: lambda version, topic: ApiVersionsRequest(client_software_name="test", client_software_version="1"),
    22: lambda version, topic: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1),
    23: leader_epochs,
    32: lambda version, topic: DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=2, resource_name=TOPIC, configuration_keys=None)]
    ),
    33: lambda version, topic: AlterConfigsRequest(
        resources=[
            ReplacedResource(
                resource_type=2, resource_name=TOPIC, configs=[ReplacedConfig(name="retention.ms", value="-1")]
            )
        ]
    ),
    35: lambda version, topic: DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=TOPIC, partitions=[0])] if version % 2 else None
    ),
    34: lambda version, topic: AlterReplicaLogDirsRequest(
        dirs=[AlterReplicaLogDir(path="/nowhere", topics=[AlterReplicaLogDirTopic(name=TOPIC, partitions=[0])])]
    ),
    37: create_partitions,
    42: lambda version, topic: DeleteGroupsRequest(groups_names=[f"g{version + 2}"]),
    43: lambda version, topic: ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic=TOPIC, partitions=[0])], timeout_ms=10_000
    ),
    44: alter_configs,
    45: lambda version, topic: AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=TOPIC, partitions=[ReassignablePartition(partition_index=0, replicas=[1])])]
    ),
    46: lambda version, topic: ListPartitionReassignmentsRequest(topics=None),
    47: offset_delete,
    55: lambda version, topic: DescribeQuorumRequest(
        topics=[QuorumTopic(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])]
    ),
    60: lambda version, topic: DescribeClusterRequest(),
    61: lambda version, topic: DescribeProducersRequest(topics=[ProducersTopic(name=TOPIC, partition_indexes=[0])]),
    64: lambda version, topic: UnregisterBrokerRequest(broker_id=77),
    74: lambda version, topic: ListConfigResourcesRequest(resource_types=[2, 4] if version else []),
    75: lambda version, topic: DescribeTopicPartitionsRequest(topics=[TopicRequest(name=TOPIC)]),
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}
    node = Node.fresh(tmp_path_factory.mktemp("versions"), settings)
    try:
        yield node.start()
    finally:
        node.kill()


def codes(value: object) -> Iterator[int]:
    """Every error code in an answer."""
    if isinstance(value, list):
        for each in value:
            yield from codes(each)
    elif hasattr(value, "__slots__"):
        for name in value.__slots__:
            inner = getattr(value, name)
            if name == "error_code":
                yield inner
            else:
                yield from codes(inner)


def is_coordinated(connection: Connection) -> bool:
    """The partitions of groups are there and loaded, all of them: groups enough to have some in each."""
    found = connection.receive(connection.send(FindCoordinatorRequest(key="g"), 2), FindCoordinatorResponse)
    every = DescribeGroupsRequest(groups=[f"g{number}" for number in range(100)])
    described = connection.receive(connection.send(every, 5), DescribeGroupsResponse)
    return found.error_code == 0 and all(group.error_code == 0 for group in described.groups)


def test_every_version_is_answered(node: Node) -> None:
    with Client(node.bootstrap) as client:
        admin = Admin(client)
        admin.create_topics([NewTopic(TOPIC, partitions=1)])
        wait_until(lambda: TOPIC in admin.list_topics())
        topic = client.topic(TOPIC).id
    connection = Connection(Endpoint("127.0.0.1", node.port))
    wait_until(lambda: is_coordinated(connection))
    answered = 0
    apis = APIS[Role.BROKER]
    for api in apis:
        for version in range(api.versions[0], api.versions[1] + 1):
            asked = QUESTIONS[api.key](version, topic)
            answer = connection.receive(connection.send(asked, version), load(RESPONSES[api.key]))
            found = set(codes(answer))
            assert found <= {0, REFUSED.get(api.key, 0)}, f"{asked} version {version}: {answer}"
            answered += 1
    connection.close()
    assert answered == sum(api.versions[1] - api.versions[0] + 1 for api in apis)
