"""The values and the error that both kernels use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import Buffer

Headers = Sequence[tuple[str, bytes | None]]
"""Header keys are text. Bytes that are not UTF-8 become surrogate escapes, and become the same bytes again."""

NewRecord = tuple[int, "Buffer | None", "Buffer | None", Headers]
"""A record before it has an offset: timestamp, key, value, headers."""

KEY_MISSING = 1
TIMESTAMP_OUT_OF_RANGE = 2

Fault = tuple[int, int, int]
"""The fault of one record in a well-formed section: the record's index, the kind of fault, and the timestamp."""

MAX_FAULTS = 1000
"""The most faults that are listed for a section. Otherwise the response to a hostile batch could be many times as large
as the batch."""

MIN_RECORD_BYTES = 7
"""Length, attributes, timestamp, offset, key, value and header count take at least one byte each."""

COLUMN_LIMIT = 2**31 - 1
"""The most bytes of one Arrow binary column: its offsets have 32 bits."""

BATCH_BYTES = 32 << 20
"""The most bytes of records in one Arrow batch: a few kilobytes on the wire may inflate to gigabytes, which no task can
hold."""

BATCH_ROWS = 1 << 17
"""The most rows of one Arrow batch. The smallest records take 7 bytes, but many times as much if rows become Python
objects."""


class BadRecords(ValueError):
    """The bytes are not the records that the batch header announces."""


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Section(NamedTuple):
    """The uncompressed records of one batch, with the values to which their relative fields refer. If the broker set
    the time (LogAppendTime), `append_time` replaces the timestamp of every record."""

    data: Buffer
    record_count: int
    base_offset: int
    base_timestamp: int
    append_time: int | None = None


class Wanted(NamedTuple):
    """The rows and the optional columns that `columns` makes, and how it divides them into Arrow batches. Rows are in
    [start, end). The records of one Arrow batch take at most `batch_bytes` in their encoded form; a larger record is
    alone in its batch."""

    start: int = -(2**63)
    end: int = 2**63 - 1
    keys: bool = True
    values: bool = True
    headers: bool = False
    batch_bytes: int = BATCH_BYTES
    batch_rows: int = BATCH_ROWS


def schema(wanted: Wanted) -> Any:
    """The Arrow schema of `columns`; pyarrow is loaded only where columns are made."""
    import pyarrow as pa

    fields = [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("timestamp_type", pa.int32(), nullable=False),
    ]
    if wanted.values:
        fields.insert(0, pa.field("value", pa.binary()))
    if wanted.keys:
        fields.insert(0, pa.field("key", pa.binary()))
    if wanted.headers:
        header = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
        fields.append(pa.field("headers", pa.list_(pa.field("element", header, nullable=False)), nullable=False))
    return pa.schema(fields)
