"""The result of one fetch for one partition, as records or as columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from highwater import kernel
from highwater.errors import Code, KafkaError
from highwater.kernel import Record
from highwater.model import TopicPartition
from highwater.wire.records import Header, columns, is_intact, section, walk


@dataclass(frozen=True, slots=True)
class Fetched:
    """Whole batches, as the broker stores them. The first one may have records before `start`."""

    partition: TopicPartition
    start: int
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    data: memoryview
    aborted: tuple[tuple[int, int], ...] = ()
    """(producer id, first offset) of aborted transactions; only a read_committed fetch has any."""
    check_crcs: bool = True

    def __iter__(self) -> Iterator[Record]:
        for _, records in self.batches():
            yield from records

    def batches(self) -> Iterator[tuple[Header, list[Record]]]:
        """Each data batch with its records from `start` on, without aborted ones."""
        waiting = sorted(self.aborted, key=lambda transaction: transaction[1], reverse=True)
        dropped: set[int] = set()
        for pos, size, header in walk(self.data):
            while waiting and waiting[-1][1] <= header.last_offset:
                dropped.add(waiting.pop()[0])
            if header.is_control:
                dropped.discard(header.producer_id)
                continue
            if header.last_offset < self.start or (header.is_transactional and header.producer_id in dropped):
                continue
            if self.check_crcs and not is_intact(self.data, pos, size):
                raise KafkaError(
                    Code.CORRUPT_MESSAGE, f"the checksum of the batch at {self.partition} {header.base_offset} is wrong"
                )
            records = kernel.iterate(section(header, self.data[pos : pos + size]))
            yield header, [record for record in records if record.offset >= self.start]

    def columns(
        self, *, end: int = 2**63 - 1, keys: bool = True, values: bool = True, headers: bool = False
    ) -> Iterator[Any]:
        """The same records, up to `end`, as pyarrow.RecordBatches of bounded size."""
        return columns(
            [self.data],
            start=self.start,
            end=end,
            check_crc=self.check_crcs,
            aborted=self.aborted,
            keys=keys,
            values=values,
            headers=headers,
        )
