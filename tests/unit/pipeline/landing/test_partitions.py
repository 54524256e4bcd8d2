"""Partitioned tables: one file for each partition value of a task, and readers that find rows by partition."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from highwater.pipeline.landing import files as landing_files
from highwater.pipeline.landing.delta import DeltaTable
from highwater.pipeline.landing.files import FileShape, stage
from highwater.pipeline.landing.iceberg import IcebergTable
from highwater.pipeline.landing.options import Landing
from highwater.pipeline.landing.partitioning import (
    PartitionField,
    Partitioning,
    Value,
    number_of,
    parse,
    split,
    text_of,
)
from highwater.pipeline.landing.rule import LandingError
from highwater.pipeline.landing.table import StagedFile, Table
from highwater.pipeline.selection import BadOption
from tests.unit.pipeline.landing.tables import reaching, read

pytestmark = pytest.mark.slow

SCHEMA = pa.schema(
    [("id", pa.int64()), ("country", pa.string()), ("at", pa.timestamp("us", tz="UTC")), ("day", pa.date32())]
)
KINDS = pytest.mark.parametrize("kind", ["delta", "iceberg"])
UNITS = ("years", "months", "days", "hours")
LONG = "a long text, which Parquet has no bounds for " * 100


def partitioned(kind: str, path: Path, by: str) -> Table:
    options = {"table": kind, "path": str(path), "partitionBy": by}
    return Landing.from_options(options).table


def rows_of(count: int) -> list[dict[str, Any]]:
    places = ("DE", "KR", None, "a b/c=%2F", LONG)
    begin = datetime(1969, 12, 30, 22, 30, tzinfo=UTC)
    return [
        {
            "id": number,
            "country": places[number % len(places)],
            "at": None if number % 7 == 6 else begin + timedelta(hours=number),
            "day": date(2026, 1, 1) + timedelta(days=number % 3),
        }
        for number in range(count)
    ]


def staged(table: Table, rows: Iterable[dict[str, Any]], schema: pa.Schema = SCHEMA) -> list[StagedFile]:
    given = list(rows)
    batches = [pa.RecordBatch.from_pylist(part, schema=schema) for part in (given[:5], given[5:])]
    return stage(batches, schema, FileShape(), table.prepare(schema), uuid.uuid4().hex)


def comparable(rows: Iterable[dict[str, Any]]) -> Counter[Any]:
    return Counter(tuple(row[name] for name in SCHEMA.names) for row in rows)


@KINDS
@pytest.mark.parametrize(
    "by", ["country", "days(at)", "hours(at),country", "months(at)", "years(at)", "day", "days(day)"]
)
def test_rows_of_each_partition_are_in_one_file_and_are_read_back(path: Path, kind: str, by: str) -> None:
    table, rows = partitioned(kind, path, by), rows_of(40)
    files = staged(table, rows)
    assert table.commit(reaching(0, 40), files)
    wanted = split(pa.Table.from_pylist(rows, SCHEMA), Partitioning(parse(by)))
    assert len({file.partition for file in files}) == len(files) == len(list(wanted)) > 1
    assert comparable(read(kind, path).to_pylist()) == comparable(rows)
    more = [{**row, "id": row["id"] + 100} for row in rows]
    assert table.commit(reaching(40, 80, number=2), staged(table, more))
    assert not table.commit(reaching(40, 80, number=2), staged(table, more))
    assert comparable(read(kind, path).to_pylist()) == comparable([*rows, *more])


def test_a_reader_of_delta_opens_the_files_of_its_partition_alone(path: Path) -> None:
    from deltalake import DeltaTable as Delta

    table = partitioned("delta", path, "country,days(at)")
    table.commit(reaching(0, 40), staged(table, rows_of(40)))
    actions = pa.table(Delta(path).get_add_actions(flatten=True)).to_pylist()
    assert {each["partition.country"] for each in actions} == {"DE", "KR", None, "a b/c=%2F", LONG}
    assert date(1969, 12, 31) in {each["partition.at_day"] for each in actions}
    korean = [each for each in actions if each["partition.country"] == "KR"]
    assert {(each["min.id"] % 5, each["null_count.id"]) for each in korean} == {(1, 0)}, "statistics are kept"
    for file in path.glob("*.parquet"):
        assert pq.read_schema(file).names == ["id", "at", "day"], "Delta's files have no partition columns"
    found = Delta(path).to_pyarrow_dataset()
    fragments = list(found.get_fragments(filter=pc.field("country") == "KR"))
    assert len(fragments) == len(korean) < len(actions)
    assert sorted(found.to_table(filter=pc.field("country") == "KR")["id"].to_pylist()) == list(range(1, 40, 5))


@KINDS
def test_a_file_comes_with_the_columns_that_it_does_not_have(path: Path, kind: str) -> None:
    table = partitioned(kind, path, "country,years(at)")
    table.commit(reaching(0, 40), staged(table, rows_of(40)))
    contents = table.contents()
    for file in contents.files:
        stored = pq.read_table(file.removeprefix("file://"))
        constants = contents.constants.get(file, {})
        assert ("country" in stored.column_names) == ("country" not in constants)
    if kind == "delta":
        assert {each["country"] for each in contents.constants.values()} == {row["country"] for row in rows_of(5)}


def test_a_reader_of_iceberg_opens_the_files_of_its_partition_alone(path: Path) -> None:
    table = partitioned("iceberg", path, "country,days(at)")
    assert isinstance(table, IcebergTable)
    table.commit(reaching(0, 40), staged(table, rows_of(40)))
    opened = table.open()
    assert [(field.name, str(field.transform)) for field in opened.spec().fields] == [
        ("country", "identity"),
        ("at_day", "day"),
    ]
    every, korean = list(opened.scan().plan_files()), list(opened.scan("country = 'KR'").plan_files())
    assert 0 < len(korean) < len(every)
    assert sorted(opened.scan("country = 'KR'").to_arrow()["id"].to_pylist()) == list(range(1, 40, 5))
    of_a_day = opened.scan("at >= '1970-01-01T00:00:00+00:00' and at < '1970-01-02T00:00:00+00:00'")
    assert len(list(of_a_day.plan_files())) < len(every)
    wanted = [row["id"] for row in rows_of(40) if row["at"] is not None and row["at"].date() == date(1970, 1, 1)]
    assert sorted(of_a_day.to_arrow()["id"].to_pylist()) == wanted
    metrics = opened.inspect.files().to_pylist()
    assert {each["partition"]["country"] for each in metrics} == {"DE", "KR", None, "a b/c=%2F", LONG}
    assert all(each["readable_metrics"]["id"]["lower_bound"] is not None for each in metrics)


@KINDS
def test_a_table_keeps_its_partitions(path: Path, kind: str) -> None:
    staged(partitioned(kind, path, "country"), rows_of(5))
    for by in ("day", "country,day", "days(at)"):
        with pytest.raises(LandingError, match=r"is partitioned by country, and not by .* as partitionBy says"):
            partitioned(kind, path, by).prepare(SCHEMA)
    table = partitioned(kind, path, "")
    files = staged(table, rows_of(10))
    assert {file.partition for file in files} == {(row["country"],) for row in rows_of(10)}, "without the option, too"
    assert table.commit(reaching(0, 10), files)
    assert comparable(read(kind, path).to_pylist()) == comparable(rows_of(10))


def test_a_delta_table_that_is_partitioned_by_time_asks_for_the_column_that_it_is_made_of(path: Path) -> None:
    staged(partitioned("delta", path, "days(at)"), rows_of(5))
    with pytest.raises(LandingError, match="partitioned by at_day, and the rows have no column at_day: say with"):
        partitioned("delta", path, "").prepare(SCHEMA)


def test_an_iceberg_table_that_is_partitioned_in_another_way_is_refused_by_name(path: Path) -> None:
    from pyiceberg.transforms import BucketTransform

    table = partitioned("iceberg", path, "")
    assert isinstance(table, IcebergTable)
    table.prepare(SCHEMA)
    with table.open().update_spec() as spec:
        spec.add_field("id", BucketTransform(4), "id_bucket")
    with pytest.raises(LandingError, match=r"default.table is partitioned by bucket\[4\]\(id\): only columns"):
        table.prepare(SCHEMA)


@KINDS
@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("city", "partitioned by city, and the rows have no column city"),
        ("at", r"by at, which is timestamp.*only numbers.*: use days\(at\)"),
        ("hours(day)", r"by hours\(day\), and day is date32.*: no moment"),
        ("months(id)", r"by months\(id\), and id is int64: no moment"),
    ],
)
def test_rows_that_cannot_be_shared_out_so_are_refused_before_a_table_is_made(
    path: Path, kind: str, by: str, said: str
) -> None:
    table = partitioned(kind, path, by)
    with pytest.raises(LandingError, match=said):
        table.prepare(SCHEMA)
    assert not table.exists()


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("days(at", r"'days\(at' is no partition"),
        ("weeks(at)", r"'weeks\(at\)' is no partition: expected a column, or years\(COLUMN\)"),
        ("country,", "'' is no partition"),
        ("country, country", "names a partition twice"),
    ],
)
def test_what_is_no_partition_is_refused(path: Path, by: str, said: str) -> None:
    with pytest.raises(BadOption, match=f"option partitionBy: .*{said}"):
        partitioned("delta", path, by)
    with pytest.raises(BadOption, match="for table=delta and table=iceberg: the folders of a Parquet table are its"):
        partitioned("parquet", path, "country")


@KINDS
def test_small_files_are_made_large_ones_within_each_partition(path: Path, kind: str) -> None:
    table = partitioned(kind, path, "country,months(at)")
    rows = [{**row, "id": number} for number in range(6) for row in rows_of(10)]
    for number in range(6):
        part = rows[number * 10 : number * 10 + 10]
        assert table.commit(reaching(number, number + 1, number + 1), staged(table, part))
    before = len(table.contents().files)
    partitions = before // 6
    assert table.compact(1 << 20, lambda: False) == before
    assert len(table.contents().files) == partitions > 1
    assert comparable(read(kind, path).to_pylist()) == comparable(rows)
    if kind == "delta":
        lines = sorted((path / "_delta_log").glob("*.json"))[-1].read_text().splitlines()
        removes = [json.loads(line)["remove"] for line in lines if '"remove"' in line[:20]]
        assert removes
        assert all(set(each["partitionValues"]) == {"country", "at_month"} for each in removes)
    assert table.commit(reaching(6, 7, 7), staged(table, rows_of(3)))
    assert comparable(read(kind, path).to_pylist()) == comparable([*rows, *rows_of(3)])


@KINDS
def test_a_moment_that_no_calendar_has_lands_in_the_partition_of_nulls(path: Path, kind: str) -> None:
    table = partitioned(kind, path, "days(at)")
    schema = pa.schema([SCHEMA.field("id"), SCHEMA.field("at")])
    moments = pa.array([0, 2**62, None], pa.int64()).cast(schema.field("at").type)
    batch = pa.record_batch([pa.array([1, 2, 3]), moments], schema=schema)
    files = stage([batch], schema, FileShape(), table.prepare(schema), uuid.uuid4().hex)
    assert {file.partition: file.rows for file in files} == {(0,): 1, (None,): 2}
    assert table.commit(reaching(0, 3), files)


def test_a_null_in_a_partition_column_that_may_not_be_null_fails_its_task(path: Path) -> None:
    from deltalake import DeltaTable as Delta
    from deltalake import Field, Schema

    columns = [Field("id", "long"), Field("country", "string", nullable=False)]
    Delta.create(path, Schema(columns), partition_by=["country"])
    table = DeltaTable(str(path))
    schema = pa.schema([("id", pa.int64()), pa.field("country", pa.string(), False)])
    rows = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([None], pa.string())], schema=schema)
    with pytest.raises(LandingError, match="column country is null in a row, and the table does not let it be null"):
        stage([rows], schema, FileShape(), table.prepare(schema), uuid.uuid4().hex)


def test_more_partitions_than_a_task_may_have_files_open_all_land(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landing_files, "MOST_OPEN", 3)
    table = partitioned("delta", path, "id")
    batches = [pa.RecordBatch.from_pylist(rows_of(10), schema=SCHEMA) for _ in range(3)]
    files = stage(batches, SCHEMA, FileShape(row_group_bytes=1), table.prepare(SCHEMA), "part")
    assert len(files) == 30
    assert table.commit(reaching(0, 30), files)
    assert Counter(row["id"] for row in read("delta", path).to_pylist()) == Counter([*range(10)] * 3)


def test_rows_wait_for_others_of_their_partition_and_not_without_a_bound(path: Path) -> None:
    table = partitioned("delta", path, "country")
    rows = [{**row, "country": row["country"] and row["country"][:3]} for row in rows_of(1000)]
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    shape = FileShape(row_group_bytes=batch.nbytes)
    files = stage([batch] * 20, SCHEMA, shape, table.prepare(SCHEMA), "part")
    assert len(files) == 5
    groups = [pq.read_metadata(file.location).num_row_groups for file in files]
    assert 5 < sum(groups) <= 25


MOMENTS = st.none() | st.datetimes(timezones=st.just(UTC))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(MOMENTS, min_size=1, max_size=20), st.sampled_from(UNITS))
def test_a_moment_is_in_the_partition_that_iceberg_says(moments: list[datetime | None], unit: str) -> None:
    from pyiceberg.transforms import parse_transform
    from pyiceberg.types import TimestamptzType

    transform = parse_transform(unit.removesuffix("s")).transform(TimestamptzType())
    rows = pa.table({"at": pa.array(moments, SCHEMA.field("at").type), "row": range(len(moments))})
    found: dict[int, Value] = {}
    for (value,), part in split(rows, Partitioning((PartitionField("at", unit),))):
        found |= dict.fromkeys(part["row"].to_pylist(), value)
    micros = rows["at"].cast(pa.int64()).to_pylist()
    assert found == {number: transform(each) for number, each in enumerate(micros)}
    lengths = {"years": 4, "months": 7, "days": 10, "hours": 13}
    for number, moment in enumerate(moments):
        said = text_of(PartitionField("at", unit), found[number])
        wanted = None if moment is None else moment.strftime("%Y-%m-%d-%H").rjust(13, "0")[: lengths[unit]]
        assert said == wanted


def test_dates_are_days_for_iceberg_and_words_for_delta() -> None:
    field = PartitionField("day")
    assert (number_of(date(1969, 12, 31)), text_of(field, date(1969, 12, 31))) == (-1, "1969-12-31")
    assert (number_of(True), text_of(field, True), text_of(field, False)) == (True, "true", "false")
    assert (text_of(field, 7), text_of(field, "x"), text_of(field, None)) == ("7", "x", None)
