"""The last batches of each producer in a partition. Duplicates are found and gaps are refused here. Pure.

Sequences are as in Kafka: from 0 to 2^31-1, and then from 0 again. The last five batches of a producer are remembered,
because a client has at most five in flight.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from highwater.errors import Code, KafkaError
from highwater.model import Offset

WINDOW = 5
MAX_SEQUENCE = 2**31 - 1


class BatchSeen(NamedTuple):
    first_sequence: int
    last_sequence: int
    first_offset: Offset
    last_offset: Offset
    timestamp: int


class Producer:
    __slots__ = ("batches", "coordinator_epoch", "copied", "epoch", "timestamp", "txn_first_offset")

    def __init__(self, epoch: int, timestamp: int, coordinator_epoch: int = -1, txn_first_offset: int = -1) -> None:
        self.epoch = epoch
        self.batches: list[BatchSeen] = []
        self.timestamp = timestamp
        self.coordinator_epoch = coordinator_epoch
        self.txn_first_offset = txn_first_offset
        self.copied = 0
        """How many snapshots had been taken when this object was made. Later snapshots contain this same object."""

    def copy(self) -> Producer:
        same = Producer(self.epoch, self.timestamp, self.coordinator_epoch, self.txn_first_offset)
        same.batches = self.batches.copy()
        return same

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


class ProducerState:
    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        self._open: dict[Offset, int] = {}
        """First offset of each open transaction -> its producer."""
        self._undecided: list[tuple[Offset, Offset]] = []
        """(first offset, offset of the marker) of ended transactions. The marker may be above the high watermark."""
        self._snapshots = 0

    @property
    def producers(self) -> dict[int, Producer]:
        return self._producers

    def find_duplicate(self, pid: int, epoch: int, first_sequence: int, last_sequence: int) -> BatchSeen | None:
        producer = self._producers.get(pid)
        if producer is None or producer.epoch != epoch:
            return None
        for seen in producer.batches:
            if seen.first_sequence == first_sequence and seen.last_sequence == last_sequence:
                return seen
        return None

    def check(self, pid: int, epoch: int, first_sequence: int) -> None:
        """Raises KafkaError if this batch must not be appended next. An unknown producer may begin with any
        sequence."""
        producer = self._producers.get(pid)
        if producer is None:
            return
        if epoch < producer.epoch:
            raise KafkaError(
                Code.INVALID_PRODUCER_EPOCH, f"producer {pid}: epoch {epoch} is older than {producer.epoch}"
            )
        if epoch > producer.epoch:
            if first_sequence != 0:
                raise KafkaError(
                    Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {pid}: its new epoch {epoch} begins with sequence {first_sequence}, not 0",
                )
            return
        last = producer.last_sequence
        expected = 0 if last == MAX_SEQUENCE else last + 1
        if first_sequence != expected:
            raise KafkaError(
                Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {pid}: sequence {first_sequence} came where {expected} was due",
            )

    def appended(
        self,
        pid: int,
        epoch: int,
        first_sequence: int,
        last_sequence: int,
        first_offset: Offset,
        last_offset: Offset,
        timestamp: int,
        transactional: bool = False,
    ) -> None:
        """A data batch was appended."""
        producer = self._writable(pid, epoch, timestamp)
        producer.batches.append(BatchSeen(first_sequence, last_sequence, first_offset, last_offset, timestamp))
        if len(producer.batches) > WINDOW:
            del producer.batches[0]
        if transactional and producer.txn_first_offset < 0:
            producer.txn_first_offset = first_offset
            self._open[first_offset] = pid

    def marker_appended(
        self, pid: int, epoch: int, offset: Offset, timestamp: int, coordinator_epoch: int, aborted: bool
    ) -> AbortedTransaction | None:
        """The marker of a transaction was appended. Returns the aborted transaction, if it was aborted and had data."""
        producer = self._writable(pid, epoch, timestamp)
        producer.coordinator_epoch = coordinator_epoch
        first = producer.txn_first_offset
        producer.txn_first_offset = -1
        if first < 0:
            return None
        self._open.pop(first, None)
        stable = min([offset + 1, *self._open])
        self._undecided.append((first, offset))
        return AbortedTransaction(pid, first, offset, stable) if aborted else None

    def _writable(self, pid: int, epoch: int, timestamp: int) -> Producer:
        """The producer in this epoch, as an object that is in no snapshot and may be changed."""
        producer = self._producers.get(pid)
        if producer is None:
            producer = self._producers[pid] = Producer(epoch, timestamp)
            producer.copied = self._snapshots
        elif producer.copied != self._snapshots:
            producer = self._producers[pid] = producer.copy()
            producer.copied = self._snapshots
        if producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        producer.timestamp = timestamp
        return producer

    def first_unstable(self, high_watermark: Offset) -> Offset | None:
        """The first offset of all transactions that are open, or have their marker at or above the high watermark."""
        if not self._open and not self._undecided:
            return None
        self._undecided = [(first, marker) for first, marker in self._undecided if marker >= high_watermark]
        return min([*self._open, *(first for first, _ in self._undecided)], default=None)

    def expire(self, now_ms: int, after_ms: int) -> int:
        """Forgets producers that wrote nothing for `after_ms`, except those with an open transaction."""
        gone = [
            pid
            for pid, producer in self._producers.items()
            if producer.txn_first_offset < 0 and now_ms - producer.timestamp >= after_ms
        ]
        for pid in gone:
            del self._producers[pid]
        return len(gone)

    def snapshot(self) -> dict[int, Producer]:
        """All producers as they are now. A later append copies its producer before it changes it. There may be very
        many producers, and to copy all of them at once would hold up the event loop."""
        self._snapshots += 1
        return self._producers.copy()

    def restore(self, pid: int, producer: Producer) -> None:
        self._producers[pid] = producer
        if producer.txn_first_offset >= 0:
            self._open[producer.txn_first_offset] = pid

    def restore_all(self, producers: Iterable[tuple[int, Producer]]) -> None:
        for pid, producer in producers:
            self.restore(pid, producer)
