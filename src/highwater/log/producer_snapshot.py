"""The `.snapshot` file: the producers of a partition at the offset in the file's name, with the last batches of each.

Kafka writes one entry for each producer, with its last batch. After a restart it knows no other batch, so a client that
repeats several gets OUT_OF_ORDER_SEQUENCE_NUMBER. Here each remembered batch has an entry, the oldest first. The format
is Kafka's, and Kafka can read the file: it keeps the last entry of each producer.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from crc32c import crc32c

from highwater.log.producer_state import MAX_SEQUENCE, WINDOW, BatchSeen, Producer

VERSION = 1
_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_FROM = 6
_NO_BATCH = BatchSeen(-1, -1, -1, -1, -1)


class BadSnapshot(ValueError):
    """The file is not a producer snapshot, or is damaged. The state is rebuilt from the log instead."""


def encode(producers: Mapping[int, Producer]) -> bytes:
    entries = []
    for pid in sorted(producers):
        producer = producers[pid]
        epoch, coordinator_epoch, timestamp = producer.epoch, producer.coordinator_epoch, producer.timestamp
        *earlier, last = producer.batches or [_NO_BATCH]
        for seen in earlier:
            # Kafka drops entries that are too old. An earlier batch must not stay when the last one is dropped.
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
