"""The least and the largest value of each column of a file, and its nulls: readers leave out files by them.

A bound that is not known is left out. A wrong one would hide rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

MOST_COLUMNS = 32
"""As many as Delta's writers describe by default: each commit carries the bounds of all its files."""
LONGEST_TEXT = 32
_LAST_CHARACTER = "\U0010ffff"
_EXACT_DIGITS = 15
"""A number of JSON is a double for most readers."""

Value = int | str | date | datetime | Decimal


class ColumnRange(NamedTuple):
    name: str
    nulls: int
    least: Value | None = None
    largest: Value | None = None


def column_ranges(metadata: pq.FileMetaData, schema: pa.Schema) -> tuple[ColumnRange, ...]:
    """Of the first columns that are not nested, from the row groups of a file that was just written."""
    leaves = {metadata.schema.column(index).path: index for index in range(metadata.num_columns)}
    found = []
    for field in list(schema)[:MOST_COLUMNS]:
        index = leaves.get(field.name)
        if index is None:
            continue
        groups = [metadata.row_group(number).column(index).statistics for number in range(metadata.num_row_groups)]
        if all(group is not None and group.has_null_count for group in groups):
            found.append(_range(field, groups))
    return tuple(found)


def _range(field: pa.Field, groups: Sequence[pq.Statistics]) -> ColumnRange:
    nulls = sum(group.null_count for group in groups)
    with_values = [group for group in groups if group.num_values]
    if not _is_ordered(field.type) or not with_values or not all(group.has_min_max for group in with_values):
        return ColumnRange(field.name, nulls)
    return ColumnRange(
        field.name, nulls, min(group.min for group in with_values), max(group.max for group in with_values)
    )


def _is_ordered(kind: pa.DataType) -> bool:
    """Not floating-point numbers: Parquet's bounds leave out NaN, which readers take for the largest of all."""
    import pyarrow as pa

    is_exact = pa.types.is_decimal128(kind) and kind.precision <= _EXACT_DIGITS
    return bool(
        is_exact
        or pa.types.is_integer(kind)
        or pa.types.is_string(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
    )


def delta_statistics(rows: int, ranges: Iterable[ColumnRange]) -> str:
    """As an add action of Delta's log says it."""
    found = list(ranges)
    bounded = [each for each in found if each.least is not None and each.largest is not None]
    return json.dumps(
        {
            "numRecords": rows,
            "minValues": {each.name: _said(each.least, is_largest=False) for each in bounded},
            "maxValues": {each.name: _said(each.largest, is_largest=True) for each in bounded},
            "nullCount": {each.name: each.nulls for each in found},
        },
        separators=(",", ":"),
    )


def _said(value: Any, *, is_largest: bool) -> int | float | str:
    match value:
        case str():
            return _cut_up(value) if is_largest else value[:LONGEST_TEXT]
        case datetime():
            said = value.replace(tzinfo=None) if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return said.isoformat(timespec="microseconds") + ("" if value.tzinfo is None else "Z")
        case date():
            return value.isoformat()
        case Decimal():
            return float(value)
        case _:
            return int(value)


def _cut_up(text: str) -> str:
    """A text that is not below this one. It is longer than usual where only the last of all characters follow."""
    end = LONGEST_TEXT
    while text[end : end + 1] == _LAST_CHARACTER:
        end += 1
    return text[:end] + (_LAST_CHARACTER if end < len(text) else "")
