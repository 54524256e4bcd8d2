"""ListOffsets (2): the first offset, the last, or the first at or after a timestamp; v7 also the largest timestamp."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from highwater.broker.broker import Broker
from highwater.errors import Code, KafkaError
from highwater.kernel import BadRecords
from highwater.log.lookup import Found, first_at_or_after, with_largest_timestamp
from highwater.log.reads import Stale
from highwater.log.scan import BadBatch
from highwater.net.context import RequestContext
from highwater.net.registry import MOST_ELEMENTS, Api
from highwater.net.turns import Work
from highwater.partition.fetching import READ_COMMITTED
from highwater.partition.partition import Partition
from highwater.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from highwater.wire.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)


def _refused(request: ListOffsetsRequest, code: Code, version: int) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(2, (1, 11), ListOffsetsRequest, most_elements=MOST_ELEMENTS, refuse=_refused)
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_LEADER_EPOCHS_FROM = 4
_PER_PIECE = 20


def handle(broker: Broker, ctx: RequestContext, request: ListOffsetsRequest) -> Work:
    answer = _Answer(broker, ctx, request.isolation_level == READ_COMMITTED, request.replica_id >= 0)
    seen: set[tuple[str, int]] = set()
    for topic in request.topics:
        rows: list[ListOffsetsPartitionResponse] = []
        answer.response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
        for asked in topic.partitions:
            row = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
            rows.append(row)
            try:
                if not ctx.authorize("Describe", "Topic", topic.name):
                    raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
                if (topic.name, asked.partition_index) in seen:
                    raise KafkaError(Code.INVALID_REQUEST)
                seen.add((topic.name, asked.partition_index))
                answer.look_up(topic.name, asked, row)
            except KafkaError as failed:
                row.error_code = failed.code
            if len(rows) % _PER_PIECE == 0:
                yield None
        yield None
    answer.finish_if_done()


class _Answer:
    """Timestamps are looked up in jobs. The response is sent after the last of them."""

    def __init__(self, broker: Broker, ctx: RequestContext, committed_only: bool, for_replica: bool) -> None:
        self._broker = broker
        self._ctx = ctx
        self._committed_only = committed_only
        self._for_replica = for_replica
        self._running = 0
        self._searches: deque[Callable[[], None]] = deque()
        """Searches that wait for the one before them: even a long request takes one thread at a time."""
        self.response = ListOffsetsResponse(throttle_time_ms=ctx.throttle_ms)

    def look_up(self, topic: str, asked: ListOffsetsPartition, row: ListOffsetsPartitionResponse) -> None:
        partition = self._broker.hosted.find(topic, asked.partition_index)
        if partition is None:
            raise KafkaError(self._broker.metadata.not_hosted(topic, asked.partition_index))
        partition.require_leader()
        partition.check_epoch(asked.current_leader_epoch)
        when = asked.timestamp
        if when < EARLIEST_PENDING_UPLOAD or self._ctx.version < _FIRST_VERSION.get(when, 0):
            raise KafkaError(Code.UNSUPPORTED_VERSION)
        if when in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return
        log = partition.log
        if when in (EARLIEST, EARLIEST_LOCAL):
            row.offset, row.leader_epoch = log.log_start, log.epoch_cache.epoch_at(log.log_start)
        elif when == LATEST:
            row.offset, row.leader_epoch = self._end(partition), log.epoch_cache.latest
        else:
            self._search(partition, when, row)

    def _end(self, partition: Partition) -> int:
        """The end of what this reader may see. Raises KafkaError until the high watermark has reached this epoch's
        start."""
        log = partition.log
        if self._for_replica:
            return log.log_end
        if not partition.knows_its_end:
            raise KafkaError(Code.OFFSET_NOT_AVAILABLE)
        return log.last_stable_offset if self._committed_only else log.high_watermark

    def _search(self, partition: Partition, when: int, row: ListOffsetsPartitionResponse) -> None:
        log = partition.log
        end = self._end(partition)
        self._running += 1
        self._ctx.slot.mute()

        def found(result: Found | Exception | None) -> None:
            self._running -= 1
            if isinstance(result, Stale):
                try:
                    partition.require_leader()
                    self._search(partition, when, row)
                except KafkaError as failed:
                    row.error_code = failed.code
            elif isinstance(result, OSError):
                row.error_code = Code.KAFKA_STORAGE_ERROR
            elif isinstance(result, (BadBatch, BadRecords)):
                row.error_code = Code.CORRUPT_MESSAGE
            elif isinstance(result, Exception):
                self._broker.world.failures.note("job", f"a look-up in {partition.tp}", result)
                row.error_code = Code.UNKNOWN_SERVER_ERROR
            elif result is not None and result.offset < end:
                row.offset, row.timestamp, row.leader_epoch = result.offset, result.timestamp, result.leader_epoch
            self.finish_if_done()

        def search() -> None:
            segments, look = list(log.segments), log.reads.look
            if when == MAX_TIMESTAMP:
                look(with_largest_timestamp, segments, log.log_start, done=found, where="looking up")
            else:
                look(first_at_or_after, segments, when, log.log_start, done=found, where="looking up")

        self._searches.append(search)

    def finish_if_done(self) -> None:
        if self._running:
            if self._searches and self._running == len(self._searches):
                self._searches.popleft()()
            return
        self._ctx.carry_out(self._respond())

    def _respond(self) -> Work:
        for at, topic in enumerate(self.response.topics):
            rows = topic.partitions
            for place, row in enumerate(rows):
                if self._ctx.version < _LEADER_EPOCHS_FROM:
                    row.leader_epoch = -1
                rows[place] = self._ctx.written(row)
                if place % _PER_PIECE == _PER_PIECE - 1:
                    yield None
            self.response.topics[at] = self._ctx.written(topic)
            yield None
        self._ctx.respond(self.response)
