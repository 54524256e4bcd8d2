"""The kernel in plain Python. `_fast` must give equal results, and this one runs where `_fast` was not built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from highwater.kernel.contract import (
    COLUMN_LIMIT,
    KEY_MISSING,
    MAX_FAULTS,
    MIN_RECORD_BYTES,
    TIMESTAMP_OUT_OF_RANGE,
    BadRecords,
    Fault,
    NewRecord,
    Record,
    Section,
    Wanted,
    schema,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

_Span = tuple[int, int]
"""The position of a field in the section: start and length. The length of a null field is negative."""

_I64_MIN, _I64_MAX = -(2**63), 2**63 - 1


def _varint(data: memoryview, pos: int, end: int) -> tuple[int, int]:
    """Reads a zig-zag int32 of at most five bytes. As in Java, bits of the fifth byte that do not fit are ignored."""
    raw = 0
    for shift in (0, 7, 14, 21, 28):
        if pos >= end:
            raise BadRecords("a varint runs over the end")
        byte = data[pos]
        pos += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= 0xFFFFFFFF
            return (raw >> 1) ^ -(raw & 1), pos
    raise BadRecords("a varint is longer than five bytes")


def _varlong(data: memoryview, pos: int, end: int) -> tuple[int, int]:
    raw = 0
    for shift in range(0, 70, 7):
        if pos >= end:
            raise BadRecords("a varlong runs over the end")
        byte = data[pos]
        pos += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= 0xFFFFFFFFFFFFFFFF
            return (raw >> 1) ^ -(raw & 1), pos
    raise BadRecords("a varlong is longer than ten bytes")


def _wrapped(value: int) -> int:
    """The sum as an int64 with two's complement overflow."""
    return (value - _I64_MIN) % 2**64 + _I64_MIN


def _span(data: memoryview, pos: int, end: int) -> tuple[_Span, int]:
    length, pos = _varint(data, pos, end)
    if length < 0:
        return (pos, -1), pos
    if length > end - pos:
        raise BadRecords("a field runs over the end of its record")
    return (pos, length), pos + length


def _header_spans(data: memoryview, pos: int, end: int) -> tuple[list[tuple[_Span, _Span]], int]:
    count, pos = _varint(data, pos, end)
    if count < 0 or count > (end - pos) // 2:
        raise BadRecords("an impossible number of headers")
    spans = []
    for _ in range(count):
        key, pos = _span(data, pos, end)
        if key[1] < 0:
            raise BadRecords("a header without a key")
        value, pos = _span(data, pos, end)
        spans.append((key, value))
    return spans, pos


def _parsed(section: Section) -> Iterator[tuple[int, int, _Span, _Span, list[tuple[_Span, _Span]], int]]:
    """Each record as (offset delta, timestamp, key, value, headers, its end). Raises unless the records fill the
    section exactly."""
    data = memoryview(section.data)
    end = len(data)
    if not 0 <= section.record_count <= end // MIN_RECORD_BYTES:
        raise BadRecords("the record count does not fit the size")
    pos = 0
    for _ in range(section.record_count):
        size, pos = _varint(data, pos, end)
        if not 0 < size <= end - pos:
            raise BadRecords("a record runs over the end")
        stop = pos + size
        timestamp_delta, pos = _varlong(data, pos + 1, stop)
        offset_delta, pos = _varint(data, pos, stop)
        key, pos = _span(data, pos, stop)
        value, pos = _span(data, pos, stop)
        headers, pos = _header_spans(data, pos, stop)
        if pos != stop:
            raise BadRecords("a record is shorter than its length says")
        timestamp = section.append_time
        if timestamp is None:
            timestamp = _wrapped(section.base_timestamp + timestamp_delta)
        yield offset_delta, timestamp, key, value, headers, stop
    if pos != end:
        raise BadRecords("bytes are left after the last record")


def validate_records(section: Section, low: int, high: int, keys_required: bool) -> tuple[int, list[Fault]]:
    """Checks every record of a new batch. Returns the largest timestamp (-1 if there is none) and the faults. Offset
    deltas must be 0, 1, 2 …; every timestamp except -1 must be in [low, high]."""
    largest = -1
    faults: list[Fault] = []
    for index, (offset_delta, timestamp, key, _, _, _) in enumerate(_parsed(section)):
        if offset_delta != index:
            raise BadRecords("offset deltas are not consecutive")
        largest = max(largest, timestamp)
        if keys_required and key[1] < 0:
            kind = KEY_MISSING
        elif timestamp != -1 and not low <= timestamp <= high:
            kind = TIMESTAMP_OUT_OF_RANGE
        else:
            continue
        if len(faults) < MAX_FAULTS:
            faults.append((index, kind, timestamp))
    return largest, faults


def _take(data: memoryview, span: _Span) -> bytes | None:
    return None if span[1] < 0 else bytes(data[span[0] : span[0] + span[1]])


def _header(data: memoryview, key: _Span, value: _Span) -> tuple[str, bytes | None]:
    return str(data[key[0] : key[0] + key[1]], "utf-8", "surrogateescape"), _take(data, value)


def iterate(section: Section, start: int = _I64_MIN, most: int = _I64_MAX) -> list[Record]:
    """The first `most` records at or after offset `start`, with their absolute offsets and timestamps."""
    data = memoryview(section.data)
    records: list[Record] = []
    for delta, timestamp, key, value, headers, _ in _parsed(section):
        offset = _wrapped(section.base_offset + delta)
        if offset >= start:
            taken = [_header(data, *header) for header in headers]
            records.append(Record(offset, timestamp, _take(data, key), _take(data, value), taken))
            if len(records) == most:
                break
    return records


def find_timestamp(section: Section, timestamp: int, start: int) -> tuple[int, int] | None:
    """Offset and timestamp of the first record at or after offset `start` whose timestamp is `timestamp` or later."""
    for delta, found, _, _, _, _ in _parsed(section):
        offset = _wrapped(section.base_offset + delta)
        if found >= timestamp and offset >= start:
            return offset, found
    return None


def latest(section: Section, start: int) -> tuple[int, int] | None:
    """Offset and timestamp of the first record with the largest timestamp of those at or after offset `start`."""
    best: tuple[int, int] | None = None
    for delta, timestamp, _, _, _, _ in _parsed(section):
        offset = _wrapped(section.base_offset + delta)
        if offset >= start and (best is None or timestamp > best[1]):
            best = offset, timestamp
    return best


def _put_varint(out: bytearray, value: int) -> None:
    """Zig-zag of an int64, which is also the varint of an int32."""
    raw = (value << 1) ^ (value >> 63)
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


def _within(value: int, bits: int) -> int:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise OverflowError(f"{value} does not fit into {bits} bits")
    return value


def _put_bytes(out: bytearray, value: Buffer | None) -> None:
    if value is None:
        out.append(1)
    else:
        view = memoryview(value).cast("B")
        _put_varint(out, len(view))
        out += view


def encode(
    records: Sequence[NewRecord], base_timestamp: int, offset_deltas: Sequence[int] | None, reserve: int
) -> bytearray:
    """The record section of a batch, after `reserve` zero bytes. Offset deltas are 0, 1, 2 … unless they are given."""
    out = bytearray(reserve)
    body = bytearray()
    for index, (timestamp, key, value, headers) in enumerate(records):
        body.append(0)
        _put_varint(body, _wrapped(_within(timestamp, 64) - base_timestamp))
        _put_varint(body, _within(index if offset_deltas is None else offset_deltas[index], 32))
        _put_bytes(body, key)
        _put_bytes(body, value)
        _put_varint(body, len(headers))
        for name, content in headers:
            _put_bytes(body, name.encode("utf-8", "surrogateescape"))
            _put_bytes(body, content)
        _put_varint(out, _within(len(body), 32))
        out += body
        body.clear()
    return out


def columns(sections: Iterable[Section], wanted: Wanted) -> Iterator[Any]:
    """The records of all sections, in order, as pyarrow.RecordBatches. Each has at least one row and at most the wanted
    bytes. A section is freed before the next one is taken, and a batch is returned before the next one is begun."""
    rows: list[dict[str, Any]] = []
    size, most = 0, min(wanted.batch_bytes, COLUMN_LIMIT)
    for section in sections:
        data = memoryview(section.data)
        begin = 0
        for delta, timestamp, key, value, headers, end in _parsed(section):
            taken, begin = end - begin, end
            offset = _wrapped(section.base_offset + delta)
            if not wanted.start <= offset < wanted.end:
                continue
            if rows and (size + taken > most or len(rows) >= wanted.batch_rows):
                yield _batch(rows, wanted)
                rows, size = [], 0
            size += taken
            rows.append(
                {
                    "offset": offset,
                    "timestamp": min(max(timestamp * 1000, _I64_MIN), _I64_MAX),
                    "timestamp_type": 0 if section.append_time is None else 1,
                    "key": _take(data, key) if wanted.keys else None,
                    "value": _take(data, value) if wanted.values else None,
                    "headers": [_header_cell(data, *header) for header in headers] if wanted.headers else None,
                }
            )
        del section, data  # so that an inflated section is gone before the next is made
    if rows:
        yield _batch(rows, wanted)


def _batch(rows: list[dict[str, Any]], wanted: Wanted) -> Any:
    import pyarrow as pa

    fields = schema(wanted)
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in fields]
    return pa.RecordBatch.from_arrays(columns, schema=fields)


def _header_cell(data: memoryview, key: _Span, value: _Span) -> dict[str, Any]:
    return {"key": str(data[key[0] : key[0] + key[1]], "utf-8", "replace"), "value": _take(data, value)}
