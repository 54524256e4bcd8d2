"""Produce without a class for each partition: requests decode to flat tuples, and responses are encoded from rows."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct as Layout
from typing import Final, NamedTuple

from highwater.model import Uuid
from highwater.wire import flat
from highwater.wire.reader import MOST_OBJECTS, FlexibleReader, Malformed, Reader, object_budget
from highwater.wire.writer import FlexibleWriter, Writer

LOG_START: Final = 5
RECORD_ERRORS: Final = 8
FLEXIBLE: Final = 9
LEADER_HINTS: Final = 10
TOPIC_IDS: Final = 13

_acks_timeout = Layout(">hi")
_int32 = Layout(">i")
_row = Layout(">ihqq")
_plain_row = Layout(">ihqqqbbb")

PartitionRecords = tuple[int, memoryview | None]
"""(partition, records as a view of the request's buffer)"""


class ProduceRequestFlat(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[str | Uuid, list[PartitionRecords]]]
    """Topics are named by name up to version 12, and by id from version 13 on."""


PartitionRow = tuple[
    int, int, int, int, int, Sequence[tuple[int, str | None]] | None, str | None, tuple[int, int] | None
]
"""(partition, error, base offset, append time ms, log start, (index, message) of each bad record, error message,
(leader id, leader epoch))"""


def decode_request(data: memoryview | bytes | bytearray, version: int, most: int = MOST_OBJECTS) -> ProduceRequestFlat:
    """Versions 3 to 13. Raises Malformed, and TooMany beyond `most` elements; unknown tags are dropped."""
    if version < FLEXIBLE:
        return _decode_classic(Reader(data, 0, most))
    try:
        return _decode_flexible(memoryview(data), version, most)
    except flat.ENDED:
        raise Malformed("the request ends within a value") from None


def _decode_classic(r: Reader) -> ProduceRequestFlat:
    transactional_id = r.nullable_string()
    acks, timeout_ms = r.unpack(_acks_timeout)
    topics: list[tuple[str | Uuid, list[PartitionRecords]]] = [
        (r.string(), [(r.int32(), r.nullable_records()) for _ in range(r.count(8))]) for _ in range(r.count(6))
    ]
    return ProduceRequestFlat(transactional_id, acks, timeout_ms, topics)


def _decode_flexible(data: memoryview, version: int, most: int) -> ProduceRequestFlat:
    transactional_id, pos = None, 1
    if data[0]:
        r = FlexibleReader(data)
        transactional_id, pos = r.nullable_string(), r.pos
    acks, timeout_ms = _acks_timeout.unpack_from(data, pos)
    by_id = version >= TOPIC_IDS
    count, pos = flat.count(data, pos + 6, 18 if by_id else 3)
    budget = flat.charge(object_budget(len(data), most), count)
    topics: list[tuple[str | Uuid, list[PartitionRecords]]] = []
    for _ in range(count):
        topic: str | Uuid
        if by_id:
            topic = Uuid(bytes(data[pos : pos + 16]))
            pos += 16
        else:
            topic, pos = flat.string(data, pos)
        partitions, pos, budget = _partitions(data, pos, budget)
        topics.append((topic, partitions))
        pos, budget = (pos + 1, budget) if data[pos] == 0 else flat.skip_tags(data, pos, budget)
    flat.skip_tags(data, pos, budget)
    return ProduceRequestFlat(transactional_id, acks, timeout_ms, topics)


def _partitions(data: memoryview, pos: int, budget: int) -> tuple[list[PartitionRecords], int, int]:
    count, pos = flat.count(data, pos, 6)
    budget = flat.charge(budget, 2 * count)  # a tuple and a view each
    partitions: list[PartitionRecords] = []
    for _ in range(count):
        partition: int = _int32.unpack_from(data, pos)[0]
        length = data[pos + 4]
        pos += 5
        if length >= 0x80:
            length, pos = flat.uvarint(data, pos - 1)
        if length == 0:
            partitions.append((partition, None))
        else:
            end = pos + length - 1
            if end > len(data):
                raise Malformed(f"{length - 1} bytes announced, {len(data) - pos} remain")
            partitions.append((partition, data[pos:end]))
            pos = end
        pos, budget = (pos + 1, budget) if data[pos] == 0 else flat.skip_tags(data, pos, budget)
    return partitions, pos, budget


def encode_response(
    version: int,
    topics: Sequence[tuple[str | Uuid, Sequence[PartitionRow]]],
    throttle_ms: int = 0,
    node_endpoints: Sequence[flat.NodeEndpoint] = (),
) -> bytes:
    """Versions 3 to 13. Fields that a version does not have (leader hints, record errors, log start) are left out."""
    w = FlexibleWriter() if version >= FLEXIBLE else Writer()
    w.count(len(topics))
    for topic, rows in topics:
        flat.write_topic(w, topic)
        w.count(len(rows))
        for row in rows:
            _write_row(w, version, row)
        w.tags(())
    w.int32(throttle_ms)
    w.tags((), flat.endpoint_tag(node_endpoints) if version >= LEADER_HINTS else ())
    return bytes(w.buffer)


def _write_row(w: Writer, version: int, row: PartitionRow) -> None:
    partition, error, base_offset, append_time_ms, log_start, record_errors, message, leader = row
    if version >= FLEXIBLE and record_errors is None and message is None and leader is None:
        # No record errors, no message, no tags: nearly every row there is.
        w.buffer += _plain_row.pack(partition, error, base_offset, append_time_ms, log_start, 1, 0, 0)
        return
    w.buffer += _row.pack(partition, error, base_offset, append_time_ms)
    if version >= LOG_START:
        w.int64(log_start)
    if version >= RECORD_ERRORS:
        w.count(len(record_errors or ()))
        for index, text in record_errors or ():
            w.int32(index)
            w.nullable_string(text)
            w.tags(())
        w.nullable_string(message)
    if leader is None or version < LEADER_HINTS:
        w.tags(())
    else:
        w.buffer += b"\x01" + flat.leader_tag(0, leader)
