"""Makes batches that are not larger than a request or a leader allows: one, or its halves (KIP-126)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from highwater.client.producer import Identity
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition
from highwater.wire.compression import Codec
from highwater.wire.records import NewRecord, build, iterate, read_header

SEQUENCES = 2**31
"""Sequence numbers begin again at 0 after this many."""

Shrink = Callable[[NewRecord], NewRecord | None]
"""Makes a smaller record that replaces a too large one; None if there is none."""


def excess(partition: TopicPartition, size: int, limit: str) -> KafkaError:
    return KafkaError(
        Code.MESSAGE_TOO_LARGE, f"{partition}: a record that takes {size} bytes is larger than {limit} bytes"
    )


@dataclass(slots=True, eq=False)
class SealedBatch:
    data: memoryview
    deadline: float
    is_stored: bool = False

    @property
    def sequence(self) -> int:
        return read_header(self.data).base_sequence

    @property
    def record_count(self) -> int:
        return read_header(self.data).record_count

    def records(self) -> list[NewRecord]:
        return [tuple(record[1:]) for record in iterate(self.data)]  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Sealing:
    """`identity` is None where batches have no sequence numbers."""

    identity: Identity | None
    codec: Codec
    max_request_bytes: int
    shrink: Shrink | None = None

    def batches(
        self, partition: TopicPartition, records: Sequence[NewRecord], sequence: int, too_large: int, deadline: float
    ) -> Iterator[SealedBatch]:
        """Halves the batch until each part is smaller than `too_large` or has a single record. The leader judges a
        single record. Raises KafkaError for a record that fits into no request."""
        data = self._sealed(records, sequence)
        if len(data) < too_large and len(data) <= self.max_request_bytes:
            yield SealedBatch(memoryview(data), deadline)
        elif len(records) > 1:
            middle = len(records) // 2
            yield from self.batches(partition, records[:middle], sequence, too_large, deadline)
            yield from self.batches(partition, records[middle:], sequence + middle, too_large, deadline)
        elif (smaller := self.shrunk(records[0])) is not None:
            yield from self.batches(partition, [smaller], sequence, too_large, deadline)
        elif len(data) > self.max_request_bytes:
            raise excess(partition, len(data), f"max.request.size of the producer, {self.max_request_bytes}")
        else:
            yield SealedBatch(memoryview(data), deadline)

    def cut(self, partition: TopicPartition, batch: SealedBatch, too_large: int) -> Iterator[SealedBatch]:
        """Together the parts have the same sequence numbers as the whole batch."""
        if batch.is_stored or len(batch.data) < too_large:
            yield batch
        else:
            yield from self.batches(partition, batch.records(), batch.sequence, too_large, batch.deadline)

    def can_be_smaller(self, batch: SealedBatch) -> bool:
        records = batch.records()
        return len(records) > 1 or self.shrunk(records[0]) is not None

    def shrunk(self, record: NewRecord) -> NewRecord | None:
        return None if self.shrink is None else self.shrink(record)

    def _sealed(self, records: Sequence[NewRecord], sequence: int) -> bytearray:
        if self.identity is None:
            return build(records, codec=self.codec)
        return build(
            records,
            codec=self.codec,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            base_sequence=sequence % SEQUENCES,
        )
