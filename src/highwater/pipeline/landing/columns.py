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


def check_unchanged(table: pa.Schema, wanted: pa.Schema) -> None:
    """Of a table whose columns are not merged with those of a batch. Raises LandingError for what would change."""
    for field in wanted:
        if field.name not in table.names:
            raise LandingError(
                f"column {field.name} is new in what is written, and mergeSchema is false: none is added"
            )
        was = table.field(field.name)
        if was.type != field.type:
            change = f"{was.type} in the table and would become {field.type}"
            raise LandingError(f"column {field.name} is {change}, and mergeSchema is false")


def grown(table: pa.Schema, batch: pa.Schema, *, widens: bool = False, required: Sequence[str] = ()) -> pa.Schema:
    """The columns that the table must have for the batch: its own, those that are new, and fields that are new inside
    of them. A column that is not written is null.

    With `widens` a number may become a larger one. Raises LandingError, with the column, for what does not fit.
    """
    return pa.schema(_merged(list(table), list(batch), "column ", widens, required), table.metadata)


def _merged(
    table: list[pa.Field], batch: list[pa.Field], what: str, widens: bool, required: Sequence[str] = ()
) -> list[pa.Field]:
    """Of the columns of a table, or of the fields of one."""
    then, now = {field.name: field for field in table}, {field.name: field for field in batch}
    missing = [name for name in then if name not in now]
    new = [name for name in now if name not in then]
    if missing and new:
        raise LandingError(
            f"{what}{missing[0]} of the table is missing in what is written, and {what}{new[0]} is new there: one that "
            f"was renamed would be null from now on. To add {new[0]}, write {missing[0]} too, as null if need be"
        )
    for name in missing:
        if name in required:
            raise LandingError(f"{what}{name} of the table is missing in what is written, and it may not be null")
    known = [
        field.with_type(_merged_type(field.type, now[field.name].type, f"{what}{field.name}", widens))
        if field.name in now
        else field
        for field in table
    ]
    return [*known, *(now[name] for name in new)]


def _merged_type(then: pa.DataType, now: pa.DataType, what: str, widens: bool) -> pa.DataType:
    if pa.types.is_struct(then) and pa.types.is_struct(now):
        return pa.struct(_merged(list(then), list(now), f"{what}.", widens))
    if pa.types.is_map(then) and pa.types.is_map(now):
        keys = _merged_type(then.key_type, now.key_type, f"{what}.key", widens=False)
        items = _merged_type(then.item_type, now.item_type, f"{what}.value", widens)
        return then if items == then.item_type else pa.map_(keys, items)
    lists = (pa.ListType, pa.LargeListType)
    if isinstance(then, lists) and isinstance(now, lists):
        element = _merged_type(then.value_type, now.value_type, f"{what}.element", widens)
        return then if element == then.value_type else pa.list_(pa.field("element", element))
    was, is_now = _comparable(then), _comparable(now)
    if was == is_now:
        return then
    if not _is_wider(was, is_now):
        raise LandingError(f"{what} is {was} in the table and {is_now} in what is written: a column keeps its type")
    if not widens:
        raise LandingError(
            f"{what} is {was} in the table and {is_now} in what is written: only an Iceberg table can widen a column"
        )
    return now


def _is_wider(then: pa.DataType, now: pa.DataType) -> bool:
    """What Iceberg lets a column become."""
    if pa.types.is_decimal128(then) and pa.types.is_decimal128(now):
        return bool(then.scale == now.scale and now.precision > then.precision)
    return (then, now) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))
