"""Which moments a calendar has: a record may have any timestamp, and Python has dates for some of them alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_MOMENT, LAST_MOMENT = -62_135_596_800_000_000, 253_402_300_799_999_999
"""From the year 1 to the year 9999, in microseconds."""


def beyond_calendars(group: pa.Table) -> list[str]:
    """Columns with a moment that Python has no date for. pyiceberg makes dates of a file's least and largest ones, and
    one such record would keep its batch out of the table for ever."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = []
    for name in group.schema.names:
        column = group.column(name)
        if pa.types.is_timestamp(column.type):
            bounds = pc.min_max(column.cast(pa.timestamp("us")).cast(pa.int64())).as_py()
            if bounds["min"] is not None and not FIRST_MOMENT <= bounds["min"] <= bounds["max"] <= LAST_MOMENT:
                found.append(name)
    return found
