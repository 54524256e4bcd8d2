"""The `.snapshot` file: a partition's producers at the offset in its name. Only the last batch of each survives."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from crc32c import crc32c

from highwater.log.producer_state import MAX_SEQUENCE, BatchSeen, Producer

VERSION = 1
_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_FROM = 6


class BadSnapshot(ValueError):
    """Not a producer snapshot, or a damaged one: the state is rebuilt from the log instead."""


def encode(producers: Iterable[tuple[int, Producer]]) -> bytes:
    entries = []
    for pid, producer in sorted(producers):
        last = producer.batches[-1] if producer.batches else BatchSeen(-1, -1, -1, -1, -1)
        entries.append(
            _ENTRY.pack(
                pid,
                producer.epoch,
                last.last_sequence,
                last.last_offset,
                last.last_offset - last.first_offset,
                producer.timestamp,
                producer.coordinator_epoch,
                producer.txn_first_offset,
            )
        )
    data = bytearray(_HEAD.pack(VERSION, 0, len(entries)) + b"".join(entries))
    struct.pack_into(">I", data, 2, crc32c(memoryview(data)[_CRC_FROM:]))
    return bytes(data)


def decode(data: bytes) -> list[tuple[int, Producer]]:
    if len(data) < _HEAD.size:
        raise BadSnapshot(f"{len(data)} bytes")
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise BadSnapshot(f"version {version}")
    if len(data) != _HEAD.size + count * _ENTRY.size or crc != crc32c(data[_CRC_FROM:]):
        raise BadSnapshot("its checksum or its count is wrong")
    return [_producer(*fields) for fields in _ENTRY.iter_unpack(data[_HEAD.size :])]


def _producer(
    pid: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> tuple[int, Producer]:
    producer = Producer(epoch, timestamp, coordinator_epoch, txn_first_offset)
    if last_offset >= 0:
        first_sequence = last_sequence - offset_delta
        if first_sequence < 0:
            first_sequence += MAX_SEQUENCE + 1
        producer.batches.append(
            BatchSeen(first_sequence, last_sequence, last_offset - offset_delta, last_offset, timestamp)
        )
    return pid, producer
