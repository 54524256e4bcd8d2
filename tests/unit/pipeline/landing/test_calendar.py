"""A record may carry any timestamp or day, also one that no calendar has: it lands, and keeps nothing else from
landing."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from highwater.pipeline.landing.files import FileShape, stage
from highwater.pipeline.landing.table import Table
from tests.unit.pipeline.landing.tables import numbered, read


@pytest.mark.parametrize("moment", [2**63 - 1, 253_402_300_800_000_000, -(2**62)])
def test_a_record_dated_beyond_the_calendar_lands_like_any_other(
    table: Table, kind: str, path: Path, moment: int
) -> None:
    schema = pa.schema([("id", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC"))])
    staging = table.prepare(schema)
    usual = 1_700_000_000_000_000
    batches = [
        pa.RecordBatch.from_arrays([pa.array([at]), pa.array([when]).cast(schema.field(1).type)], schema=schema)
        for at, when in enumerate((usual, moment, usual))
    ]
    files = stage(batches, schema, FileShape(row_group_bytes=1), staging, "far")
    assert [file.rows for file in files] == [1, 1, 1], "only the one in the middle goes without statistics"
    assert table.commit(numbered("q", 0), files)
    assert read(kind, path).column("timestamp").cast(pa.int64()).to_pylist() == [usual, moment, usual]
    statistics = [
        pq.read_metadata(file).row_group(0).column(1).is_stats_set for file in sorted(path.glob("**/*.parquet"))
    ]
    assert sorted(statistics) == [False, True, True]


def test_a_day_beyond_the_calendar_lands_like_any_other(table: Table, kind: str, path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32())])
    staging = table.prepare(schema)
    usual, far = 20_000, 3_000_000
    batches = [
        pa.RecordBatch.from_arrays([pa.array([at]), pa.array([day], pa.int32()).cast(pa.date32())], schema=schema)
        for at, day in enumerate((usual, far, -far))
    ]
    files = stage(batches, schema, FileShape(row_group_bytes=1), staging, "far")
    assert table.commit(numbered("q", 0), files)
    assert read(kind, path).column("day").cast(pa.int32()).to_pylist() == [usual, far, -far]
    assert [[each.largest for each in file.ranges if each.name == "day"] for file in files] == [[date(2024, 10, 4)], []]
