"""From the kernel's columns to the rows that Spark asked for: the schema of Spark's Kafka connector or part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from highwater.pipeline.ranges import OffsetRange
from highwater.pipeline.reading import Columns, Reading
from highwater.pipeline.selection import BadOption

HEADERS = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)
SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)

_KERNEL_NAMES = {"timestampType": "timestamp_type"}
_TYPES: dict[str, DataType] = {field.name: field.dataType for field in [*SCHEMA, HEADERS]}


def schema(*, headers: bool) -> StructType:
    return StructType([*SCHEMA, HEADERS]) if headers else SCHEMA


@dataclass(frozen=True)
class Rows:
    """Makes batches of one schema; pickled with each task."""

    arrow: pa.Schema

    @classmethod
    def of(cls, wanted: StructType) -> Rows:
        """`wanted` may leave out columns, which then are not even made. Raises BadOption."""
        for field in wanted:
            if field.name not in _TYPES:
                raise BadOption(f"the schema has a column {field.name}; there are {', '.join(_TYPES)}")
            if field.dataType != _TYPES[field.name]:
                wrong, right = field.dataType.simpleString(), _TYPES[field.name].simpleString()
                raise BadOption(f"the schema has column {field.name} as {wrong}: it is {right}")
        return cls(to_arrow_schema(wanted, timezone="UTC"))

    @property
    def columns(self) -> Columns:
        names = self.arrow.names
        return Columns(key="key" in names, value="value" in names, headers="headers" in names)

    @contextmanager
    def opened(self, reading: Reading) -> Iterator[Callable[[OffsetRange, pa.RecordBatch], pa.RecordBatch]]:
        yield self.batch

    def batch(self, range_: OffsetRange, made: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [self._column(field, range_, made) for field in self.arrow], schema=self.arrow
        )

    def _column(self, field: pa.Field, range_: OffsetRange, made: pa.RecordBatch) -> pa.Array:
        match field.name:
            case "topic":
                return pa.repeat(pa.scalar(range_.topic, pa.string()), made.num_rows)
            case "partition":
                return pa.repeat(pa.scalar(range_.partition, pa.int32()), made.num_rows)
            case "headers":
                return _headers(made.column("headers"), field.type)
            case name:
                return made.column(_KERNEL_NAMES.get(name, name))


def _headers(made: pa.ListArray, kind: pa.ListType) -> pa.ListArray:
    """In Spark's type; a record without headers has null, as with Spark's own connector."""
    cells = made.values
    header = kind.value_type
    values = pa.StructArray.from_arrays([cells.field(0), cells.field(1)], fields=[header.field(0), header.field(1)])
    return pa.ListArray.from_arrays(made.offsets, values, type=kind, mask=pc.equal(made.value_lengths(), 0))
