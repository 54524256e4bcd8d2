"""The columns of a table and those of a batch: what may be added, and what does not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from highwater.pipeline.landing.rule import LandingError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_STORABLE = {
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    *(pa.string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC")),
}


def from_spark(schema: StructType) -> pa.Schema:
    """What Spark hands over, with timestamps in UTC whatever the zone of the session is."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def landed(schema: pa.Schema) -> pa.Schema:
    """The schema as tables hold it: every column may be null, since one that is added later is null before.

    Raises LandingError for what not every format can hold.
    """
    if not schema.names:
        raise LandingError("a table needs at least one column")
    for field in schema:
        rebuilt(field.type, partial(_storable, field.name))
    count = Counter(name.lower() for name in schema.names)
    twice = [name for name in schema.names if count[name.lower()] > 1]
    if twice:
        raise LandingError(f"columns that differ by nothing or by case alone: {', '.join(twice)}")
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def with_required(schema: pa.Schema, required: Sequence[str]) -> pa.Schema:
    """The schema in which these columns may not be null, so that a null fails the task that brings it."""
    return pa.schema([pa.field(field.name, field.type, field.name not in required) for field in schema])


def rebuilt(type_: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with other leaves. What readers do not see is lost: nullability inside of it, and names of elements."""
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(pa.field("element", rebuilt(type_.value_type, leaf)))
    if pa.types.is_map(type_):
        return pa.map_(rebuilt(type_.key_type, leaf), rebuilt(type_.item_type, leaf))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, rebuilt(field.type, leaf)) for field in type_])
    return leaf(type_)


def _storable(column: str, type_: pa.DataType) -> pa.DataType:
    if pa.types.is_null(type_):
        raise LandingError(f"column {column} has no type (it is null in every row): cast it to one")
    if type_ not in _STORABLE and not pa.types.is_decimal128(type_):
        raise LandingError(f"column {column} is or has {type_}, which not every table can hold: cast it")
    return type_


def _comparable(type_: pa.DataType) -> pa.DataType:
    """Offsets of 64 bits hold the same values as those of 32."""
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(type_, type_)


def additions(table: pa.Schema, batch: pa.Schema) -> list[pa.Field]:
    """Columns of the batch that the table lacks. Raises LandingError for a column that changes its type.

    It also raises for a missing column: a renamed column would otherwise be null from one batch to the next, without a
    message.
    """
    here = {field.name: field for field in batch}
    for field in table:
        if field.name not in here:
            raise LandingError(
                f"column {field.name} of the table is missing in what is written: columns can be added, not dropped"
            )
        then, now = rebuilt(field.type, _comparable), rebuilt(here[field.name].type, _comparable)
        if then != now:
            raise LandingError(
                f"column {field.name} is {then} in the table and {now} in what is written: a column keeps its type"
            )
    return [field for field in batch if field.name not in table.names]
