"""Which moments a calendar has: a record may have any timestamp, and Python has dates for some of them alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_MOMENT, LAST_MOMENT = -62_135_596_800_000_000, 253_402_300_799_999_999
"""From the year 1 to the year 9999, in microseconds."""
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""The same, in days."""


def beyond_calendars(group: pa.Table) -> list[str]:
    """Columns with a moment or a day that Python has no date for. pyarrow and pyiceberg make dates of a file's least
    and largest values, and one such row would keep its batch out of the table for ever."""
    import pyarrow as pa

    found = []
    for name in group.schema.names:
        column = group.column(name)
        if pa.types.is_timestamp(column.type):
            is_within = _lies_within(column.cast(pa.timestamp("us")).cast(pa.int64()), FIRST_MOMENT, LAST_MOMENT)
        elif pa.types.is_date32(column.type):
            is_within = _lies_within(column.cast(pa.int32()), FIRST_DAY, LAST_DAY)
        else:
            continue
        if not is_within:
            found.append(name)
    return found


def _lies_within(column: pa.ChunkedArray, first: int, last: int) -> bool:
    import pyarrow.compute as pc

    bounds = pc.min_max(column).as_py()
    return bounds["min"] is None or first <= bounds["min"] <= bounds["max"] <= last
