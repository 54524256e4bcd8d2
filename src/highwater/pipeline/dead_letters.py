"""Records that do not fit their schema, written to a topic of their own with where they came from and why.

They are written before their batch commits, so none is lost. A batch that is tried again writes them again, so a record
may be there more than once (at least once). Copies have the same topic, partition and offset in their headers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from highwater.client.batch_sender import BatchSender
from highwater.client.client import Client, KnownTopic
from highwater.client.producer import partition_for_key
from highwater.errors import Code, KafkaError
from highwater.kernel import NewRecord
from highwater.model import TopicPartition
from highwater.pipeline.decode.decoder import REASON
from highwater.pipeline.producing import ProducerSettings
from highwater.pipeline.selection import BadOption

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX = "__highwater.errors."
"""As Kafka Connect begins the headers of its dead letter queue with `__connect.errors.`."""
TOPIC_HEADER = PREFIX + "topic"
PARTITION_HEADER = PREFIX + "partition"
OFFSET_HEADER = PREFIX + "offset"
TIMESTAMP_HEADER = PREFIX + "timestamp"
REASON_HEADER = PREFIX + "reason"
SIZE_HEADER = PREFIX + "value-bytes"
"""Of a letter that goes without its value, since the topic has no room for it: how large that was."""

_RECORD_OVERHEAD = 21


TOPIC_SECONDS = 5.0
"""So long brokers that create topics by themselves may take for it."""

_seen: set[tuple[str, str]] = set()
"""Servers and topics that this process has found: Spark's workers live for many tasks."""


def find_topic(client: Client, topic: str, purpose: str = "the dead letters go to") -> KnownTopic:
    """Raises BadOption where the topic is not there and does not come by being asked for."""
    try:
        timeout = min(TOPIC_SECONDS, client.timeout)
        return client.retrying(lambda: client.topic(topic, create=True), timeout=timeout, await_topic=True)
    except KafkaError as error:
        if error.code != Code.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        raise BadOption(
            f"the cluster has no topic {topic}, which {purpose}, and does not create it when asked: "
            f"create it first, for instance with `highwater topics --create --topic {topic}`"
        ) from error


class DeadLetters:
    """Writes to one topic. Use as a context: leaving it flushes.

    Entering it makes sure, once in each process, that the topic is there: else that would be found with the first bad
    record, perhaps weeks later. Then it connects only when there is a first record to write.
    """

    def __init__(self, topic: str, settings: ProducerSettings) -> None:
        self.topic = topic
        self.settings = settings
        self._client: Client | None = None
        self._sender: BatchSender | None = None

    def __enter__(self) -> DeadLetters:
        known = self.settings.bootstrap_servers, self.topic
        if known not in _seen:
            with self.settings.client() as client:
                find_topic(client, self.topic)
            _seen.add(known)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._sender is not None and kind is None:
                self._sender.flush()
        finally:
            if self._sender is not None:
                self._sender.close()
            if self._client is not None:
                self._client.close()

    def write(self, bad: pa.RecordBatch) -> None:
        """`bad` as a decoder gives it. What was written is stored when the context has been left."""
        if not bad.num_rows:
            return
        if self._client is None:
            self._client = self.settings.client()
        if self._sender is None:
            self._sender = self.settings.sender(self._client, without_value)
        client = self._client
        known = find_topic(client, self.topic)
        by_partition: dict[int, list[NewRecord]] = {}
        for origin, record in dead_letters(bad, int(time.time() * 1000)):
            # Without a key, records of one partition stay together and in order.
            key = record[1]
            at = origin % len(known.partitions) if key is None else partition_for_key(bytes(key), len(known.partitions))
            by_partition.setdefault(at, []).append(record)
        for partition, records in by_partition.items():
            for batch in in_batches(records, self.settings.batch_bytes):
                self._sender.add(TopicPartition(self.topic, partition), batch)


def dead_letters(bad: pa.RecordBatch, now: int) -> Iterator[tuple[int, NewRecord]]:
    """The partition that each record was read from, and the record to be written: key, value and headers as they were,
    then our own."""
    import pyarrow as pa

    # As numbers: Python has no moment beyond the year 9999, and Kafka takes any.
    times = bad.column("timestamp").cast(pa.int64()).to_pylist()
    for row, microseconds in zip(bad.drop_columns(["timestamp"]).to_pylist(), times, strict=True):
        headers = [(each["key"], each["value"]) for each in row.get("headers") or ()]
        ours = [
            (TOPIC_HEADER, row["topic"]),
            (PARTITION_HEADER, row["partition"]),
            (OFFSET_HEADER, row["offset"]),
            (TIMESTAMP_HEADER, microseconds // 1000),
            (REASON_HEADER, row[REASON]),
        ]
        headers += [(name, str(content).encode()) for name, content in ours]
        yield row["partition"], (now, row["key"], row["value"], headers)


def without_value(record: NewRecord) -> NewRecord | None:
    """A bad record must not stop its batch, even if it is too large: its coordinates show where it can be read."""
    timestamp, key, value, headers = record
    if value is None:
        return None
    size = str(len(memoryview(value))).encode()
    return timestamp, key, None, [*headers, (SIZE_HEADER, size)]


def in_batches(records: list[NewRecord], limit: int) -> Iterator[list[NewRecord]]:
    """Cut into batches of at most `limit` bytes, or of one record that is larger."""
    batch: list[NewRecord] = []
    used = 0
    for record in records:
        size = _size(record)
        if batch and used + size > limit:
            yield batch
            batch, used = [], 0
        batch.append(record)
        used += size
    if batch:
        yield batch


def _size(record: NewRecord) -> int:
    _, key, value, headers = record
    fields = [key, value, *(part for name, content in headers for part in (name.encode(), content))]
    return _RECORD_OVERHEAD + sum(2 + len(memoryview(part)) for part in fields if part is not None)
