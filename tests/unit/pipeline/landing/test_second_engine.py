"""Tables as polars reads them, by its own reader of Parquet, which goes by our statistics and columns, and with its own
plan for Iceberg."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from highwater.pipeline.landing.files import FileShape, stage
from highwater.pipeline.landing.iceberg import IcebergTable
from highwater.pipeline.landing.options import Landing
from highwater.pipeline.landing.table import Table
from tests.unit.pipeline.landing.tables import options_of, reaching

pytestmark = pytest.mark.slow

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("country", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("born", pa.date32()),
        ("amount", pa.decimal128(10, 2)),
        ("ratio", pa.float64()),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
    ]
)
GROWN = SCHEMA.append(pa.field("note", pa.string()))
BATCHES, ROWS = 4, 10
BEGIN = datetime(2024, 2, 28, 22, tzinfo=UTC)


def row(number: int) -> dict[str, Any]:
    """Every seventh has nothing but its number."""
    if number % 7 == 6:
        return dict.fromkeys(GROWN.names) | {"id": number}
    return {
        "id": number,
        "country": ("DE", "KR", "a b/c=é%")[number % 3],
        "at": BEGIN + timedelta(hours=number),
        "born": date(1970, 1, 1) + timedelta(days=number * 1000),
        "amount": Decimal(number) / 4,
        "ratio": number / 3,
        "raw": bytes([0, number]),
        "tags": ["x", None, str(number)][: number % 4],
        "place": {"city": f"city {number}", "zip": number},
        "note": f"note {number}" if number >= ROWS else None,
    }


def landed(kind: str, path: Path, **options: str) -> Table:
    """A column comes with the second batch."""
    table = Landing.from_options(options_of(kind, path) | options).table
    for number in range(BATCHES):
        schema = GROWN if number else SCHEMA
        begin = number * ROWS
        rows = [{name: row(each)[name] for name in schema.names} for each in range(begin, begin + ROWS)]
        batch = pa.RecordBatch.from_pylist(rows, schema=schema)
        files = stage([batch], schema, FileShape(), table.prepare(schema), f"part-{number}")
        assert table.commit(reaching(begin, begin + ROWS, number + 1), files)
    return table


def scan(kind: str, path: Path, table: Table, by: str) -> pl.LazyFrame:
    if kind == "delta":
        # Its own reader takes partitions from the names of folders; by Delta's protocol the log says them.
        return pl.scan_delta(str(path), use_pyarrow=bool(by))
    assert isinstance(table, IcebergTable)
    return pl.scan_iceberg(table.open(), reader_override="native")


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("by", ["", "country,days(at)"], ids=["whole", "partitioned"])
@pytest.mark.parametrize("is_compacted", [False, True], ids=["as landed", "compacted"])
def test_another_engine_reads_every_row_and_leaves_out_files_rightly(
    tmp_path: Path, kind: str, by: str, is_compacted: bool
) -> None:
    table = landed(kind, tmp_path / "t", **({"partitionBy": by} if by else {}))
    if is_compacted:
        assert table.compact(1 << 20, lambda: False) > 1
    expected = [row(number) for number in range(BATCHES * ROWS)]
    rows = scan(kind, tmp_path / "t", table, by)
    assert rows.sort("id").select(GROWN.names).collect().to_dicts() == expected
    # What a predicate keeps is what it should, whatever files are left out by partitions and bounds.
    for wanted, keeps in (
        (pl.col("id") >= 25, lambda each: each["id"] >= 25),
        (pl.col("country") == "a b/c=é%", lambda each: each["country"] == "a b/c=é%"),
        (
            pl.col("at") < BEGIN + timedelta(hours=3),
            lambda each: each["at"] and each["at"] < BEGIN + timedelta(hours=3),
        ),
        (pl.col("note").is_null(), lambda each: each["note"] is None),
        (pl.col("amount") > Decimal("7.25"), lambda each: each["amount"] and each["amount"] > Decimal("7.25")),
    ):
        if kind == "delta" and by and "is_null" in str(wanted):
            continue  # deltalake's dataset passes over files that were there before the column, also over its own
        found = rows.filter(wanted).sort("id").collect()["id"].to_list()
        assert found == [each["id"] for each in expected if keeps(each)], str(wanted)
