"""A table grows by columns; whatever else changes is an error that says what."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from highwater.pipeline.landing.rule import LandingError
from highwater.pipeline.landing.table import Table
from tests.unit.pipeline.landing.tables import SCHEMA, numbered, read, staged

WIDER = pa.schema([*SCHEMA, pa.field("price", pa.decimal128(10, 2)), pa.field("tags", pa.list_(pa.string()))])


def test_a_new_column_is_null_in_the_rows_before_it(table: Table, kind: str, path: Path) -> None:
    table.commit(numbered("q", 0), staged(table, [1]))
    table.commit(numbered("q", 1), staged(table, [2], WIDER))
    found = read(kind, path)
    assert set(found.column_names) == {"id", "note", "price", "tags"}
    assert sorted(found["id"].to_pylist()) == [1, 2]
    assert found["price"].null_count == 2
    assert found.schema.field("price").type == pa.decimal128(10, 2)


def test_a_column_that_was_not_null_once_may_be_null_in_the_table(table: Table, kind: str, path: Path) -> None:
    strict = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("note", pa.string())])
    table.commit(numbered("q", 0), staged(table, [1]))
    table.prepare(strict)
    table.commit(numbered("q", 1), staged(table, [2]))
    assert sorted(read(kind, path)["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (pa.schema([("id", pa.int32()), ("note", pa.string())]), "column id is int64 in the table and int32 in what"),
        (pa.schema([("id", pa.int64()), ("note", pa.binary())]), "column note is string in the table and binary"),
        (pa.schema([("id", pa.int64())]), "column note of the table is missing"),
        (pa.schema([("id", pa.int64()), ("Note", pa.string())]), "column note of the table is missing"),
    ],
)
def test_other_changes_are_refused_and_leave_the_table_as_it_was(
    table: Table, kind: str, path: Path, schema: pa.Schema, said: str
) -> None:
    table.commit(numbered("q", 0), staged(table, [1]))
    with pytest.raises(LandingError, match=said):
        table.prepare(schema)
    assert read(kind, path).column_names == ["id", "note"]


def test_every_type_that_is_let_through_fits_the_table_that_it_made(table: Table) -> None:
    types = [
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()),
        *(pa.binary(), pa.date32(), pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.decimal128(38, 18)),
        *(pa.list_(pa.int16()), pa.map_(pa.string(), pa.int8()), pa.struct([("a", pa.list_(pa.string()))])),
    ]
    schema = pa.schema([("id", pa.int64()), *((f"c{number}", type_) for number, type_ in enumerate(types))])
    assert table.commit(numbered("q", 0), staged(table, [1], schema))
    assert table.commit(numbered("q", 1), staged(table, [2], schema))
