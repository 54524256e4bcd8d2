"""DeleteRecords (21): nothing below an offset is read any more. Answered once a kill -9 cannot bring it back."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.errors import Code, KafkaError
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire.messages.delete_records_request import DeleteRecordsRequest
from highwater.wire.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

API = Api(21, (0, 2), DeleteRecordsRequest)


def handle(broker: Broker, ctx: RequestContext, request: DeleteRecordsRequest) -> None:
    response = DeleteRecordsResponse(throttle_time_ms=ctx.throttle_ms)
    for topic in request.topics:
        rows = [_delete(broker, ctx, topic.name, asked.partition_index, asked.offset) for asked in topic.partitions]
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=rows))
    once = _Once(ctx, response)
    deadline = broker.deadlines.add(max(request.timeout_ms, 0) / 1000, once.expire)

    def written() -> None:
        deadline.cancel()
        once.respond()

    broker.store.log_starts.write(written)


class _Once:
    def __init__(self, ctx: RequestContext, response: DeleteRecordsResponse) -> None:
        self._ctx = ctx
        self._response = response
        self._done = False

    def expire(self) -> None:
        """The disk did not answer in time: deleted here, but not yet durably."""
        for topic in self._response.topics:
            for row in topic.partitions:
                row.error_code = row.error_code or Code.REQUEST_TIMED_OUT
        self.respond()

    def respond(self) -> None:
        if not self._done:
            self._done = True
            self._ctx.respond(self._response)


def _delete(broker: Broker, ctx: RequestContext, topic: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
    try:
        if not ctx.authorize("Delete", "Topic", topic):
            raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
        partition = broker.hosted.find(topic, index)
        if partition is None:
            raise KafkaError(broker.not_hosted(topic, index))
        partition.raise_log_start(offset)
    except KafkaError as failed:
        return DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=failed.code)
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=partition.log.log_start)
