"""Columns of rows to batches of records for the partitions they belong to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.client.batch_sender import BatchSender
from highwater.client.client import Client
from highwater.kernel import NewRecord
from highwater.model import TopicPartition
from highwater.pipeline.partitioner import Partitions, partitions_of_keys

RECORD_OVERHEAD = 21
"""At most, what a record takes beside its key, its value and its headers."""


class Rows(NamedTuple):
    """Columns of one batch; None where there is no such column."""

    value: pa.BinaryArray
    key: pa.BinaryArray | None
    headers: pa.ListArray | None
    partition: pa.Int32Array | None

    def take(self, indexes: pa.Array) -> Rows:
        return Rows(*(None if column is None else column.take(indexes) for column in self))


class Router:
    """Records with a key go where Kafka's own producers would send them; those without, from batch to batch, around."""

    def __init__(self, client: Client, sender: BatchSender, batch_bytes: int, start: int = 0) -> None:
        self.client = client
        self.sender = sender
        self.batch_bytes = batch_bytes
        self._turn = start

    def send(self, topic: str, rows: Rows) -> None:
        if not len(rows.value):
            return
        chosen = self._partitions(topic, rows)
        order = np.argsort(chosen, kind="stable")
        bounds = np.flatnonzero(np.diff(chosen[order])) + 1
        for indexes in np.split(order, bounds):
            partition = TopicPartition(topic, int(chosen[indexes[0]]))
            part = rows if len(indexes) == len(order) else rows.take(pa.array(indexes))
            for records in self._batches(part):
                self.sender.add(partition, records)

    def _partitions(self, topic: str, rows: Rows) -> Partitions:
        known = self.client.retrying(lambda: self.client.topic(topic, create=True), await_topic=True)
        count = len(known.partitions)
        without_key = self._turn % count
        self._turn += 1
        if rows.key is None:
            chosen = np.full(len(rows.value), without_key, dtype=np.int64)
        else:
            chosen = partitions_of_keys(rows.key, count, without_key)
        if rows.partition is None:
            return chosen
        given = np.asarray(pc.fill_null(rows.partition, -1).to_numpy(zero_copy_only=False))
        is_given = np.asarray(rows.partition.is_valid().to_numpy(zero_copy_only=False))
        wrong = given[is_given & ((given < 0) | (given >= count))]
        if len(wrong):
            raise ValueError(f"a row is for partition {wrong[0]} of topic {topic}, which has 0 to {count - 1}")
        return np.where(is_given, given, chosen)

    def _batches(self, rows: Rows) -> Iterator[list[NewRecord]]:
        """Records in batches of at most `batch_bytes`, or of one record that is larger."""
        ends = np.cumsum(_sizes(rows))
        now = int(time.time() * 1000)
        start, done = 0, 0
        while start < len(ends):
            end = max(start + 1, int(np.searchsorted(ends, done + self.batch_bytes, side="right")))
            yield list(_records(rows, start, end - start, now))
            start, done = end, int(ends[end - 1])


def _records(rows: Rows, start: int, count: int, now: int) -> Iterator[NewRecord]:
    values = rows.value.slice(start, count).to_pylist()
    keys: list[Any] = [None] * count if rows.key is None else rows.key.slice(start, count).to_pylist()
    if rows.headers is None:
        return zip([now] * count, keys, values, [()] * count, strict=True)
    headers = (
        [(header["key"], header["value"]) for header in cell or () if header is not None]
        for cell in rows.headers.slice(start, count).to_pylist()
    )
    return zip([now] * count, keys, values, headers, strict=True)


def _sizes(rows: Rows) -> Any:
    sizes = np.full(len(rows.value), RECORD_OVERHEAD, dtype=np.int64)
    for column in (rows.value, rows.key):
        if column is not None:
            sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    if rows.headers is not None:
        for row, cell in enumerate(rows.headers.to_pylist()):
            sizes[row] += sum(16 + len(each["key"]) * 4 + len(each["value"] or b"") for each in cell or () if each)
    return sizes
