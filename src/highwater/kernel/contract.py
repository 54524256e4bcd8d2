"""What both kernels agree on: the values they take and give, and the one error they raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import Buffer

Headers = Sequence[tuple[str, bytes | None]]
"""Header keys are text; bytes that are not UTF-8 survive a round trip as surrogate escapes."""

NewRecord = tuple[int, "Buffer | None", "Buffer | None", Headers]
"""A record before it has an offset: timestamp, key, value, headers."""

KEY_MISSING = 1
TIMESTAMP_OUT_OF_RANGE = 2

Fault = tuple[int, int, int]
"""What is wrong with one record of a well-formed section: its index, the kind of fault, its timestamp."""

MAX_FAULTS = 1000
"""Faults listed per section. A hostile batch would otherwise be answered with many times its own size."""

MIN_RECORD_BYTES = 7
"""Length, attributes, timestamp, offset, key, value and header count take at least a byte each."""

COLUMN_LIMIT = 2**31 - 1
"""Bytes that fit into one Arrow binary column, whose offsets are 32 bits wide."""

BATCH_BYTES = 32 << 20
"""Of records in one Arrow batch: a few kilobytes on the wire may inflate to gigabytes, which no task can hold."""

BATCH_ROWS = 1 << 17
"""The smallest records take 7 bytes, and many times that wherever rows become Python objects."""


class BadRecords(ValueError):
    """The bytes are not the records that their batch header announces."""


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Section(NamedTuple):
    """The uncompressed records of one batch, with what their relative fields are relative to.

    `append_time` replaces every record's own timestamp where the broker set the time (LogAppendTime).
    """

    data: Buffer
    record_count: int
    base_offset: int
    base_timestamp: int
    append_time: int | None = None


class Wanted(NamedTuple):
    """Which rows and which optional columns `columns` shall make, and where it cuts them into Arrow batches.

    Rows lie in [start, end). The records of one Arrow batch take at most `batch_bytes`, as they are encoded; a larger
    record is alone in its batch.
    """

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
