"""Sends single records as batches, and reports the latency of each: from its sending until its batch is stored."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable

from highwater.client.batch_sender import BatchSender
from highwater.client.client import Client
from highwater.model import TopicPartition
from highwater.wire.records import NewRecord

RECORD_OVERHEAD = 8
"""About what a record takes in a batch beside its value."""

OnRecord = Callable[[int, int, float], None]
"""Called for each stored record with its number, its size and the time of its sending (seconds, monotonic)."""


class PacedSender:
    """A batch goes when it has `batch_size` bytes, or when its first record is `linger` seconds old. Records without a
    key stay with one partition until its batch goes, as with Kafka's producer."""

    def __init__(self, client: Client, topic: str, batch_size: int, linger: float, on_record: OnRecord) -> None:
        self._client = client
        self._topic = topic
        self._batch_size = batch_size
        self._linger = linger
        self._on_record = on_record
        self._partitions = sorted(
            client.retrying(lambda: client.topic(topic, create=True), await_topic=True).partitions
        )
        self._sent = 0
        self._open: list[NewRecord] = []
        self._open_records: list[tuple[int, int, float]] = []
        self._open_size = 0
        self._waiting: dict[TopicPartition, deque[tuple[int, int, float]]] = {}
        """Records on their way, in the order of their partition."""

    def on_stored(self, partition: TopicPartition, count: int) -> None:
        waiting = self._waiting[partition]
        for _ in range(count):
            self._on_record(*waiting.popleft())

    def send(self, sender: BatchSender, value: bytes) -> None:
        now = time.monotonic()
        self._open.append((int(time.time() * 1000), None, value, ()))
        self._open_records.append((self._sent, len(value), now))
        self._sent += 1
        self._open_size += RECORD_OVERHEAD + len(value)
        if self._open_size >= self._batch_size or now >= self._due:
            self._close_batch(sender)
            sender.settle(0)

    def wait(self, sender: BatchSender, until: float) -> None:
        """Waits until this time, and meanwhile takes answers and sends the open batch when it is due."""
        while (now := time.monotonic()) < until:
            if self._open and now >= self._due:
                self._close_batch(sender)
            pause = min(until, self._due if self._open else until) - now
            if any(self._waiting.values()):
                sender.settle(max(pause, 0.0))
            else:
                time.sleep(max(pause, 0.0))

    def flush(self, sender: BatchSender) -> None:
        if self._open:
            self._close_batch(sender)
        sender.flush()

    @property
    def _due(self) -> float:
        return self._open_records[0][2] + self._linger

    def _close_batch(self, sender: BatchSender) -> None:
        partition = TopicPartition(self._topic, random.choice(self._partitions))
        self._waiting.setdefault(partition, deque()).extend(self._open_records)
        records, self._open, self._open_records, self._open_size = self._open, [], [], 0
        sender.add(partition, records)
