"""Many values at once are read as each would be by hand, and as few by hand as can be."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.pipeline.decode import parse_schema
from highwater.pipeline.decode.cells import Misfit, RowReader
from highwater.pipeline.decode.json_values import FEW, JsonReader
from tests.unit.pipeline.json_rows import RICH, anything, as_json, rich

pytestmark = pytest.mark.slow

literals = (
    anything.map(json.dumps)
    | rich.flatmap(lambda row: st.sampled_from(list(row.values()))).map(as_json)
    | st.integers(-(2**33), 2**33).map(str)
    | st.sampled_from(
        ["2147483647", "2147483648", "-2147483648", "1.0", "1e2", "999999999.999", "1234567890.5", "0.1234"]
    )
    | st.sampled_from(["NaN", "-Infinity", "1e39", "", "tru", '"12.5"', '"12,5"', '"1e400"', '"2024-02-30"'])
    | st.sampled_from(
        ['"2023-02-29"', '"2024-02-29"', '"2024-13-01"', '"0000-01-01"', '"2024-01-01T24:00:00"', '"today"']
    )
)
"""What could stand where a value of RICH is expected; some of it is no JSON."""
strange = st.dictionaries(
    st.sampled_from(["id", "price", "day", "at", "local", "ratio", "who", "tags", "lines", "name", "sku"]), literals
).map(lambda fields: "{" + ", ".join(f'"{name}": {literal}' for name, literal in fields.items()) + "}")


@given(st.lists(strange | rich.map(as_json), min_size=1, max_size=20), st.integers(0, 2 * FEW))
@settings(max_examples=80, deadline=None)
def test_values_are_read_together_as_they_are_read_one_by_one(texts: list[str], padding: int) -> None:
    """The second time the reader is wary, and takes out what looks odd before it tries."""
    values = [b'{"id": 0}'] * padding + [text.encode() for text in texts]
    schema = parse_schema(RICH)
    by_hand, expected, misfits = RowReader(schema), {}, {}
    for index, value in enumerate(values):
        try:
            expected[index] = by_hand.read(value)
        except Misfit as misfit:
            misfits[index] = str(misfit)
    together = JsonReader(schema)
    alone = pa.Table.from_pylist(list(expected.values()), schema)
    for _ in range(2):
        typed = together.read(pa.array(values, pa.binary()))
        assert typed.reasons == misfits
        assert typed.at.to_pylist() == list(expected)
        # Printed, since NaN is not equal to itself.
        assert str(typed.rows.to_pylist()) == str(alone.to_pylist())


class Trying(JsonReader):
    attempts = 0

    def _parsed(self, stream: pa.Buffer, documents: int) -> pa.Table:
        self.attempts += 1
        return super()._parsed(stream, documents)


@pytest.mark.parametrize("value", [b'{"id": 1 "ratio": 2}', b'{"id": "x"}', b'{"id": 99999999999}'])
def test_a_block_of_bad_rows_alone_takes_few_attempts(value: bytes) -> None:
    """Each costs as much as ten rows by hand, so that one for each row would cost ten times as much as no attempt."""
    count = 50 * FEW
    reader = Trying(parse_schema(RICH))
    assert len(reader.read(pa.array([value] * count, pa.binary())).reasons) == count
    assert reader.attempts <= 2 * count // FEW + 5


class Counting(RowReader):
    count = 0

    def read(self, value: bytes) -> dict[str, Any]:
        self.count += 1
        return super().read(value)


@pytest.mark.parametrize(
    "field",
    [
        '"id": "7"',
        '"id": 2147483648',
        '"id": 1.5',
        '"price": 1234567890.5',
        '"price": 0.1234',
        '"price": "12,5"',
        '"day": "2024-02-30"',
        '"day": "yesterday"',
        '"at": "2024-13-01T00:00:00"',
        '"at": 5',
        '"local": "2024-01-01 25:00:00"',
        '"ratio": "high"',
        '"who": "me"',
        '"who": {"name": 5}',
        '"tags": "none"',
        '"lines": [{"sku": "A"}]',
        '"id": 1, "id": 2',
        '"id": ',
        '"id": 1 "ratio": 2',
    ],
)
def test_one_bad_row_in_a_hundred_leaves_the_others_to_the_fast_way(field: str) -> None:
    """By hand a row takes ten times as long, and each attempt of Arrow's as long as ten rows by hand."""
    good = as_json({"id": 1, "price": Decimal("12.125"), "day": date(2024, 2, 28), "at": "2024-02-28T23:59:59Z"})
    values = pa.array([good.encode()] * 99 + [f"{{{field}}}".encode()] * 1, pa.binary())
    values = pa.concat_arrays([values] * 10)
    schema = parse_schema(RICH)
    reader = JsonReader(schema)
    reader._by_hand = counting = Counting(schema)
    for _ in range(2):
        counting.count = 0
        assert len(reader.read(values).reasons) == 10
        assert counting.count == 10
