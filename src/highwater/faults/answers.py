"""A well-formed answer to any request that says nothing but an error, at the place where its API has one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from highwater.broker.forwarding import Asked
from highwater.errors import Code
from highwater.groups import asked_groups, combined, refused_commit, refused_fetch
from highwater.net.context import Part
from highwater.wire import fetch, produce, refusals
from highwater.wire.codec import Message
from highwater.wire.fetch import FetchRequestFlat
from highwater.wire.messages import index
from highwater.wire.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from highwater.wire.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from highwater.wire.messages.describe_configs_response import DescribeConfigsResponse, DescribeConfigsResult
from highwater.wire.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from highwater.wire.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from highwater.wire.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from highwater.wire.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from highwater.wire.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from highwater.wire.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from highwater.wire.produce import ProduceRequestFlat

_PRODUCE, _FETCH = 0, 1


def can_refuse(api_key: int) -> bool:
    """Whether an error has a place in the answers of this API."""
    return api_key in (_PRODUCE, _FETCH) or api_key in _BY_API or "error_code" in _response(api_key).__slots__


def refuse(api_key: int, version: int, request: Any, code: Code) -> Sequence[Part]:
    """The body of the answer. Each topic and partition named in the request gets the code, where the API has them."""
    if isinstance(request, Asked):
        request = request.request
    if api_key == _PRODUCE:
        return [_produce(version, request, int(code))]
    if api_key == _FETCH:
        return _fetch(version, request, int(code))
    refused = _BY_API.get(api_key)
    if refused is not None:
        return [refused(version, request, code).encode(version)]
    plain: Callable[..., Message] = _response(api_key)
    return [plain(error_code=int(code)).encode(version)]


def _response(api_key: int) -> Any:
    return index.load(index.RESPONSES[api_key])


def _produce(version: int, request: ProduceRequestFlat, code: int) -> bytes:
    return produce.encode_response(
        version,
        [
            (topic, [(partition, code, -1, -1, -1, None, None, None) for partition, _ in partitions])
            for topic, partitions in request.topics
        ],
    )


def _fetch(version: int, request: FetchRequestFlat, code: int) -> Sequence[Part]:
    """A fetch of a session names only what changed; where it names nothing, the whole answer is the error."""
    topics = [
        (topic, [(partition[0], code, -1, -1, -1, None, -1, None, None, None, None) for partition in partitions])
        for topic, partitions in request.topics
    ]
    return fetch.encode_response(version, 0, 0 if topics else code, 0, topics, [])


def _list_offsets(version: int, request: Any, code: Code) -> Message:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=partition.partition_index, error_code=code, timestamp=-1, offset=-1
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


_FIRST_METADATA_WITH_AN_ERROR = 13


def _metadata(version: int, request: Any, code: Code) -> Message:
    return MetadataResponse(
        controller_id=-1,
        topics=[
            MetadataResponseTopic(name=topic.name, topic_id=topic.topic_id, error_code=code)
            for topic in request.topics or ()
        ],
        error_code=code if version >= _FIRST_METADATA_WITH_AN_ERROR else 0,
    )


_FIRST_FIND_COORDINATOR_OF_MANY = 4


def _find_coordinator(version: int, request: Any, code: Code) -> Message:
    if version < _FIRST_FIND_COORDINATOR_OF_MANY:
        return FindCoordinatorResponse(error_code=code, node_id=-1, port=-1)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=code.description)
            for key in request.coordinator_keys
        ]
    )


def _offset_fetch(version: int, request: Any, code: Code) -> Message:
    return combined([refused_fetch(group, code, version) for group in asked_groups(request, version)], version)


def _describe_groups(version: int, request: Any, code: Code) -> Message:
    return DescribeGroupsResponse(groups=[DescribedGroup(group_id=each, error_code=code) for each in request.groups])


def _delete_groups(version: int, request: Any, code: Code) -> Message:
    results = [DeletableGroupResult(group_id=each, error_code=code) for each in request.groups_names]
    return DeleteGroupsResponse(results=results)


def _delete_records(version: int, request: Any, code: Code) -> Message:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=partition.partition_index, low_watermark=-1, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _offset_for_leader_epoch(version: int, request: Any, code: Code) -> Message:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(partition=partition.partition, error_code=code) for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _describe_configs(version: int, request: Any, code: Code) -> Message:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=code,
                error_message=code.description,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


def _describe_topic_partitions(version: int, request: Any, code: Code) -> Message:
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(name=topic.name, error_code=code) for topic in request.topics]
    )


def _elect_leaders(version: int, request: Any, code: Code) -> Message:
    return refusals.elect_leaders(request, code, version)


_BY_API: dict[int, Callable[[int, Any, Code], Message]] = {
    2: _list_offsets,
    3: _metadata,
    8: lambda version, request, code: refused_commit(request, code),
    9: _offset_fetch,
    10: _find_coordinator,
    15: _describe_groups,
    19: lambda version, request, code: refusals.create_topics(request, code),
    20: lambda version, request, code: refusals.delete_topics(request, code),
    21: _delete_records,
    23: _offset_for_leader_epoch,
    32: _describe_configs,
    37: lambda version, request, code: refusals.create_partitions(request, code),
    42: _delete_groups,
    43: _elect_leaders,
    44: lambda version, request, code: refusals.incremental_alter_configs(request, code),
    75: _describe_topic_partitions,
}
