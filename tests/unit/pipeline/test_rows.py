"""The columns that Spark gets: exactly its own connector's, or those of them that were asked for."""

from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from highwater.pipeline import rows
from highwater.pipeline.ranges import OffsetRange
from highwater.pipeline.rows import Rows
from highwater.pipeline.selection import BadOption
from highwater.pipeline.source import HighwaterDataSource
from highwater.wire.records import build, columns

RANGE = OffsetRange("orders", "", 3, 0, 10)
BATCH = build([(1000, b"k", None, [("a", b"1"), ("a", None)]), (2000, None, b"v", [])], base_offset=5)


def test_a_row_has_every_column_of_its_record() -> None:
    wanted = rows.schema(headers=True)
    made = Rows.of(wanted).batch(RANGE, next(columns([BATCH], headers=True)))
    assert made.schema.equals(to_arrow_schema(wanted, timezone="UTC"))
    first, second = made.to_pylist()
    assert (first["key"], first["value"], first["topic"], first["partition"], first["offset"]) == (
        b"k",
        None,
        "orders",
        3,
        5,
    )
    assert (first["timestamp"].timestamp(), first["timestampType"]) == (1, 0)
    assert first["headers"] == [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    assert (second["key"], second["headers"]) == (None, None), "no headers are null, as with Spark's connector"


def test_columns_left_out_of_the_schema_are_not_made() -> None:
    wanted = StructType([StructField("offset", LongType()), StructField("topic", StringType())])
    narrow = Rows.of(wanted)
    assert (narrow.columns.key, narrow.columns.value, narrow.columns.headers) == (False, False, False)
    made = narrow.batch(RANGE, next(columns([BATCH], keys=False, values=False)))
    assert made.to_pylist() == [{"offset": 5, "topic": "orders"}, {"offset": 6, "topic": "orders"}]


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (StructField("amount", LongType()), "column amount; there are key, value"),
        (StructField("offset", BinaryType()), "column offset as binary: it is bigint"),
    ],
)
def test_a_schema_with_other_columns_is_refused(field: StructField, said: str) -> None:
    with pytest.raises(BadOption, match=said):
        Rows.of(StructType([field]))


READ = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders"}


def test_headers_are_a_column_if_they_are_asked_for_and_a_word_that_is_no_switch_is_refused() -> None:
    for given, has_them in (({}, False), ({"includeHeaders": "false"}, False), ({"includeHeaders": " TRUE"}, True)):
        schema = HighwaterDataSource({**READ, **given}).schema()
        assert isinstance(schema, StructType) and ("headers" in schema.names) is has_them
    with pytest.raises(BadOption, match="option includeHeaders is 'yes': expected false or true"):
        HighwaterDataSource({**READ, "includeHeaders": "yes"}).schema()


@pytest.mark.parametrize("given", [{"emit": "ranges"}, {"decode": "json", "schema": "id INT"}])
def test_headers_are_not_asked_for_in_vain(given: dict[str, str]) -> None:
    source = HighwaterDataSource({**READ, **given, "includeHeaders": "true"})
    with pytest.raises(BadOption, match="includeHeaders is given with (emit=ranges|decode), whose rows"):
        source.streamReader(StructType())
