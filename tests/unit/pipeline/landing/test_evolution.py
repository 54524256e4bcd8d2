"""A table grows by columns and by fields inside of them; what does not fit is an error that names it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from highwater.pipeline.landing.files import FileShape, stage
from highwater.pipeline.landing.rule import LandingError
from highwater.pipeline.landing.table import Table
from tests.unit.pipeline.landing.tables import SCHEMA, numbered, read, staged

pytestmark = pytest.mark.slow

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
        (
            pa.schema([("id", pa.int64()), ("Note", pa.string())]),
            "note of the table is missing .* and column Note is new",
        ),
    ],
)
def test_other_changes_are_refused_and_leave_the_table_as_it_was(
    table: Table, kind: str, path: Path, schema: pa.Schema, said: str
) -> None:
    table.commit(numbered("q", 0), staged(table, [1]))
    with pytest.raises(LandingError, match=said):
        table.prepare(schema)
    assert read(kind, path).column_names == ["id", "note"]


def test_without_merging_schemas_no_column_is_added_and_none_is_changed(table: Table, kind: str, path: Path) -> None:
    table.commit(numbered("q", 0), staged(table, [1]))
    settled = replace(table, merges=False)  # type: ignore[type-var]
    with pytest.raises(LandingError, match="column price is new in what is written, and mergeSchema is false"):
        settled.prepare(WIDER)
    nested = pa.schema([("id", pa.int64()), ("note", pa.string()), ("at", pa.struct([("x", pa.int64())]))])
    table.prepare(nested)
    inside = nested.set(2, pa.field("at", pa.struct([("x", pa.int64()), ("y", pa.int64())])))
    with pytest.raises(LandingError, match="column at is struct.* and would become struct.*mergeSchema is false"):
        settled.prepare(inside)
    assert read(kind, path).column_names == ["id", "note", "at"]
    settled.prepare(SCHEMA)  # one that is missing is null, as ever
    settled.commit(numbered("q", 1), staged(settled, [2]))
    assert sorted(read(kind, path)["id"].to_pylist()) == [1, 2]


def test_a_column_that_is_left_out_is_null_from_then_on(table: Table, kind: str, path: Path) -> None:
    rows = pa.RecordBatch.from_pylist([{"id": 1, "note": "a"}], schema=SCHEMA)
    table.commit(numbered("q", 0), stage([rows], SCHEMA, FileShape(), table.prepare(SCHEMA), "first"))
    table.commit(numbered("q", 1), staged(table, [2], pa.schema([("id", pa.int64())])))
    assert _found(kind, path) == [{"id": 1, "note": "a"}, {"id": 2, "note": None}]


def test_a_field_that_is_added_inside_of_a_column_is_null_in_the_rows_before_it(
    table: Table, kind: str, path: Path
) -> None:
    one, two = (pa.struct([(name, pa.string()) for name in names]) for names in ("a", "ab"))
    value = {"a": "x", "b": "y"}
    for number, (inner, kept) in enumerate([(one, "a"), (two, "ab"), (one, "a")]):
        schema = pa.schema([("id", pa.int64()), ("s", inner), ("l", pa.list_(inner))])
        held = {name: value[name] for name in kept}
        rows = pa.RecordBatch.from_pylist([{"id": number, "s": held, "l": [held]}], schema=schema)
        table.commit(numbered("q", number), stage([rows], schema, FileShape(), table.prepare(schema), f"b{number}"))
    short = {"a": "x", "b": None}
    assert _found(kind, path) == [
        {"id": 0, "s": short, "l": [short]},
        {"id": 1, "s": value, "l": [value]},
        {"id": 2, "s": short, "l": [short]},
    ]


def test_numbers_become_larger_in_iceberg_alone(table: Table, kind: str, path: Path) -> None:
    small = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("f", pa.float32())])
    large = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("f", pa.float64())])
    table.commit(numbered("q", 0), staged(table, [1], small))
    if kind != "iceberg":
        with pytest.raises(LandingError, match="column n is int32 .*: only an Iceberg table can widen a column"):
            table.prepare(large)
        return
    rows = pa.RecordBatch.from_pylist([{"id": 2, "n": 2**40, "f": 0.1}], schema=large)
    table.commit(numbered("q", 1), stage([rows], large, FileShape(), table.prepare(large), "wide"))
    assert _found(kind, path) == [{"id": 1, "n": None, "f": None}, {"id": 2, "n": 2**40, "f": 0.1}]


def _found(kind: str, path: Path) -> list[dict[str, Any]]:
    rows = read(kind, path).to_pylist()
    plain = [{name: cell for name, cell in row.items() if name not in ("query_id", "batch_id")} for row in rows]
    return sorted(plain, key=lambda row: int(row["id"]))


def test_every_type_that_is_let_through_fits_the_table_that_it_made(table: Table) -> None:
    types = [
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()),
        *(pa.binary(), pa.date32(), pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.decimal128(38, 18)),
        *(pa.list_(pa.int16()), pa.map_(pa.string(), pa.int8()), pa.struct([("a", pa.list_(pa.string()))])),
    ]
    schema = pa.schema([("id", pa.int64()), *((f"c{number}", type_) for number, type_ in enumerate(types))])
    assert table.commit(numbered("q", 0), staged(table, [1], schema))
    assert table.commit(numbered("q", 1), staged(table, [2], schema))
