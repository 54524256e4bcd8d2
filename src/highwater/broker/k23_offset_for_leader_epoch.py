"""OffsetForLeaderEpoch (23): the end of a leader epoch, so that a reader detects whether its log has diverged."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.errors import Code, KafkaError
from highwater.net.context import RequestContext
from highwater.net.registry import MOST_ELEMENTS, Api
from highwater.net.turns import Work
from highwater.wire.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from highwater.wire.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)


def _refused(request: OffsetForLeaderEpochRequest, code: Code, version: int) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[EpochEndOffset(partition=each.partition, error_code=code) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


API = Api(23, (2, 4), OffsetForLeaderEpochRequest, most_elements=MOST_ELEMENTS, refuse=_refused)


def handle(broker: Broker, ctx: RequestContext, request: OffsetForLeaderEpochRequest) -> Work:
    response = OffsetForLeaderEpochResponse(throttle_time_ms=ctx.throttle_ms)
    for topic in request.topics:
        result = OffsetForLeaderTopicResult(topic=topic.topic)
        for asked in topic.partitions:
            result.partitions.append(ctx.written(_end(broker, ctx, topic.topic, asked)))
            yield None
        response.topics.append(ctx.written(result))
        yield None
    ctx.respond(response)


def _end(broker: Broker, ctx: RequestContext, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        if not ctx.authorize("Describe", "Topic", topic):
            raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
        partition = broker.hosted.find(topic, asked.partition)
        if partition is None:
            raise KafkaError(broker.metadata.not_hosted(topic, asked.partition))
        partition.require_leader()
        partition.check_epoch(asked.current_leader_epoch)
    except KafkaError as failed:
        return EpochEndOffset(error_code=failed.code, partition=asked.partition)
    epoch, end = partition.log.epoch_cache.end_of(asked.leader_epoch, partition.log.log_end)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end)
