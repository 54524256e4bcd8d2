"""The 61-byte header of a record batch (magic 2): reads it, finds batches by it, and changes it in place."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from highwater.kernel import BadRecords

if TYPE_CHECKING:
    from typing_extensions import Buffer

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
MAGIC = 2

LENGTH_AT = 8
LENGTH_PREFIX = 12
"""The bytes before those that the length field counts."""
LEADER_EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
"""The bytes covered by the checksum begin here, too."""
MAX_TIMESTAMP_AT = 35

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
_DEFINED = 0x7F

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

_SEQUENCES = 2**31

_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")


class Header(NamedTuple):
    """The fields in their order in the bytes. Values that follow from them are computed when they are used."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LENGTH_PREFIX + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number, which wraps from 2^31-1 to 0."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCES

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon(self) -> int | None:
        """When tombstones and markers may be removed. The cleaner sets it; then it is in the place of the base
        timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


def read_header(buffer: Buffer, pos: int = 0) -> Header:
    """The header at `pos`. The caller has checked that 61 bytes are there."""
    return Header._make(HEADER.unpack_from(buffer, pos))


def walk(buffer: Buffer, pos: int = 0, end: int | None = None) -> Iterator[tuple[int, int, Header]]:
    """Each whole batch as (position, size, header). Ends before a batch that is cut off. Raises `BadRecords` at a
    position where no batch of magic 2 can begin. Checksums are not checked: see `is_intact`."""
    if end is None:
        end = memoryview(buffer).nbytes
    while end - pos >= HEADER_SIZE:
        header = Header._make(HEADER.unpack_from(buffer, pos))
        size = LENGTH_PREFIX + header.length
        if size < HEADER_SIZE or header.magic != MAGIC:
            raise BadRecords(f"no batch of magic 2 at {pos}: length {header.length}, magic {header.magic}")
        if size > end - pos:
            return
        yield pos, size, header
        pos += size


def end_offset(buffer: Buffer) -> int | None:
    """The offset after the last whole batch, from which a reader continues, even if it skipped batches. None if there
    is no whole batch."""
    offset = None
    for _, _, header in walk(buffer):
        offset = header.next_offset
    return offset


def is_intact(buffer: Buffer, pos: int = 0, size: int | None = None) -> bool:
    """Whether the checksum in the batch at `pos` matches its bytes."""
    view = memoryview(buffer)
    stop = len(view) if size is None else pos + size
    return bool(_CRC.unpack_from(view, pos + CRC_AT)[0] == crc32c(view[pos + ATTRIBUTES_AT : stop]))


def stamp(buffer: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Sets the offset and the leader epoch of the batch at `pos`. The checksum covers neither of them."""
    _BASE_OFFSET.pack_into(buffer, pos, base_offset)
    _LEADER_EPOCH.pack_into(buffer, pos + LEADER_EPOCH_AT, leader_epoch)


def set_max_timestamp(
    buffer: bytearray | memoryview, pos: int, size: int, max_timestamp: int, log_append_time: bool
) -> None:
    """Rewrites the largest timestamp, the timestamp type (set by the producer or the broker), and the checksum. As in
    Kafka, attribute bits without a meaning are cleared."""
    attributes = _ATTRIBUTES.unpack_from(buffer, pos + ATTRIBUTES_AT)[0] & _DEFINED
    attributes = attributes | LOG_APPEND_TIME if log_append_time else attributes & ~LOG_APPEND_TIME
    _ATTRIBUTES.pack_into(buffer, pos + ATTRIBUTES_AT, attributes)
    _MAX_TIMESTAMP.pack_into(buffer, pos + MAX_TIMESTAMP_AT, max_timestamp)
    seal(buffer, pos, size)


def set_log_append_time(buffer: bytearray | memoryview, pos: int, size: int, now_ms: int) -> None:
    """Gives the batch the broker's time instead of the timestamps of its records."""
    set_max_timestamp(buffer, pos, size, now_ms, log_append_time=True)


def seal(buffer: bytearray | memoryview, pos: int, size: int) -> None:
    """Writes length and checksum of the batch in [pos, pos + size)."""
    _LENGTH.pack_into(buffer, pos + LENGTH_AT, size - LENGTH_PREFIX)
    with memoryview(buffer) as view:
        _CRC.pack_into(buffer, pos + CRC_AT, crc32c(view[pos + ATTRIBUTES_AT : pos + size]))
