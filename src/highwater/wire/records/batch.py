"""Whole batches: built from records; and read, searched, and converted to columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from highwater import kernel
from highwater.kernel import BadRecords, NewRecord, Record, Section, Wanted
from highwater.wire import compression
from highwater.wire.records import header as layout
from highwater.wire.records.header import HEADER, HEADER_SIZE, Header, is_intact, read_header, walk

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")
READ_LIMIT = 1 << 30
"""The limit for one stored batch when it is decompressed. Batches of producers have a lower limit when they are
appended."""


def build(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    offset_deltas: Sequence[int] | None = None,
    codec: int = 0,
    level: int | None = None,
    log_append_time: int | None = None,
    leader_epoch: int = layout.NO_LEADER_EPOCH,
    producer_id: int = layout.NO_PRODUCER_ID,
    producer_epoch: int = layout.NO_PRODUCER_EPOCH,
    base_sequence: int = layout.NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
) -> bytearray:
    """One complete batch of (timestamp, key, value, headers). Offsets are consecutive unless `offset_deltas` says
    otherwise."""
    if not records:
        raise ValueError("a batch needs a record")
    base_timestamp = records[0][0]
    batch = kernel.encode(records, base_timestamp, offset_deltas, HEADER_SIZE)
    if codec:
        with memoryview(batch) as view:
            packed = compression.compress(codec, view[HEADER_SIZE:], level)
        batch[HEADER_SIZE:] = memoryview(packed)
    attributes = codec
    attributes |= layout.LOG_APPEND_TIME if log_append_time is not None else 0
    attributes |= layout.TRANSACTIONAL if transactional else 0
    attributes |= layout.CONTROL if control else 0
    largest = max(record[0] for record in records) if log_append_time is None else log_append_time
    last_delta = len(records) - 1 if offset_deltas is None else offset_deltas[-1]
    HEADER.pack_into(
        batch, 0, base_offset, 0, leader_epoch, layout.MAGIC, 0, attributes, last_delta, base_timestamp, largest,
        producer_id, producer_epoch, base_sequence, len(records),
    )  # fmt: skip
    layout.seal(batch, 0, len(batch))
    return batch


def section(header: Header, batch: Buffer, limit: int = READ_LIMIT) -> Section:
    """The batch's records, decompressed. Raises `BadRecords`, or `compression.TooLarge` beyond `limit` bytes."""
    attributes = header.attributes
    data: Buffer = b""
    if header.record_count:
        data = memoryview(batch)[HEADER_SIZE : header.length + layout.LENGTH_PREFIX]
        if attributes & layout.CODEC_MASK:
            try:
                data = compression.decompress(attributes & layout.CODEC_MASK, data, limit)
            except compression.TooLarge:
                raise
            except compression.BadCompression as error:
                raise BadRecords(str(error)) from error
    append_time = header.max_timestamp if attributes & layout.LOG_APPEND_TIME else None
    return Section(data, header.record_count, header.base_offset, header.base_timestamp, append_time)


def _whole(batch: Buffer) -> Header:
    view = memoryview(batch)
    if len(view) < HEADER_SIZE:
        raise BadRecords("shorter than a batch header")
    header = read_header(view)
    if header.magic != layout.MAGIC or not HEADER_SIZE <= header.size <= len(view):
        raise BadRecords("not a whole batch of magic 2")
    return header


def iterate(batch: Buffer) -> list[Record]:
    """The records of one batch, with absolute offsets."""
    return kernel.iterate(section(_whole(batch), batch))


def iterate_some(batch: Buffer, start: int, most: int) -> list[Record]:
    """The first `most` records of one batch at or after offset `start`. Only these are kept in memory, even if many
    follow."""
    return _alone(_whole(batch), batch, lambda found: kernel.iterate(found, start, most))


def iterate_all(buffer: Buffer) -> Iterator[Record]:
    """The records of every whole data batch. Control batches are skipped."""
    view = memoryview(buffer)
    for pos, size, header in walk(view):
        if not header.is_control:
            yield from kernel.iterate(section(header, view[pos : pos + size]))


def find_timestamp(batch: Buffer, timestamp: int, start: int = 0) -> tuple[int, int] | None:
    """Offset and timestamp of the batch's first record at or after `timestamp` and offset `start`, if any."""
    header = _whole(batch)
    if header.max_timestamp < timestamp:
        return None
    return _alone(header, batch, lambda found: kernel.find_timestamp(found, timestamp, start))


def max_timestamp_offset(batch: Buffer, start: int = 0) -> tuple[int, int] | None:
    """Offset and timestamp of the first record with the largest timestamp of the batch's records from `start` on."""
    return _alone(_whole(batch), batch, lambda found: kernel.latest(found, start))


def _alone(header: Header, batch: Buffer, read: Callable[[Section], T]) -> T:
    """Reads the batch's records. If they are large when decompressed, only one thread at a time has such records in
    memory."""
    try:
        return read(section(header, batch, compression.SHARED))
    except compression.TooLarge:
        with compression.ALONE:
            return read(section(header, batch))


def columns(
    buffers: Iterable[Buffer],
    *,
    start: int = Wanted().start,
    end: int = Wanted().end,
    check_crc: bool = True,
    aborted: Sequence[tuple[int, int]] | None = None,
    keys: bool = True,
    values: bool = True,
    headers: bool = False,
    limit: int = READ_LIMIT,
) -> Iterator[Any]:
    """The data records of all whole batches in `buffers` with offsets in [start, end), as pyarrow.RecordBatches. Only
    one batch and one RecordBatch of limited size are in memory at a time. `aborted` is the list (producer id, first
    offset) in the response to a read_committed fetch: records of these transactions are left out."""
    wanted = Wanted(start, end, keys, values, headers)
    return kernel.columns(_readable(buffers, wanted, check_crc, aborted or (), limit), wanted)


def _readable(
    buffers: Iterable[Buffer], wanted: Wanted, check_crc: bool, aborted: Sequence[tuple[int, int]], limit: int
) -> Iterator[Section]:
    """The sections with wanted records. Batches of an aborted transaction are left out, up to its marker."""
    waiting = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
    dropped: set[int] = set()
    for buffer in buffers:
        view = memoryview(buffer)
        for pos, size, header in walk(view):
            while waiting and waiting[-1][1] <= header.last_offset:
                dropped.add(waiting.pop()[0])
            if header.is_control:
                dropped.discard(header.producer_id)
                continue
            if header.is_transactional and header.producer_id in dropped:
                continue
            if header.last_offset < wanted.start or header.base_offset >= wanted.end or not header.record_count:
                continue
            if check_crc and not is_intact(view, pos, size):
                raise BadRecords(f"the checksum of the batch at offset {header.base_offset} is wrong")
            yield section(header, view[pos : pos + size], limit)
