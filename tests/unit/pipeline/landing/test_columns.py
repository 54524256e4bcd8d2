from __future__ import annotations

import pyarrow as pa
import pytest

from highwater.pipeline.landing.columns import additions, landed
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
    assert [field.name for field in additions(table, batch)] == ["d"]


def test_a_field_inside_of_a_column_cannot_be_added() -> None:
    one, two = (pa.struct([(name, pa.int32()) for name in names]) for names in ("a", "ab"))
    with pytest.raises(LandingError, match="a column keeps its type"):
        additions(pa.schema([("s", one)]), pa.schema([("s", two)]))
