"""DeleteRecords (21): records below an offset are deleted. Answered when a kill -9 cannot bring them back."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.errors import Code, KafkaError
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_ELEMENTS, Api
from highwater.partition.partition import Partition
from highwater.wire.messages.delete_records_request import DeleteRecordsRequest
from highwater.wire.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

CHECK_SECONDS = 0.05


def _refused(request: DeleteRecordsRequest, code: Code, version: int) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=each.partition_index, low_watermark=-1, error_code=code
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(21, (0, 2), DeleteRecordsRequest, most_elements=MANY_ELEMENTS, refuse=_refused)


def handle(broker: Broker, ctx: RequestContext, request: DeleteRecordsRequest) -> None:
    response = DeleteRecordsResponse(throttle_time_ms=ctx.throttle_ms)
    waiting: list[tuple[Partition, int, DeleteRecordsPartitionResult]] = []
    for topic in request.topics:
        rows = []
        for asked in topic.partitions:
            row = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
            rows.append(row)
            try:
                partition = _delete(broker, ctx, topic.name, asked.partition_index, asked.offset)
            except KafkaError as failed:
                row.error_code = failed.code
            else:
                waiting.append((partition, partition.log.log_start, row))
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=rows))
    answer = _Answer(broker, ctx, response, waiting, max(request.timeout_ms, 0) / 1000)
    broker.store.log_starts.write(answer.check)


class _Answer:
    """Sent when the new log start is on disk here and every replica that may lead has raised its own, or when the time
    is over. That may take weeks, so if the client has closed its side of the connection, it is sent at once."""

    def __init__(
        self,
        broker: Broker,
        ctx: RequestContext,
        response: DeleteRecordsResponse,
        waiting: list[tuple[Partition, int, DeleteRecordsPartitionResult]],
        seconds: float,
    ) -> None:
        self._broker = broker
        self._ctx = ctx
        self._response = response
        self._waiting = waiting
        self._done = False
        self._deadline = broker.deadlines.add(seconds, self._expire)

    def check(self) -> None:
        """Called once the log starts are on disk, and again while a replica has not raised its own."""
        if self._done:
            return
        if self._ctx.connection.ending:
            self._expire()
            return
        waiting, self._waiting = self._waiting, []
        for partition, start, row in waiting:
            try:
                low = partition.low_watermark
            except KafkaError as failed:
                row.error_code = failed.code
                continue
            if low >= start:
                row.low_watermark = low
            else:
                self._waiting.append((partition, start, row))
        if self._waiting:
            self._broker.world.clock.call_later(CHECK_SECONDS, self.check)
        else:
            self._respond()

    def _expire(self) -> None:
        for _, _, row in self._waiting:
            row.error_code = Code.REQUEST_TIMED_OUT
        self._respond()

    def _respond(self) -> None:
        if not self._done:
            self._done = True
            self._deadline.cancel()
            self._ctx.respond(self._response)


def _delete(broker: Broker, ctx: RequestContext, topic: str, index: int, offset: int) -> Partition:
    if not ctx.authorize("Delete", "Topic", topic):
        raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
    partition = broker.hosted.find(topic, index)
    if partition is None:
        raise KafkaError(broker.metadata.not_hosted(topic, index))
    if partition.raise_log_start(offset):
        broker.store.keep_start(partition.log, lambda: None)
    return partition
