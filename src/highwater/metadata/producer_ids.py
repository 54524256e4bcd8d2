"""The first producer id that no broker has yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from highwater.wire.messages.producer_ids_record import ProducerIdsRecord


@dataclass(frozen=True, slots=True)
class ProducerIdsImage:
    next_id: int = -1
    """-1 until the first block is allocated; that block starts at 0."""

    def records(self) -> Iterator[ProducerIdsRecord]:
        if self.next_id >= 0:
            yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_id)
