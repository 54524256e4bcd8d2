"""Describes topics: with DescribeTopicPartitions, page by page (KIP-966), or with Metadata if that is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from highwater.client.answers import check
from highwater.client.client import Client
from highwater.client.connection import Connection
from highwater.errors import Code
from highwater.model import Uuid
from highwater.wire.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from highwater.wire.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.wire.messages.metadata_response import MetadataResponse, MetadataResponseTopic

PARTITIONS_PER_ANSWER = 2000

PartitionDescription = DescribeTopicPartitionsResponsePartition
TopicDescription = DescribeTopicPartitionsResponseTopic


def describe_topics(
    client: Client, names: Iterable[str], *, partitions_per_answer: int = PARTITIONS_PER_ANSWER
) -> list[TopicDescription]:
    """Sorted by name. Raises the first topic's error. Eligible leader replicas are None if unknown."""
    wanted = sorted(set(names))

    def attempt() -> list[TopicDescription]:
        connection = client.any_connection()
        if connection.offers(DescribeTopicPartitionsRequest):
            return _paged(connection, wanted, partitions_per_answer)
        topics = [MetadataRequestTopic(name=name) for name in wanted]
        return _from_metadata(connection, topics)

    return client.retrying(attempt) if wanted else []


def describe_topic_ids(client: Client, ids: Sequence[Uuid]) -> list[TopicDescription]:
    """By id, which only Metadata supports: eligible leader replicas stay unknown."""

    def attempt() -> list[TopicDescription]:
        connection = client.any_connection()
        topics = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in ids]
        return _from_metadata(connection, topics)

    return client.retrying(attempt)


def _paged(connection: Connection, names: list[str], limit: int) -> list[TopicDescription]:
    topics: dict[str, TopicDescription] = {}
    asked = [TopicRequest(name=name) for name in names]
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=limit, cursor=cursor)
        response = connection.request(request, DescribeTopicPartitionsResponse)
        for topic in response.topics:
            check(topic.error_code)
            name = topic.name or ""
            if name in topics:
                topics[name].partitions.extend(topic.partitions)
            else:
                topics[name] = topic
        following = response.next_cursor
        if following is None:
            return list(topics.values())
        at = (following.topic_name, following.partition_index)
        if cursor is not None and at <= (cursor.topic_name, cursor.partition_index):
            check(Code.UNKNOWN_SERVER_ERROR, f"the cursor of the topic description does not move beyond {at}")
        cursor = Cursor(topic_name=at[0], partition_index=at[1])
        # A server refuses a cursor that lies before the first topic asked for.
        asked = [topic for topic in asked if topic.name >= at[0]]


def _from_metadata(connection: Connection, topics: list[MetadataRequestTopic]) -> list[TopicDescription]:
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    response = connection.request(request, MetadataResponse)
    check(response.error_code)
    return [_described(topic) for topic in response.topics]


def _described(topic: MetadataResponseTopic) -> TopicDescription:
    check(topic.error_code)
    return TopicDescription(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            PartitionDescription(
                error_code=partition.error_code,
                partition_index=partition.partition_index,
                leader_id=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replica_nodes,
                isr_nodes=partition.isr_nodes,
                offline_replicas=partition.offline_replicas,
            )
            for partition in topic.partitions
        ],
    )
