"""The `.snapshot` file: a partition's producers at the offset in its name, with the last batches of each.

Kafka writes one entry for each producer, its last batch. After a restart it knows no other one, and a client that
repeats several is told that they are out of order. Here each remembered batch has an entry, the oldest first. The form
is Kafka's, and Kafka reads it as one of its own: of the entries of a producer it keeps the last.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from crc32c import crc32c

from highwater.log.producer_state import MAX_SEQUENCE, WINDOW, BatchSeen, Producer

VERSION = 1
_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_FROM = 6
_NO_BATCH = BatchSeen(-1, -1, -1, -1, -1)


class BadSnapshot(ValueError):
    """Not a producer snapshot, or a damaged one: the state is rebuilt from the log instead."""


def encode(producers: Iterable[tuple[int, Producer]]) -> bytes:
    entries = []
    for pid, producer in sorted(producers):
        epoch, coordinator_epoch, timestamp = producer.epoch, producer.coordinator_epoch, producer.timestamp
        *earlier, last = producer.batches or [_NO_BATCH]
        for seen in earlier:
            # Kafka leaves out what is too old. An earlier batch must not stay where the last one goes.
            at = min(seen.timestamp, timestamp)
            delta = seen.last_offset - seen.first_offset
            entries.append(
                _ENTRY.pack(pid, epoch, seen.last_sequence, seen.last_offset, delta, at, coordinator_epoch, -1)
            )
        delta = last.last_offset - last.first_offset
        begun = producer.txn_first_offset
        entries.append(
            _ENTRY.pack(pid, epoch, last.last_sequence, last.last_offset, delta, timestamp, coordinator_epoch, begun)
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
    producers: dict[int, Producer] = {}
    for pid, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, begun in _ENTRY.iter_unpack(
        data[_HEAD.size :]
    ):
        earlier = producers.get(pid)
        producer = producers[pid] = Producer(epoch, timestamp, coordinator_epoch, begun)
        if last_offset < 0:
            continue
        if earlier is not None and earlier.epoch == epoch:
            producer.batches = earlier.batches[1 - WINDOW :]
        first_sequence = last_sequence - delta
        if first_sequence < 0:
            first_sequence += MAX_SEQUENCE + 1
        producer.batches.append(BatchSeen(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp))
    return list(producers.items())
