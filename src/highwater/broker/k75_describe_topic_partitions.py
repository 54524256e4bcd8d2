"""DescribeTopicPartitions (75): topics with their partitions and eligible leaders, a page at a time (KIP-966)."""

from __future__ import annotations

from collections.abc import Generator

from highwater.broker import operations
from highwater.broker.broker import Broker
from highwater.broker.internal_topics import is_internal
from highwater.broker.k03_metadata import fill_partition
from highwater.config import MAX_REQUEST_PARTITION_SIZE_LIMIT
from highwater.errors import Code
from highwater.metadata.topics import TopicImage
from highwater.net.context import RequestContext
from highwater.net.registry import MOST_ELEMENTS, Api
from highwater.net.turns import Work
from highwater.wire.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from highwater.wire.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


def _refused(request: DescribeTopicPartitionsRequest, code: Code, version: int) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(name=topic.name, error_code=code) for topic in request.topics]
    )


API = Api(75, (0, 0), DescribeTopicPartitionsRequest, most_elements=MOST_ELEMENTS, refuse=_refused)


def handle(broker: Broker, ctx: RequestContext, request: DescribeTopicPartitionsRequest) -> Work:
    wanted = sorted({topic.name for topic in request.topics} or set(broker.metadata.image.topics.by_name))
    first = 0
    if request.cursor is not None:
        wanted = [name for name in wanted if name >= request.cursor.topic_name]
        if wanted and wanted[0] == request.cursor.topic_name:
            first = request.cursor.partition_index
    limit = broker.metadata.config.get(MAX_REQUEST_PARTITION_SIZE_LIMIT)
    room = max(1, min(request.response_partition_limit, limit))
    response = DescribeTopicPartitionsResponse(throttle_time_ms=ctx.throttle_ms)
    for name in wanted:
        topic = broker.metadata.topic(name)
        if topic is None or not ctx.authorize("Describe", "Topic", name):
            code = Code.UNKNOWN_TOPIC_OR_PARTITION if topic is None else Code.TOPIC_AUTHORIZATION_FAILED
            missing = DescribeTopicPartitionsResponseTopic(error_code=code, name=name)
            response.topics.append(ctx.written(missing))
            yield None
            continue
        indexes = [index for index in sorted(topic.partitions) if index >= first]
        first = 0
        if room == 0 and indexes:
            response.next_cursor = Cursor(topic_name=name, partition_index=indexes[0])
            break
        response.topics.append(ctx.written((yield from _described(broker, ctx, topic, indexes[:room]))))
        if len(indexes) > room:
            response.next_cursor = Cursor(topic_name=name, partition_index=indexes[room])
            break
        room -= len(indexes)
    ctx.respond(response)


def _described(
    broker: Broker, ctx: RequestContext, topic: TopicImage, indexes: list[int]
) -> Generator[None, None, DescribeTopicPartitionsResponseTopic]:
    partitions = []
    for index in indexes:
        yield None
        image = topic.partitions[index]
        row = DescribeTopicPartitionsResponsePartition(
            eligible_leader_replicas=list(image.elr), last_known_elr=list(image.last_known_elr)
        )
        partitions.append(ctx.written(fill_partition(row, broker, ctx, index, image)))
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=partitions,
        topic_authorized_operations=operations.on_topic(ctx, topic.name),
    )
