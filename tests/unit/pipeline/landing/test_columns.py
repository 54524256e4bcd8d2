from __future__ import annotations

import pyarrow as pa
import pytest

from highwater.pipeline.landing.columns import grown, landed
from highwater.pipeline.landing.rule import LandingError


def test_every_column_may_be_null_in_a_table() -> None:
    assert landed(pa.schema([pa.field("id", pa.int64(), nullable=False)])).field("id").nullable


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([], "at least one column"),
        ([("a", pa.null())], "column a has no type"),
        ([("a", pa.list_(pa.null()))], "column a has no type"),
        ([("a", pa.duration("us"))], "column a is or has duration"),
        ([("a", pa.struct([("b", pa.timestamp("ns"))]))], r"column a is or has timestamp\[ns\]"),
        ([("a", pa.int32()), ("A", pa.int32())], "by case alone: a, A"),
        ([("a", pa.int32()), ("a", pa.int32())], "by case alone: a, a"),
    ],
)
def test_a_column_type_that_a_table_cannot_hold_is_refused_by_name(
    fields: list[tuple[str, pa.DataType]], said: str
) -> None:
    with pytest.raises(LandingError, match=said):
        landed(pa.schema(fields))


def test_types_that_differ_in_what_no_reader_sees_are_the_same() -> None:
    table = pa.schema(
        [("a", pa.large_string()), ("b", pa.large_list(pa.large_binary())), ("c", pa.map_("string", "int32"))]
    )
    inner = pa.list_(pa.field("item", pa.binary(), nullable=False))
    batch = pa.schema([("a", pa.string()), ("b", inner), ("c", pa.map_("string", "int32")), ("d", pa.int8())])
    assert grown(table, batch).names == ["a", "b", "c", "d"]
    assert grown(table, batch.remove(3)).equals(table, check_metadata=False)


def struct(**fields: pa.DataType) -> pa.StructType:
    return pa.struct([pa.field(name, type_) for name, type_ in fields.items()])


A, AB = struct(a=pa.int32()), struct(a=pa.int32(), b=pa.string())


@pytest.mark.parametrize(
    ("then", "now", "after"),
    [
        (A, AB, AB),
        (AB, A, AB),
        (pa.list_(pa.field("element", A)), pa.list_(AB), pa.list_(pa.field("element", AB))),
        (pa.map_("string", A), pa.map_("string", AB), pa.map_("string", AB)),
        (struct(s=A), struct(s=AB), struct(s=AB)),
    ],
)
def test_fields_inside_of_a_column_are_added_and_may_be_left_out(
    then: pa.DataType, now: pa.DataType, after: pa.DataType
) -> None:
    assert grown(pa.schema([("s", then)]), pa.schema([("s", now)])) == pa.schema([("s", after)])


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        (A, struct(b=pa.string()), r"column s\.a of the table is missing in what is written, and column s\.b is new"),
        (A, struct(a=pa.string()), r"column s\.a is int32 in the table and string"),
        (pa.map_("int32", A), pa.map_("int64", A), r"column s\.key is int32 in the table and int64"),
        (pa.list_(A), A, "column s is list<.* in the table and struct<"),
        (pa.decimal128(10, 2), pa.decimal128(12, 3), "a column keeps its type"),
        (pa.int64(), pa.int32(), "a column keeps its type"),
    ],
)
def test_what_does_not_fit_inside_of_a_column_is_named(then: pa.DataType, now: pa.DataType, said: str) -> None:
    with pytest.raises(LandingError, match=said):
        grown(pa.schema([("s", then)]), pa.schema([("s", now)]), widens=True)


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (pa.int32(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.decimal128(10, 2), pa.decimal128(12, 2)),
        (struct(a=pa.int32()), struct(a=pa.int64())),
    ],
)
def test_a_column_becomes_wider_only_where_the_format_can(then: pa.DataType, now: pa.DataType) -> None:
    table, batch = pa.schema([("n", then)]), pa.schema([("n", now)])
    assert grown(table, batch, widens=True) == batch
    with pytest.raises(LandingError, match="column n.* in what is written: only an Iceberg table can widen a column"):
        grown(table, batch)


def test_a_column_that_may_not_be_null_is_not_left_out() -> None:
    table = pa.schema([("id", pa.int64()), ("note", pa.string())])
    assert grown(table, table.remove(1)) == table
    with pytest.raises(LandingError, match="column note of the table is missing in what is written, and it may not be"):
        grown(table, table.remove(1), required=("note",))
