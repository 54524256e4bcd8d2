"""Files of a sensible size and shape."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from highwater.pipeline.landing.files import FileShape, stage
from highwater.pipeline.landing.folder import FolderStaging

UTC = pa.timestamp("us", tz="UTC")


def staging(tmp_path: Path) -> FolderStaging:
    return FolderStaging(str(tmp_path), ".parquet")


def noise(rows: int) -> pa.RecordBatch:
    """Values that no compression makes smaller."""
    return pa.record_batch(
        {"offset": range(rows), "value": [os.urandom(100) for _ in range(rows)], "topic": ["t"] * rows}
    )


def test_no_row_makes_no_file(tmp_path: Path) -> None:
    empty = noise(0)
    assert stage([], empty.schema, FileShape(), staging(tmp_path), "a") == []
    assert stage([empty], empty.schema, FileShape(), staging(tmp_path), "a") == []
    assert list(tmp_path.iterdir()) == []


def test_small_batches_are_gathered_into_one_row_group(tmp_path: Path) -> None:
    batch = noise(100)
    [file] = stage([batch] * 50, batch.schema, FileShape(), staging(tmp_path), "a")
    footer = pq.read_metadata(file.location)
    assert (footer.num_rows, footer.num_row_groups) == (5000, 1)
    assert (file.rows, file.size) == (5000, Path(file.location).stat().st_size)


def test_a_file_that_has_grown_enough_is_followed_by_another(tmp_path: Path) -> None:
    shape = FileShape(max_file_bytes=1 << 20, row_group_bytes=1 << 18)
    batches = [noise(1000) for _ in range(40)]
    files = stage(batches, batches[0].schema, shape, staging(tmp_path), "a")
    assert len(files) == 4
    assert sum(file.rows for file in files) == 40_000
    assert all(file.size < (1 << 20) + (1 << 19) for file in files)
    assert [Path(file.location).name for file in files] == [f"a-{number}.parquet" for number in range(4)]
    footer = pq.read_metadata(files[0].location)
    assert footer.num_row_groups > 2


def test_only_columns_whose_values_repeat_get_a_dictionary(tmp_path: Path) -> None:
    batch = noise(5000)
    [file] = stage([batch], batch.schema, FileShape(), staging(tmp_path), "a")
    group = pq.read_metadata(file.location).row_group(0)
    columns = {group.column(number).path_in_schema: group.column(number) for number in range(group.num_columns)}
    with_dictionary = {name for name, column in columns.items() if column.has_dictionary_page}
    assert with_dictionary == {"topic"}
    assert columns["offset"].statistics.max == 4999


def test_timestamps_of_any_zone_are_written_in_utc_and_microseconds(tmp_path: Path) -> None:
    schema = pa.schema([("at", UTC), ("each", pa.list_(UTC))])
    local = pa.timestamp("us", tz="Europe/Berlin")
    batch = pa.record_batch([pa.array([10], local), pa.array([[20]], pa.list_(local))], ["at", "each"])
    [file] = stage([batch], schema, FileShape(), staging(tmp_path), "a")
    read = pq.read_table(file.location)
    assert read.schema.field("at").type == UTC
    assert read["at"].cast(pa.int64()).to_pylist() == [10]
    assert read["each"].combine_chunks().flatten().cast(pa.int64()).to_pylist() == [20]
