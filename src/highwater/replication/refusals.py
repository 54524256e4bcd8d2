"""Batches that a leader could not take a moment ago, and the later ones of the same producers. Pure.

An idempotent producer has up to five batches in flight. If the first one is refused because the disk is full, the next
one leaves a gap, and Kafka answers OUT_OF_ORDER_SEQUENCE_NUMBER. After that error librdkafka begins a new producer
epoch and numbers anew whatever it has in flight, for all partitions. If a batch was written elsewhere and only its
acknowledgement was lost, it is then written twice. So the next batches are refused for the same reason as the first
one: the producer sends all of them again, in their order.
"""

from __future__ import annotations

from typing import NamedTuple

from highwater.errors import Code, KafkaError
from highwater.wire.records import HEADER_SIZE, read_header
from highwater.wire.records.append import Validated

TRIED_AGAIN = (Code.KAFKA_STORAGE_ERROR, Code.NOT_ENOUGH_REPLICAS, Code.NOT_LEADER_OR_FOLLOWER)
"""Errors of a batch that was not appended, after which producers send it again."""
HELD_SECONDS = 5.0
"""Producers send a batch again after a second at most. One that does not come back went to another leader."""
AT_MOST = 64
_SEQUENCES = 2**31


class Batch(NamedTuple):
    """What a batch says of its producer. The producer id is negative if the batch has none."""

    producer: int
    epoch: int
    sequence: int

    @classmethod
    def of(cls, field: memoryview | Validated) -> Batch:
        """The batch may not be validated yet."""
        if not isinstance(field, Validated) and len(field) < HEADER_SIZE:
            return cls(-1, -1, -1)
        header = field.header if isinstance(field, Validated) else read_header(field)
        return cls(header.producer_id, header.producer_epoch, header.base_sequence)


class _Refusal(NamedTuple):
    batch: Batch
    code: Code
    at: float


class Refusals:
    """Of each producer the earliest batch that was refused and has not come back. They are in the order of their
    times."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, _Refusal] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def answer(self, batch: Batch, failed: KafkaError, now: float) -> KafkaError:
        """The error with which a batch that failed is refused. A gap that an earlier refusal left is no fault of the
        producer."""
        if failed.code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return self._cause(batch, now) or failed
        if failed.code in TRIED_AGAIN and batch.producer >= 0 and self._cause(batch, now) is None:
            self._by_producer.pop(batch.producer, None)
            self._by_producer[batch.producer] = _Refusal(batch, failed.code, now)
            oldest, refusal = next(iter(self._by_producer.items()))
            if len(self._by_producer) > AT_MOST or now - refusal.at > HELD_SECONDS:
                del self._by_producer[oldest]
        return failed

    def appended(self, batch: Batch) -> None:
        """The batch was appended or is there already, and so is every earlier one of its producer."""
        known = self._by_producer.get(batch.producer)
        if known is not None and not (known.batch.epoch == batch.epoch and _is_behind(known.batch, batch)):
            del self._by_producer[batch.producer]

    def check(self, batch: Batch, now: float) -> None:
        """Raises KafkaError if an earlier batch of the same producer epoch was refused a moment ago."""
        cause = self._cause(batch, now)
        if cause is not None:
            raise cause

    def _cause(self, batch: Batch, now: float) -> KafkaError | None:
        known = self._by_producer.get(batch.producer)
        if known is None or known.batch.epoch != batch.epoch or now - known.at > HELD_SECONDS:
            return None
        if not _is_behind(batch, known.batch):
            return None
        why = f"the batch of producer {batch.producer} with sequence {known.batch.sequence} was refused before it"
        return KafkaError(known.code, why)


def _is_behind(batch: Batch, other: Batch) -> bool:
    """Whether it comes after the other one. Sequences begin again at 0 after the largest."""
    return 0 < (batch.sequence - other.sequence) % _SEQUENCES < _SEQUENCES // 2
