"""How large records are, by a look at those that a batch begins with: a broker counts offsets, and not bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from highwater.client.client import Client
from highwater.client.failures import ClientFailure
from highwater.errors import KafkaError
from highwater.model import TopicPartition
from highwater.pipeline.fetching import NothingCame, RangeFetch
from highwater.pipeline.loss import DataLoss
from highwater.pipeline.ranges import OffsetRange
from highwater.pipeline.reading import Reading
from highwater.wire.records import walk

LOOKED_AT = 16
"""Partitions, those with the largest backlog: the others are taken to be like them."""
FEW = 1000
"""A backlog of fewer records is not worth a look."""
GUESS = 1024.0
"""Bytes, of records that could not be looked at."""
_SAMPLE_BYTES = 256 << 10
_SECONDS = 5.0


class RecordSizes:
    """Bytes for each offset, as the brokers hold them (compressed)."""

    def __init__(self, reading: Reading) -> None:
        self._reading = replace(
            reading,
            max_partition_bytes=min(_SAMPLE_BYTES, reading.max_partition_bytes),
            deadline_seconds=min(_SECONDS, reading.deadline_seconds),
            fail_on_data_loss=True,
        )
        self._client: Client | None = None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def mean(self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> float:
        """Of the records between, weighted by how many there are of each partition."""
        waiting = {each: ends[each] - starts[each] for each in ends if ends[each] > starts[each]}
        found: dict[TopicPartition, float] = {}
        for partition in sorted(waiting, key=lambda each: (-waiting[each], each))[:LOOKED_AT]:
            size = self._looked_at(partition, starts[partition])
            if size is not None:
                found[partition] = size
        if not found:
            return GUESS
        return sum(size * waiting[each] for each, size in found.items()) / sum(waiting[each] for each in found)

    def _looked_at(self, partition: TopicPartition, start: int) -> float | None:
        """None where there is trouble: the tasks will meet it too, and they have the time to wait it out."""
        if self._client is None:
            self._client = self._reading.client()
        range_ = OffsetRange(partition.topic, "", partition.partition, start, start + 1)
        try:
            fetched = next(RangeFetch(self._client, self._reading, range_).fetched(), None)
        except (KafkaError, ClientFailure, NothingCame, DataLoss):
            return None
        first = None if fetched is None else next((header for _, _, header in walk(fetched.data)), None)
        if fetched is None or first is None:
            return None
        # Brokers give whole record batches, also of the records before the one that was asked for.
        return len(fetched.data) / (fetched.next_offset - min(start, first.base_offset))
