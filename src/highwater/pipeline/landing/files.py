"""Arrow batches into Parquet files of a sensible size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from highwater.pipeline.landing.statistics import column_ranges
from highwater.pipeline.landing.table import StagedFile

if TYPE_CHECKING:
    import pyarrow as pa

    from highwater.pipeline.landing.table import Staging

COMPRESSIONS = ("snappy", "zstd", "lz4", "none")
_SAMPLE = 1000
_FEW = 100
_FIRST_MOMENT, _LAST_MOMENT = -62_135_596_800_000_000, 253_402_300_799_999_999
"""From the year 1 to the year 9999, in microseconds."""
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The same, in days."""


@dataclass(frozen=True, slots=True)
class FileShape:
    compression: str = "snappy"
    max_file_bytes: int = 256 << 20
    """A file is closed when it has grown past this; the last row group may take it beyond."""
    row_group_bytes: int = 64 << 20
    """Of columns in memory. Large enough to be read in long sweeps, small enough for a task's memory."""


def stage(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, shape: FileShape, staging: Staging, name: str
) -> list[StagedFile]:
    """Writes files called <name>-<n>, until they are on the disk; none where there is no row.

    A file that is begun and not finished stays where it is, for the clean-up to find.
    """
    import pyarrow.parquet as pq

    files: list[StagedFile] = []
    groups = _row_groups(_in_schema(batches, schema), shape.row_group_bytes)
    group = next(groups, None)
    while group is not None:
        location, sink = staging.create(f"{name}-{len(files)}")
        rows = 0
        written: list[pq.FileMetaData] = []
        with sink:
            beyond = _beyond_calendars(group)
            with pq.ParquetWriter(
                sink, schema, metadata_collector=written, **_encoding(group, shape, beyond)
            ) as writer:
                while (
                    group is not None
                    and sink.tell() < shape.max_file_bytes
                    and (not rows or _beyond_calendars(group) == beyond)
                ):
                    writer.write_table(group, row_group_size=group.num_rows)
                    rows += group.num_rows
                    group = next(groups, None)
            size = sink.tell()
        staging.seal(location)
        files.append(StagedFile(location, rows, size, column_ranges(written[0], schema)))
    return files


def _in_schema(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            yield batch if batch.schema.equals(schema) else batch.cast(schema)


def _row_groups(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.Table]:
    import pyarrow as pa

    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        gathered.append(batch)
        size += batch.nbytes
        if size >= limit:
            yield pa.Table.from_batches(gathered)
            gathered, size = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered)


def _encoding(group: pa.Table, shape: FileShape, beyond: list[str]) -> dict[str, Any]:
    """Dictionaries only where values repeat: where they do not, building one costs more than writing the values."""
    repeating = [name for name in group.schema.names if _repeats(group.column(name))]
    known: bool | list[str] = [name for name in group.schema.names if name not in beyond] if beyond else True
    return {
        "compression": shape.compression,
        "use_dictionary": repeating,
        "write_statistics": known,
        "store_schema": False,
    }


def _beyond_calendars(group: pa.Table) -> list[str]:
    """Columns with a moment or a day that Python has no date for. A record may have any timestamp; pyarrow and
    pyiceberg make dates of a file's least and largest values, and one such row would keep its batch out of the table
    for ever."""
    import pyarrow as pa

    found = []
    for name in group.schema.names:
        column = group.column(name)
        if pa.types.is_timestamp(column.type):
            is_within = _lies_within(column.cast(pa.timestamp("us")).cast(pa.int64()), _FIRST_MOMENT, _LAST_MOMENT)
        elif pa.types.is_date32(column.type):
            is_within = _lies_within(column.cast(pa.int32()), _FIRST_DAY, _LAST_DAY)
        else:
            continue
        if not is_within:
            found.append(name)
    return found


def _lies_within(column: pa.ChunkedArray, first: int, last: int) -> bool:
    import pyarrow.compute as pc

    bounds = pc.min_max(column).as_py()
    return bounds["min"] is None or first <= bounds["min"] <= bounds["max"] <= last


def _repeats(column: pa.ChunkedArray) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_nested(column.type) or pa.types.is_boolean(column.type):
        return False
    return bool(pc.count_distinct(column.slice(0, _SAMPLE), mode="all").as_py() <= min(_FEW, len(column) // 10))
