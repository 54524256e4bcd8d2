"""DescribeProducers (61): the producers that wrote to a partition lately, and their open transactions."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_ELEMENTS, Api
from highwater.net.turns import Work
from highwater.wire.messages.describe_producers_request import DescribeProducersRequest
from highwater.wire.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

_PER_PIECE = 50


def _refused(request: DescribeProducersRequest, code: Code, version: int) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionResponse(partition_index=index, error_code=code) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(61, (0, 0), DescribeProducersRequest, most_elements=MANY_ELEMENTS, refuse=_refused)


def handle(broker: Broker, ctx: RequestContext, request: DescribeProducersRequest) -> Work:
    """A partition that is named twice has one row: it may have very many producers."""
    response = DescribeProducersResponse(throttle_time_ms=ctx.throttle_ms)
    seen: set[TopicPartition] = set()
    for topic in request.topics:
        row = TopicResponse(name=topic.name)
        for index in topic.partition_indexes:
            named = TopicPartition(topic.name, index)
            if named in seen:
                continue
            seen.add(named)
            described = PartitionResponse(partition_index=index)
            try:
                yield from _describe(broker, ctx, topic.name, described)
            except KafkaError as failed:
                described.error_code, described.error_message = failed.code, failed.code.description
            row.partitions.append(ctx.written(described))
            yield None
        response.topics.append(ctx.written(row))
        yield None
    ctx.respond(response)


def _describe(broker: Broker, ctx: RequestContext, topic: str, described: PartitionResponse) -> Work:
    """Raises KafkaError. Only the leader answers."""
    if not ctx.authorize("Read", "Topic", topic):
        raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
    partition = broker.hosted.find(topic, described.partition_index)
    if partition is None:
        raise KafkaError(broker.metadata.not_hosted(topic, described.partition_index))
    partition.require_leader()
    for at, (producer_id, state) in enumerate(list(partition.log.producers.producers.items()), 1):
        shown = ProducerState(
            producer_id=producer_id,
            producer_epoch=state.epoch,
            last_sequence=state.last_sequence,
            last_timestamp=state.timestamp,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_start_offset=state.txn_first_offset,
        )
        described.active_producers.append(ctx.written(shown))
        if not at % _PER_PIECE:
            yield None
