"""Tables in partitions: by the values of a column, or by the years, months, days or hours of a moment.

A data file holds the rows of one partition, so that a reader that wants one day opens the files of that day.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from highwater.pipeline.landing.calendar import FIRST_MOMENT, LAST_MOMENT
from highwater.pipeline.landing.rule import LandingError

if TYPE_CHECKING:
    import pyarrow as pa

UNITS = {"years": "year", "months": "month", "days": "day", "hours": "hour"}
Value = bool | int | str | date | None
"""Of one partition field: the column's own, or the number of units since 1970."""
Values = tuple[Value, ...]

_TERM = re.compile(r"(?:(?P<unit>\w+)\s*\(\s*(?P<inner>[^(),\s][^(),]*?)\s*\)|(?P<column>[^(),\s][^(),]*?))")
_EPOCH = date(1970, 1, 1)
_MICROSECONDS = {"days": 86_400_000_000, "hours": 3_600_000_000}


class PartitionField(NamedTuple):
    column: str
    unit: str = ""
    """One of `UNITS`; "" for the values of the column itself."""

    @property
    def name(self) -> str:
        """As the field, or the column, is called in the table."""
        return f"{self.column}_{UNITS[self.unit]}" if self.unit else self.column

    def __str__(self) -> str:
        return f"{self.unit}({self.column})" if self.unit else self.column


@dataclass(frozen=True, slots=True)
class Partitioning:
    """How the tasks share out rows among files; travels to the executors."""

    fields: tuple[PartitionField, ...] = ()
    are_in_files: bool = True
    """Whether the files have the columns themselves, too."""

    def __str__(self) -> str:
        return spoken(self.fields)


WHOLE = Partitioning()
"""Of a table that has no partitions."""


def spoken(fields: tuple[PartitionField, ...]) -> str:
    return ", ".join(map(str, fields)) or "nothing"


def parse(text: str) -> tuple[PartitionField, ...]:
    """`country, days(_timestamp)`. Raises ValueError."""
    fields = []
    for term in _terms(text):
        match = _TERM.fullmatch(term.strip())
        if match is None or (match["unit"] is not None and match["unit"] not in UNITS):
            known = ", ".join(f"{unit}(COLUMN)" for unit in UNITS)
            raise ValueError(f"{term.strip()!r} is no partition: expected a column, or {known}")
        fields.append(PartitionField(match["inner"] or match["column"], match["unit"] or ""))
    names = [field.name.lower() for field in fields]
    if len(set(names)) < len(names):
        raise ValueError(f"{text!r} names a partition twice")
    return tuple(fields)


def _terms(text: str) -> list[str]:
    return text.split(",") if text.strip() else []


def check(fields: tuple[PartitionField, ...], schema: pa.Schema) -> None:
    """Raises LandingError where rows of the schema cannot be shared out so."""
    import pyarrow as pa

    for field in fields:
        if field.column not in schema.names:
            raise LandingError(
                f"the table is to be partitioned by {field}, and the rows have no column {field.column}: they have "
                f"{', '.join(schema.names)}"
            )
        kind = schema.field(field.column).type
        if field.unit:
            if not pa.types.is_timestamp(kind) and not (pa.types.is_date32(kind) and field.unit != "hours"):
                raise LandingError(
                    f"the table is to be partitioned by {field}, and {field.column} is {kind}: no moment"
                )
            if field.name in schema.names:
                raise LandingError(f"column {field.name} has the name that the partition {field} takes: rename it")
        elif not is_partition_type(kind):
            hint = f": use days({field.column})" if pa.types.is_timestamp(kind) else ""
            raise LandingError(f"the table is to be partitioned by {field}, which is {kind}, and only numbers without "
                               f"fractions, texts, dates and booleans can be{hint}")  # fmt: skip
    if fields and set(schema.names) <= {field.column for field in fields if not field.unit}:
        raise LandingError("the table is to be partitioned by all of its columns: one of them must be in the files")


def is_partition_type(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date32(kind) or pa.types.is_boolean(kind)
    )


def in_files(schema: pa.Schema, partitioning: Partitioning) -> pa.Schema:
    """The columns that the files have."""
    import pyarrow as pa

    if partitioning.are_in_files:
        return schema
    taken = {field.column for field in partitioning.fields if not field.unit}
    return pa.schema([field for field in schema if field.name not in taken])


def split(rows: pa.Table, partitioning: Partitioning) -> Iterator[tuple[Values, pa.Table]]:
    """The rows of each partition, in the order in which they came."""
    import pyarrow as pa

    names = [f"p{number}" for number in range(len(partitioning.fields))]
    keys = [_keys(rows.column(field.column), field.unit) for field in partitioning.fields]
    numbered = pa.table([*keys, pa.array(range(rows.num_rows), pa.int64())], [*names, "row"])
    groups = numbered.group_by(names, use_threads=False).aggregate([("row", "list")])
    kept = rows.select(in_files(rows.schema, partitioning).names)
    for number in range(groups.num_rows):
        values = tuple(groups.column(name)[number].as_py() for name in names)
        _check_required(values, partitioning, rows.schema)
        yield values, kept if groups.num_rows == 1 else kept.take(groups.column("row_list")[number].values)


def _check_required(values: Values, partitioning: Partitioning, schema: pa.Schema) -> None:
    for value, field in zip(values, partitioning.fields, strict=True):
        if value is None and not field.unit and not schema.field(field.column).nullable:
            raise LandingError(f"column {field.column} is null in a row, and the table does not let it be null")


def _keys(column: pa.ChunkedArray, unit: str) -> pa.ChunkedArray:
    """A moment that no calendar has is in the partition of nulls: readers could not name another."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not unit:
        return column
    moments = column.cast(pa.timestamp("us")).cast(pa.int64())
    is_dated = pc.and_(pc.greater_equal(moments, FIRST_MOMENT), pc.less_equal(moments, LAST_MOMENT))
    moments = pc.if_else(is_dated, moments, pa.scalar(None, pa.int64()))
    if unit in _MICROSECONDS:
        return _floor(moments, _MICROSECONDS[unit])
    dated = moments.cast(pa.timestamp("us"))
    years = pc.subtract(pc.year(dated), 1970)
    return years if unit == "years" else pc.add(pc.multiply(years, 12), pc.subtract(pc.month(dated), 1))


def _floor(numbers: pa.ChunkedArray, divisor: int) -> pa.ChunkedArray:
    """Arrow's own division goes towards zero, and so wrong before 1970."""
    import pyarrow as pa
    import pyarrow.compute as pc

    quotient = pc.divide(numbers, divisor)
    is_below = pc.less(pc.subtract(numbers, pc.multiply(quotient, divisor)), 0)
    return pc.subtract(quotient, is_below.cast(pa.int64()))


def text_of(field: PartitionField, value: Value) -> str | None:
    """As Delta's log and people write it."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case date():
            return value.isoformat()
        case int() if field.unit == "years":
            return f"{1970 + value:04}"
        case int() if field.unit == "months":
            return f"{1970 + value // 12:04}-{value % 12 + 1:02}"
        case int() if field.unit == "days":
            return (_EPOCH + timedelta(days=value)).isoformat()
        case int() if field.unit == "hours":
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=value)
            return f"{moment.date().isoformat()}-{moment.hour:02}"
        case _:
            return str(value)


def number_of(value: Value) -> bool | int | str | None:
    """As Iceberg's manifests hold it: a date is a number of days."""
    return (value - _EPOCH).days if isinstance(value, date) else value
