"""The fetches of one offset range: the next is sent before the last is given out, and every trouble has a name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from highwater.client.answers import failure
from highwater.client.client import FIRST_BACKOFF, LAST_BACKOFF, Client
from highwater.client.connection import Connection, Ticket
from highwater.client.epochs import EpochEnd, epoch_ends
from highwater.client.failures import Disconnected, RequestTimeout, UnsupportedApi
from highwater.client.fetched import Fetched
from highwater.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, FoundOffset, list_offsets
from highwater.errors import Code, KafkaError, is_retriable
from highwater.model import ZERO_UUID, TopicPartition, Uuid, uuid_from_text, uuid_text
from highwater.pipeline.loss import DataLoss, Losses, deleted, expired, recreated, truncated
from highwater.pipeline.ranges import NO_EPOCH, OffsetRange
from highwater.pipeline.reading import Reading
from highwater.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from highwater.wire.messages.fetch_response import FetchResponse, PartitionData
from highwater.wire.records import end_offset

DELETION_GRACE_SECONDS = 5.0
"""How long a topic must be missing before it counts as deleted: a broker may hear of a new one a little late."""

_LAST_VERSION_WITH_NAMES = 12
_SESSIONLESS = -1
_GAP_CONFIRMATIONS = 3
_MISPLACED = frozenset({Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID, Code.INCONSISTENT_TOPIC_ID})


class NothingCame(Exception):
    """The deadline passed without the records that were planned, and without a reason for their absence."""


class _Sent(NamedTuple):
    connection: Connection
    ticket: Ticket


class RangeFetch:
    """Reads [start, end) of one partition of one life of its topic."""

    def __init__(
        self, client: Client, reading: Reading, range_: OffsetRange, accepted: list[DataLoss] | None = None
    ) -> None:
        self._client = client
        self._reading = reading
        self._range = range_
        self._partition = TopicPartition(range_.topic, range_.partition)
        self._topic_id = uuid_from_text(range_.topic_id) if range_.topic_id else ZERO_UUID
        self._losses = Losses(reading.fail_on_data_loss, accepted)
        self._position = range_.start
        self._end = range_.end
        self._moved_at = time.monotonic()
        self._missing_since: float | None = None
        self._backoff = FIRST_BACKOFF
        self._gaps = 0

    def fetched(self) -> Iterator[Fetched]:
        self._check_history()
        sent: _Sent | None = None
        while self._position < self._end:
            try:
                sent = sent or self._send()
                data = self._receive(sent)
            except (Disconnected, RequestTimeout, KafkaError) as error:
                sent = None
                self._wait_out(error)
                continue
            sent = None
            if data.error_code != Code.NONE:
                self._refused(failure(data.error_code))
                continue
            fetched = self._taken(data)
            if fetched is None:
                continue
            if self._position < self._end:
                sent = self._sent_ahead()
            yield fetched

    def _check_history(self) -> None:
        """Whether the log still holds, up to the start, what was read before."""
        epoch = self._range.leader_epoch
        if epoch == NO_EPOCH:
            return
        try:
            end = epoch_ends(self._client, {self._partition: epoch})[self._partition]
        except UnsupportedApi:
            return
        if isinstance(end, EpochEnd) and 0 <= end.offset < self._position and not self._is_recreated():
            self._losses.report(truncated(self._partition, end.offset, self._position))

    def _send(self) -> _Sent:
        name = self._partition.topic
        connection = self._client.broker_connection(self._client.leader(self._partition))
        known = self._topic_id if self._topic_id != ZERO_UUID else self._client.topic(name).id
        version = connection.version(FetchRequest, _LAST_VERSION_WITH_NAMES if known == ZERO_UUID else None)
        by_id = version > _LAST_VERSION_WITH_NAMES
        topic = FetchTopic(topic_id=known) if by_id else FetchTopic(topic=name)
        topic.partitions.append(
            FetchPartition(
                partition=self._partition.partition,
                fetch_offset=self._position,
                partition_max_bytes=self._reading.max_partition_bytes,
            )
        )
        request = FetchRequest(
            max_wait_ms=int(self._reading.max_wait_seconds * 1000),
            min_bytes=self._reading.min_bytes,
            max_bytes=self._reading.max_bytes,
            isolation_level=READ_COMMITTED if self._reading.read_committed else READ_UNCOMMITTED,
            session_epoch=_SESSIONLESS,
            topics=[topic],
        )
        return _Sent(connection, connection.send(request, version))

    def _sent_ahead(self) -> _Sent | None:
        """A request that cannot be sent now is sent again, and its trouble met, when its answer is wanted."""
        try:
            return self._send()
        except (Disconnected, RequestTimeout, KafkaError):
            return None

    def _receive(self, sent: _Sent) -> PartitionData:
        timeout = self._client.request_timeout + self._reading.max_wait_seconds
        response = sent.connection.receive(sent.ticket, FetchResponse, timeout)
        if response.error_code != Code.NONE:
            raise failure(response.error_code)
        for topic in response.responses:
            for data in topic.partitions:
                return data
        # A throttled broker answers so (KIP-219).
        return PartitionData(records=b"", high_watermark=-1, last_stable_offset=-1)

    def _taken(self, data: PartitionData) -> Fetched | None:
        records = memoryview(data.records or b"")
        start, next_offset = self._position, end_offset(records)
        self._missing_since, self._backoff = None, FIRST_BACKOFF
        if next_offset is None or next_offset <= start:
            self._nothing_at_position(data)
            return None
        self._position, self._gaps, self._moved_at = next_offset, 0, time.monotonic()
        aborted = tuple((one.producer_id, one.first_offset) for one in data.aborted_transactions or ())
        return Fetched(
            self._partition,
            start,
            next_offset,
            data.high_watermark,
            data.last_stable_offset,
            data.log_start_offset,
            records,
            aborted,
            self._reading.check_crcs,
        )

    def _nothing_at_position(self, data: PartitionData) -> None:
        """Either a gap up to the range's end, or a leader that has yet to catch up with what was promised."""
        readable = data.last_stable_offset if self._reading.read_committed else data.high_watermark
        self._gaps = self._gaps + 1 if readable >= self._end else 0
        if self._gaps >= _GAP_CONFIRMATIONS:
            self._position = self._end
        elif time.monotonic() - self._moved_at > self._reading.deadline_seconds:
            raise NothingCame(
                f"no record of {self._partition} at or after offset {self._position} (wanted: up to {self._end}) "
                f"within {self._reading.deadline_seconds:g} s; the leader gives out records below {readable}"
            )

    def _refused(self, error: KafkaError) -> None:
        if error.code == Code.OFFSET_OUT_OF_RANGE:
            self._out_of_range()
        else:
            self._wait_out(error)

    def _out_of_range(self) -> None:
        first, last = self._found(EARLIEST), self._found(LATEST)
        if self._position < first:
            self._losses.report(expired(self._partition, self._position, min(first, self._end)))
            self._position = min(first, self._end)
        elif self._position > last:
            self._losses.report(truncated(self._partition, last, self._end))
            self._position = self._end

    def _found(self, where: int) -> int:
        found = list_offsets(self._client, {self._partition: where})[self._partition]
        if isinstance(found, FoundOffset):
            return found.offset
        self._wait_out(found)
        return self._position

    def _wait_out(self, error: Exception) -> None:
        """Forget where the leader was and pause; raises what will not pass, or has not passed until the deadline."""
        self._client.forget(self._partition.topic)
        if isinstance(error, KafkaError):
            if error.code in _MISPLACED and self._is_gone():
                return
            if (
                not is_retriable(error.code)
                and error.code not in _MISPLACED
                and error.code != Code.BROKER_NOT_AVAILABLE
            ):
                raise error
        if time.monotonic() - self._moved_at > self._reading.deadline_seconds:
            raise error
        time.sleep(self._backoff)
        self._backoff = min(self._backoff * 2, LAST_BACKOFF)

    def _is_gone(self) -> bool:
        """Whether the topic of this range is no more, in which case nothing of it is left to read."""
        if self._is_recreated():
            now = uuid_text(self._current_id())
            loss = recreated(self._partition, self._position, self._end, self._range.topic_id, now)
        elif self._is_missing():
            loss = deleted(self._partition, self._position)
        else:
            return False
        self._losses.report(loss)
        self._position = self._end
        return True

    def _is_recreated(self) -> bool:
        current = self._current_id()
        return ZERO_UUID not in (current, self._topic_id) and current != self._topic_id

    def _is_missing(self) -> bool:
        known = self._client.view.topics.get(self._partition.topic)
        if known is not None and self._partition.partition in known.partitions:
            self._missing_since = None
            return False
        now = time.monotonic()
        self._missing_since = self._missing_since or now
        return now - self._missing_since > min(DELETION_GRACE_SECONDS, self._reading.deadline_seconds)

    def _current_id(self) -> Uuid:
        """The id under which the name is known now; zero where it is not known."""
        name = self._partition.topic
        if name not in self._client.view.topics:
            self._client.refresh([name])
        known = self._client.view.topics.get(name)
        return known.id if known is not None else ZERO_UUID
