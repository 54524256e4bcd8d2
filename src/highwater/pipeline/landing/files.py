"""Arrow batches into Parquet files of a sensible size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from highwater.pipeline.landing.calendar import beyond_calendars
from highwater.pipeline.landing.partitioning import Partitioning, Values, in_files, split
from highwater.pipeline.landing.statistics import column_ranges
from highwater.pipeline.landing.table import StagedFile

if TYPE_CHECKING:
    import pyarrow as pa

    from highwater.pipeline.landing.table import Staging

COMPRESSIONS = ("snappy", "zstd", "lz4", "none")
_SAMPLE = 1000
_FEW = 100
MOST_OPEN = 100
"""Files of partitions that a task writes at once. With more partitions than this one may get several files."""


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

    In a partitioned table each file has the rows of one partition. A file that is begun and not finished stays where it
    is, for the clean-up to find.
    """
    rows = _in_schema(batches, schema)
    partitioning = staging.partitioning
    groups = (
        _partitioned(rows, partitioning, shape.row_group_bytes)
        if partitioning.fields
        else (((), group) for group in _row_groups(rows, shape.row_group_bytes))
    )
    with _Files(in_files(schema, partitioning), shape, staging, name) as files:
        for values, group in groups:
            files.write(values, group)
    return files.finished


class _Files:
    """The open files of a task: one for each partition, and those that were used last."""

    def __init__(self, schema: pa.Schema, shape: FileShape, staging: Staging, name: str) -> None:
        self.finished: list[StagedFile] = []
        self._schema = schema
        self._shape = shape
        self._staging = staging
        self._name = name
        self._begun = 0
        self._open: dict[Values, _File] = {}

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        for values in list(self._open):
            if failure is None:
                self._finish(values)
            else:
                self._open.pop(values).give_up()

    def write(self, values: Values, group: pa.Table) -> None:
        file = self._open.get(values)
        if file is not None and not file.takes(group):
            self._finish(values)
            file = None
        if file is None:
            if len(self._open) >= MOST_OPEN:
                self._finish(next(iter(self._open)))
            location, sink = self._staging.create(f"{self._name}-{self._begun}")
            file = _File(location, sink, values, self._schema, self._shape, group)
            self._begun += 1
        # The one that was used last is the last.
        self._open.pop(values, None)
        self._open[values] = file
        file.write(group)

    def _finish(self, values: Values) -> None:
        staged = self._open.pop(values).close()
        self._staging.seal(staged.location)
        self.finished.append(staged)


class _File:
    def __init__(
        self, location: str, sink: pa.NativeFile, values: Values, schema: pa.Schema, shape: FileShape, first: pa.Table
    ) -> None:
        import pyarrow.parquet as pq

        self._location, self._sink, self._values, self._schema, self._shape = location, sink, values, schema, shape
        self._rows = 0
        self._beyond = beyond_calendars(first)
        self._written: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(
            sink, schema, metadata_collector=self._written, **_encoding(first, shape, self._beyond)
        )

    def takes(self, group: pa.Table) -> bool:
        return self._sink.tell() < self._shape.max_file_bytes and beyond_calendars(group) == self._beyond

    def write(self, group: pa.Table) -> None:
        self._writer.write_table(group, row_group_size=group.num_rows)
        self._rows += group.num_rows

    def close(self) -> StagedFile:
        with self._sink:
            self._writer.close()
            size = self._sink.tell()
        ranges = column_ranges(self._written[0], self._schema)
        return StagedFile(self._location, self._rows, size, ranges, self._values)

    def give_up(self) -> None:
        """What has failed is what the caller raises."""
        import pyarrow as pa

        with suppress(OSError, pa.ArrowException), self._sink:
            self._writer.close()


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


def _partitioned(
    batches: Iterable[pa.RecordBatch], partitioning: Partitioning, limit: int
) -> Iterator[tuple[Values, pa.Table]]:
    """Rows wait until those of their partition are a row group; of all together, twice as many may wait."""
    import pyarrow as pa

    waiting: dict[Values, list[pa.Table]] = {}
    sizes: dict[Values, int] = {}
    for batch in batches:
        for values, rows in split(pa.Table.from_batches([batch]), partitioning):
            waiting.setdefault(values, []).append(rows)
            sizes[values] = sizes.get(values, 0) + rows.nbytes
            if sizes[values] >= limit:
                del sizes[values]
                yield values, pa.concat_tables(waiting.pop(values))
        while sum(sizes.values()) >= 2 * limit:
            largest = max(sizes, key=lambda each: sizes[each])
            del sizes[largest]
            yield largest, pa.concat_tables(waiting.pop(largest))
    for values, tables in waiting.items():
        yield values, pa.concat_tables(tables)


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


def _repeats(column: pa.ChunkedArray) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_nested(column.type) or pa.types.is_boolean(column.type):
        return False
    return bool(pc.count_distinct(column.slice(0, _SAMPLE), mode="all").as_py() <= min(_FEW, len(column) // 10))
