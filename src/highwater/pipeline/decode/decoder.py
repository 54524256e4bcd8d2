"""Batches of records to batches of typed rows, and of records that are none."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from highwater.pipeline.decode.json_values import JsonReader

REASON = "reason"
"""The column of `Decoded.bad` that says what is wrong."""
KEPT_PREFIX = "_"
NULL_VALUE = "the value is null"

_HEADER = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
KEPT_COLUMNS: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "headers": pa.list_(pa.field("element", _HEADER)),
}
"""What typed rows can keep of their record, each under its name with an underscore before it."""


class NullValues(StrEnum):
    """What becomes of a record without a value, such as a tombstone."""

    ROW = "row"
    """A row whose fields are null."""
    DROP = "drop"
    BAD = "bad"


class Origin(NamedTuple):
    """Where the records of a batch were read, for batches that do not say so in columns of their own."""

    topic: str
    partition: int


class Decoded(NamedTuple):
    rows: pa.RecordBatch
    """In the decoder's schema."""
    bad: pa.RecordBatch
    """All columns of the records that do not fit (with topic and partition, where they are known), and `REASON`."""


class Decoder(Protocol):
    schema: pa.Schema
    """Of the rows."""
    columns: tuple[str, ...]
    """What a batch must bring, beside `value`."""

    def decode(self, batch: pa.RecordBatch, origin: Origin | None = None) -> Decoded: ...


class RawDecoder:
    """Rows that are the records themselves: nothing is read into them, and nothing can be wrong."""

    def __init__(self, keep: Sequence[str] = ("key", "topic", "partition", "offset", "timestamp")) -> None:
        self.columns = tuple(keep)
        kept = [pa.field(name, KEPT_COLUMNS[name]) for name in keep]
        self.schema = pa.schema([pa.field("value", pa.binary()), *kept])

    def decode(self, batch: pa.RecordBatch, origin: Origin | None = None) -> Decoded:
        placed = _placed(batch, origin)
        columns = [placed.column(field.name).cast(field.type) for field in self.schema]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Decoded(rows, _bad(placed.slice(0, 0), []))


class JsonDecoder:
    """Rows of the fields that `fields` names, read from values that are JSON objects; then the columns in `keep`."""

    def __init__(self, fields: pa.Schema, keep: Sequence[str] = (), null_values: NullValues = NullValues.ROW) -> None:
        self._reader = JsonReader(fields)
        self.columns = tuple(keep)
        self.null_values = null_values
        self.schema = pa.schema([*fields, *(pa.field(KEPT_PREFIX + name, KEPT_COLUMNS[name]) for name in keep)])
        self._required = next((field.name for field in fields if not field.nullable), None)

    def decode(self, batch: pa.RecordBatch, origin: Origin | None = None) -> Decoded:
        values = batch.column("value")
        missing: list[int] = []
        if values.null_count:
            present = pc.indices_nonzero(pc.is_valid(values)).cast(pa.int64())
            missing = pc.indices_nonzero(pc.is_null(values)).to_pylist()
            typed = self._reader.read(values.take(present))
            at, reasons = present.take(typed.at), {present[row].as_py(): why for row, why in typed.reasons.items()}
        else:
            typed = self._reader.read(values)
            at, reasons = typed.at, typed.reasons
        table = typed.rows
        if missing and self.null_values is NullValues.ROW and self._required is None:
            at = pa.concat_arrays([at, pa.array(missing, pa.int64())])
            table = pa.concat_tables([table, self._nulls(len(missing))])
            order = pc.sort_indices(at)
            at, table = at.take(order), table.take(order)
        elif missing and self.null_values is not NullValues.DROP:
            reasons.update(dict.fromkeys(missing, self._null_reason()))
        return self._gathered(_placed(batch, origin), table, at, reasons)

    def _gathered(self, placed: pa.RecordBatch, table: pa.Table, at: pa.Array, reasons: dict[int, str]) -> Decoded:
        fields = [column.combine_chunks() for column in table.columns]
        whole = len(at) == placed.num_rows
        kept = [placed.column(name).cast(KEPT_COLUMNS[name]) for name in self.columns]
        kept = kept if whole else [column.take(at) for column in kept]
        rows = pa.RecordBatch.from_arrays([*fields, *kept], schema=self.schema)
        indexes = sorted(reasons)
        return Decoded(rows, _bad(placed.take(pa.array(indexes, pa.int64())), [reasons[index] for index in indexes]))

    def _nulls(self, count: int) -> pa.Table:
        fields = list(self._reader.schema)
        return pa.table([pa.nulls(count, field.type) for field in fields], schema=self._reader.schema)

    def _null_reason(self) -> str:
        if self.null_values is NullValues.BAD:
            return NULL_VALUE
        return f"required field {self._required} is missing: {NULL_VALUE}"


def _placed(batch: pa.RecordBatch, origin: Origin | None) -> pa.RecordBatch:
    """The batch with the columns topic and partition."""
    if origin is None or "topic" in batch.schema.names:
        return batch
    count = batch.num_rows
    topics = pa.repeat(pa.scalar(origin.topic, pa.string()), count)
    partitions = pa.repeat(pa.scalar(origin.partition, pa.int32()), count)
    return batch.append_column("topic", topics).append_column("partition", partitions)


def _bad(records: pa.RecordBatch, reasons: list[str]) -> pa.RecordBatch:
    return records.append_column(pa.field(REASON, pa.string(), nullable=False), pa.array(reasons, pa.string()))
