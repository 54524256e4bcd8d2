"""Readers leave out files by their bounds, so each bound must hold: no value of the file lies outside."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from highwater.pipeline.landing.files import FileShape, stage
from highwater.pipeline.landing.statistics import MOST_COLUMNS, ColumnRange, delta_statistics
from highwater.pipeline.landing.table import StagedFile, Table
from tests.unit.pipeline.landing.tables import reaching, table_of

MOMENT = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("note", pa.string()),
        ("day", pa.date32()),
        ("at", MOMENT),
        ("amount", pa.decimal128(10, 2)),
        ("large", pa.decimal128(38, 2)),
        ("ratio", pa.float64()),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("empty", pa.int64()),
    ]
)
ROWS: list[dict[str, Any]] = [
    {"id": 3, "note": "b", "day": date(2026, 1, 2), "at": datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)},
    {"id": -7, "ratio": 1.5, "note": None, "day": date(999, 12, 31), "at": datetime(999, 1, 1, tzinfo=UTC)},
    {"id": 5, "note": "a", "amount": Decimal("-12.34"), "large": Decimal(1), "ratio": float("nan"), "raw": b"x"},
]


def landed(table: Table, rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> list[StagedFile]:
    """In two row groups."""
    batches = [pa.RecordBatch.from_pylist(part, schema=schema) for part in (rows[:1], rows[1:])]
    shape = FileShape(row_group_bytes=1)
    files = stage(batches, schema, shape, table.prepare(schema), "part")
    assert table.commit(reaching(0, len(rows)), files)
    return files


@pytest.mark.parametrize("kind", ["delta"])
def test_each_file_of_a_delta_table_says_what_is_in_it(table: Table, path: Path) -> None:
    from deltalake import DeltaTable

    landed(table, ROWS)
    lines = (path / "_delta_log" / f"{1:020}.json").read_text().splitlines()
    [entry] = [json.loads(line)["add"] for line in lines if '"add"' in line]
    said = json.loads(entry["stats"])
    assert said["minValues"] == {
        "id": -7,
        "note": "a",
        "day": "0999-12-31",
        "at": "0999-01-01T00:00:00.000000Z",
        "amount": -12.34,
    }
    assert said["maxValues"] == said["minValues"] | {
        "id": 5,
        "note": "b",
        "day": "2026-01-02",
        "at": "2026-01-02T03:04:05.678901Z",
    }
    assert said["nullCount"] == {
        "id": 0, "note": 1, "day": 1, "at": 1, "amount": 2, "large": 2, "ratio": 1, "raw": 2, "empty": 3
    }  # fmt: skip
    actions = pa.table(DeltaTable(path).get_add_actions(flatten=True)).to_pylist()
    assert [(each["min.id"], each["max.at"].year, each["null_count.empty"]) for each in actions] == [(-7, 2026, 3)]


@pytest.mark.parametrize("kind", ["iceberg"])
def test_each_file_of_an_iceberg_table_says_what_is_in_it(table: Any, path: Path) -> None:
    landed(table, ROWS)
    [entry] = table.open().inspect.files().to_pylist()
    metrics = entry["readable_metrics"]
    assert (metrics["id"]["lower_bound"], metrics["id"]["upper_bound"]) == (-7, 5)
    assert (metrics["note"]["null_value_count"], metrics["empty"]["null_value_count"]) == (1, 3)
    assert metrics["at"]["upper_bound"] == ROWS[0]["at"]


def test_a_long_text_is_cut_so_that_it_still_lies_within_its_bounds() -> None:
    long = "\N{GREEK SMALL LETTER ALPHA}" * 100
    said = json.loads(delta_statistics(1, [ColumnRange("note", 0, long, long)]))
    assert said["minValues"]["note"] <= long <= said["maxValues"]["note"]
    assert len(said["maxValues"]["note"]) == 33


def test_a_table_of_many_columns_describes_the_first_of_them(tmp_path: Path) -> None:
    schema = pa.schema([(f"c{number}", pa.int64()) for number in range(100)])
    [file] = landed(table_of("delta", tmp_path / "wide"), [{"c0": 1}], schema)
    assert len(file.ranges) == MOST_COLUMNS


CELLS = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "note": st.none() | st.text(max_size=40),
        "at": st.none() | st.datetimes(timezones=st.just(UTC)),
        "amount": st.none() | st.decimals(-10000, 10000, places=2),
    }
)
NARROW = pa.schema([SCHEMA.field(name) for name in ("id", "note", "at", "amount")])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(CELLS, min_size=1, max_size=5), st.data())
def test_a_reader_that_goes_by_the_bounds_finds_every_row(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    from deltalake import DeltaTable

    path = tmp_path_factory.mktemp("table")
    landed(table_of("delta", path), rows, NARROW)
    column = data.draw(st.sampled_from(NARROW.names))
    value = data.draw(st.sampled_from(rows))[column]
    wanted = (
        pc.field(column).is_null() if value is None else pc.field(column) == pa.scalar(value, NARROW.field(column).type)
    )
    found = DeltaTable(path).to_pyarrow_dataset().to_table(filter=wanted)
    assert found.num_rows == sum(row[column] == value for row in rows)


@pytest.mark.parametrize("kind", ["delta"])
def test_a_column_has_no_bounds_if_they_are_missing_in_one_row_group(table: Table) -> None:
    """Parquet's writer leaves out bounds of more than 4 KiB."""
    [file] = landed(table, [{"id": 1, "note": "short"}, {"id": 2, "note": "x" * 5000}])
    ranges = {each.name: (each.least, each.largest) for each in file.ranges}
    assert (ranges["id"], ranges["note"]) == ((1, 2), (None, None))


@pytest.mark.parametrize("end", ["", "\U0010ffff", "\U0010ffff" * 3, "\U0010ffffz", "z" * 9])
def test_a_long_text_is_not_above_its_own_bound(end: str) -> None:
    text = "a" * 32 + end
    said = json.loads(delta_statistics(1, [ColumnRange("note", 0, text, text)]))
    assert said["minValues"]["note"] <= text <= said["maxValues"]["note"]
