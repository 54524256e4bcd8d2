"""Removes records from a batch. Offsets and sequences never change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from highwater import kernel
from highwater.kernel import KeyTable, Section
from highwater.log.compaction.transactions import CleanedTransactions
from highwater.model import Offset
from highwater.wire import compression
from highwater.wire.records import HEADER, HEADER_SIZE, NO_TIMESTAMP, Header, parse_control, seal, section
from highwater.wire.records import header as layout
from highwater.world import Buffer

_END_OF_TIME_MS = 2**63 - 1
"""The largest timestamp in a batch. A retention that ends later lasts for ever."""


class LastWritten(NamedTuple):
    """The last write of a producer that is still remembered: the last offset of its last batch; None if only the epoch
    of a marker is known."""

    offset: Offset | None
    epoch: int


class Thinning:
    def __init__(
        self,
        table: KeyTable,
        latest: Offset,
        now_ms: int,
        delete_retention_ms: int,
        producers: Mapping[int, LastWritten],
        transactions: CleanedTransactions,
    ) -> None:
        self._table = table
        self._latest = latest
        """The last offset in the table. Records beyond it stay."""
        self._now_ms = now_ms
        self._horizon = min(now_ms + delete_retention_ms, _END_OF_TIME_MS)
        self._producers = producers
        self._transactions = transactions

    def __call__(self, header: Header, batch: memoryview, must_stay: bool) -> Buffer | None:
        """What is left of the batch: the batch itself, a smaller one, only its header, or nothing (None)."""
        must_stay = must_stay or self._is_last_of_its_producer(header)
        if header.is_control:
            return self._marker(header, batch, must_stay)
        if self._transactions.data_met(header) or not header.record_count:
            return _emptied(header) if must_stay else None
        horizon = header.delete_horizon
        tombstones = horizon is None or self._now_ms < horizon
        records = section(header, batch)
        data, kept, largest, has_tombstone = kernel.retain(records, self._table, self._latest, tombstones, HEADER_SIZE)
        if not kept:
            return _emptied(header) if must_stay else None
        begins_horizon = has_tombstone and horizon is None
        if kept == header.record_count and not begins_horizon:
            return batch
        if begins_horizon:
            with memoryview(data) as view:
                left = records._replace(data=view[HEADER_SIZE:], record_count=kept)
                return self._with_horizon(header, left, largest)
        return _sealed(header, data, kept, largest)

    def _with_horizon(self, header: Header, records: Section, largest: int) -> bytearray:
        """Sets the delete horizon: readers have until then to see the batch's tombstones, or the marker that it is."""
        attributes = header.attributes | layout.DELETE_HORIZON
        begun = header._replace(attributes=attributes, base_timestamp=self._horizon)
        return _sealed(begun, kernel.rebased(records, self._horizon, HEADER_SIZE), records.record_count, largest)

    def _marker(self, header: Header, batch: memoryview, must_stay: bool) -> Buffer | None:
        kind = parse_control(batch)[0].type if header.record_count else None
        decided = self._transactions.marker_met(header, kind)
        horizon = header.delete_horizon
        if kind is None or (decided and horizon is not None and horizon <= self._now_ms):
            return _emptied(header) if must_stay else None
        if decided and horizon is None:
            return self._with_horizon(header, section(header, batch), header.max_timestamp)
        return batch

    def _is_last_of_its_producer(self, header: Header) -> bool:
        last = self._producers.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.offset is not None:
            return header.last_offset == last.offset
        return header.is_control and header.producer_epoch == last.epoch


def _sealed(header: Header, data: bytearray, kept: int, largest: int) -> bytearray:
    if header.codec:
        with memoryview(data) as view:
            packed = compression.compress(header.codec, view[HEADER_SIZE:])
        data[HEADER_SIZE:] = memoryview(packed)
    newest = header.max_timestamp if header.is_log_append_time else largest
    HEADER.pack_into(data, 0, *header._replace(record_count=kept, max_timestamp=newest))
    seal(data, 0, len(data))
    return data


def _emptied(header: Header) -> bytearray:
    """Only the header: it keeps the offsets and the producer's sequence."""
    attributes = header.attributes & ~layout.CODEC_MASK & ~layout.DELETE_HORIZON
    data = bytearray(HEADER_SIZE)
    HEADER.pack_into(data, 0, *header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0))
    seal(data, 0, HEADER_SIZE)
    return data
