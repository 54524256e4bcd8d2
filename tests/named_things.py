"""What a small request of each API names, and every error code of an answer."""

from __future__ import annotations

from typing import Any

from highwater.model import Uuid
from highwater.wire.messages.alter_configs_request import AlterConfigsResource as ReplacedResource
from highwater.wire.messages.alter_partition_reassignments_request import ReassignablePartition, ReassignableTopic
from highwater.wire.messages.alter_replica_log_dirs_request import AlterReplicaLogDir, AlterReplicaLogDirTopic
from highwater.wire.messages.create_partitions_request import CreatePartitionsTopic
from highwater.wire.messages.create_topics_request import CreatableTopic
from highwater.wire.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsTopic
from highwater.wire.messages.delete_topics_request import DeleteTopicState
from highwater.wire.messages.describe_configs_request import DescribeConfigsResource
from highwater.wire.messages.describe_producers_request import TopicRequest as ProducersTopic
from highwater.wire.messages.describe_topic_partitions_request import TopicRequest
from highwater.wire.messages.elect_leaders_request import TopicPartitions
from highwater.wire.messages.fetch_request import FetchPartition, FetchTopic
from highwater.wire.messages.incremental_alter_configs_request import AlterConfigsResource
from highwater.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsTopic
from highwater.wire.messages.metadata_request import MetadataRequestTopic
from highwater.wire.messages.offset_commit_request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from highwater.wire.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopic
from highwater.wire.messages.offset_for_leader_epoch_request import OffsetForLeaderPartition, OffsetForLeaderTopic
from highwater.wire.messages.produce_request import PartitionProduceData, TopicProduceData

ID = Uuid(bytes(range(16)))


def contents(key: int, version: int) -> dict[str, Any]:
    """What a request of this API asks for: one thing, by whichever name the version has for it."""
    named: dict[int, dict[str, Any]] = {
        0: {"acks": -1, "topic_data": [_produced(version)]},
        1: {"topics": [_fetched(version)]},
        2: {"topics": [ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=3)])]},
        3: {"topics": [MetadataRequestTopic(name="t")]},
        8: {"topics": [_committed(version)]},
        9: _offsets_fetched(version),
        10: {"coordinator_keys": ["g"]} if version >= 4 else {"key": "g"},
        15: {"groups": ["g"]},
        19: {"topics": [CreatableTopic(name="t")]},
        20: {"topics": [DeleteTopicState(name="t")]} if version >= 6 else {"topic_names": ["t"]},
        21: {"topics": [DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=3)])]},
        23: {"topics": [OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=3)])]},
        32: {"resources": [DescribeConfigsResource(resource_type=2, resource_name="t")]},
        33: {"resources": [ReplacedResource(resource_type=2, resource_name="t")]},
        37: {"topics": [CreatePartitionsTopic(name="t", count=2)]},
        42: {"groups_names": ["g"]},
        43: {"topic_partitions": [TopicPartitions(topic="t", partitions=[3])]},
        34: {"dirs": [AlterReplicaLogDir(path="/d", topics=[AlterReplicaLogDirTopic(name="t", partitions=[3])])]},
        45: {"topics": [ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=3)])]},
        44: {"resources": [AlterConfigsResource(resource_type=2, resource_name="t")]},
        61: {"topics": [ProducersTopic(name="t", partition_indexes=[3])]},
        75: {"topics": [TopicRequest(name="t")]},
    }
    return named.get(key, {})


def _produced(version: int) -> TopicProduceData:
    data = [PartitionProduceData(index=3, records=b"")]
    return (
        TopicProduceData(topic_id=ID, partition_data=data)
        if version >= 13
        else TopicProduceData(name="t", partition_data=data)
    )


def _committed(version: int) -> OffsetCommitRequestTopic:
    rows = [OffsetCommitRequestPartition(partition_index=3)]
    return (
        OffsetCommitRequestTopic(topic_id=ID, partitions=rows)
        if version >= 10
        else OffsetCommitRequestTopic(name="t", partitions=rows)
    )


def _offsets_fetched(version: int) -> dict[str, Any]:
    if version >= 8:
        return {"groups": [OffsetFetchRequestGroup(group_id="g", topics=None)]}
    return {"group_id": "g", "topics": [OffsetFetchRequestTopic(name="t", partition_indexes=[3])]}


def _fetched(version: int) -> FetchTopic:
    partitions = [FetchPartition(partition=3)]
    return (
        FetchTopic(topic_id=ID, partitions=partitions)
        if version >= 13
        else FetchTopic(topic="t", partitions=partitions)
    )


def codes(value: Any) -> list[int]:
    """Every error code anywhere in an answer."""
    if isinstance(value, list):
        return [code for each in value for code in codes(each)]
    if not hasattr(value, "__slots__"):
        return []
    found = [getattr(value, "error_code", 0)]
    for name in type(value).__slots__:
        if name != "unknown_tags":
            found += codes(getattr(value, name))
    return [code for code in found if code]
