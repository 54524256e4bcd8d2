"""Delta and Iceberg tables on a real S3 interface: once, whatever races and whichever answers are lost."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest

from highwater.pipeline.definition import define
from highwater.pipeline.landing.delta import DeltaTable
from highwater.pipeline.landing.files import FileShape, stage
from highwater.pipeline.landing.iceberg import IcebergTable
from highwater.pipeline.landing.options import Landing
from highwater.pipeline.landing.rule import Batch, Misfit
from highwater.pipeline.landing.table import StagedFile, Table
from highwater.pipeline.sections import Mistake
from highwater.pipeline.selection import BadOption
from tests.pipeline.object_store import ObjectStore, delta_options, iceberg_options, object_store
from tests.unit.pipeline.landing.tables import SCHEMA, reaching

pytestmark = pytest.mark.slow
KINDS = pytest.mark.parametrize("kind", ["delta", "iceberg"])


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as proxy:
        yield proxy


@pytest.fixture
def table(store: ObjectStore, kind: str, tmp_path: Path) -> Table:
    return made(store, kind, tmp_path)


def made(store: ObjectStore, kind: str, folder: Path, **more: str) -> Table:
    name = f"t{uuid.uuid4().hex}"
    catalog = f"sqlite:///{folder}/catalog.db"
    options = delta_options(store, name) if kind == "delta" else iceberg_options(store, name, catalog)
    return Landing.from_options(options | more).table


def staged(table: Table, ids: range) -> list[StagedFile]:
    rows = pa.RecordBatch.from_pylist([{"id": each, "note": str(each % 3)} for each in ids], schema=SCHEMA)
    return stage([rows], SCHEMA, FileShape(), table.prepare(SCHEMA), uuid.uuid4().hex)


def ids(table: Table) -> Counter[Any]:
    """As the format's own reader reads them from the store."""
    if isinstance(table, IcebergTable):
        return Counter(table.open().scan().to_arrow()["id"].to_pylist())
    assert isinstance(table, DeltaTable)
    return Counter(table._open().to_pyarrow_table()["id"].to_pylist())


@KINDS
def test_batches_land_once_in_a_store_and_the_table_knows_its_position(table: Table) -> None:
    assert not table.exists()
    for number in range(4):
        begin = number * 10
        assert table.commit(reaching(begin, begin + 10, number + 1), staged(table, range(begin, begin + 10)))
    again = staged(table, range(30, 40))
    assert not table.commit(reaching(30, 40, 4), again)
    with pytest.raises(Misfit):
        table.commit(reaching(35, 50, 5), staged(table, range(35, 50)))
    assert ids(table) == Counter(range(40))
    position = table.known("p").position
    assert position is not None
    assert [interval[:2] for [interval] in position.at.values()] == [(0, 40)]
    assert table.contents().positions["p"] == position
    assert len(table.contents().files) == 4


@KINDS
def test_of_two_drivers_with_the_same_offsets_one_lands_them_in_a_store(table: Table) -> None:
    table.prepare(SCHEMA)
    with ThreadPoolExecutor(2) as drivers:
        for turn in range(3):
            start = Barrier(2)

            def land(mine: int, turn: int = turn, start: Barrier = start) -> bool:
                files = staged(table, range(turn, turn + 1))
                start.wait()
                return table.commit(reaching(turn, turn + 1, number=turn + mine), files)

            assert sorted(drivers.map(land, range(2))) == [False, True]
    assert ids(table) == Counter(range(3))


def until_landed(attempt: Callable[[], object]) -> int:
    """As a pipeline does: what fails is done again. How often it failed."""
    for failures in range(10):
        with suppress(Exception):
            attempt()
            return failures
    raise AssertionError("it fails again and again")


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("delta", r"PUT /lake/\w+/_delta_log/\d+\.json"),
        ("delta", r"(PUT|POST) /lake/\w+/\w+-0\.parquet"),
        ("delta", r"GET /lake/\w+/_delta_log/\d+\.json"),
        ("iceberg", r"(PUT|POST) /lake/\w+/data/.*\.parquet"),
        ("iceberg", r"(PUT|POST) /lake/\w+/metadata/.*\.avro"),
        ("iceberg", r"(PUT|POST) /lake/\w+/metadata/.*\.metadata\.json"),
    ],
)
def test_an_answer_that_is_lost_doubles_nothing_and_misses_nothing(
    store: ObjectStore, table: Table, kind: str, answer: str
) -> None:
    assert table.commit(reaching(0, 10, 1), staged(table, range(10)))
    for number in range(1, 3):
        begin, before = number * 10, len(store.lost)

        def attempt(begin: int = begin, number: int = number) -> None:
            table.commit(reaching(begin, begin + 10, number + 1), staged(table, range(begin, begin + 10)))

        store.lose(answer)
        until_landed(attempt)
        assert len(store.lost) == before + 1, "the answer was lost"
        assert ids(table) == Counter(range(begin + 10))
    position = table.known("p").position
    assert position is not None
    assert [interval[:2] for [interval] in position.at.values()] == [(0, 30)]


@KINDS
def test_small_files_are_gathered_and_partitions_are_kept_in_a_store(
    store: ObjectStore, kind: str, tmp_path: Path
) -> None:
    table = made(store, kind, tmp_path, partitionBy="note")
    for number in range(4):
        begin = number * 10
        table.commit(reaching(begin, begin + 10, number + 1), staged(table, range(begin, begin + 10)))
    assert len(table.contents().files) == 12
    assert table.compact(1 << 20, lambda: False) == 12
    assert len(table.contents().files) == 3
    assert ids(table) == Counter(range(40))


def test_files_that_no_commit_names_go_from_a_store_by_the_tables_rules(store: ObjectStore, tmp_path: Path) -> None:
    table = made(store, "delta", tmp_path)
    table.commit(reaching(0, 10, 1), staged(table, range(10)))
    orphans = staged(table, range(10))
    assert isinstance(table, DeltaTable)
    assert table.clean_up(timedelta(0)) == [], "younger than the table's retention"
    table._open().alter.set_table_properties(
        {"delta.deletedFileRetentionDuration": "interval 0 seconds"}, raise_if_not_exists=False
    )
    assert table.clean_up(timedelta(0)) == [file.location for file in orphans]
    assert ids(table) == Counter(range(10))


def test_a_batch_without_offsets_is_known_by_its_number_in_a_store(store: ObjectStore, tmp_path: Path) -> None:
    table = made(store, "delta", tmp_path)
    assert table.commit(Batch("q", "q", 0), staged(table, range(3)))
    assert not table.commit(Batch("q", "q", 0), staged(table, range(3)))
    assert ids(table) == Counter(range(3))


def test_a_parquet_table_is_refused_in_a_store_with_the_reason() -> None:
    with pytest.raises(BadOption, match="appears by the rename of a folder, which object stores do not have"):
        Landing.from_options({"table": "parquet", "path": "s3://lake/t"})
    with pytest.raises(BadOption, match=r"where no catalog can be made: say with catalog\.\* which one has the table"):
        Landing.from_options({"table": "iceberg", "path": "s3://lake/t"})
    with pytest.raises(BadOption, match="option storage.aws_region is for an object store, and path is /"):
        Landing.from_options({"table": "delta", "path": "/lake/t", "storage.aws_region": "r"})


def test_a_secret_of_a_store_is_a_reference_that_is_looked_up_where_it_is_used(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = delta_options(store, f"t{uuid.uuid4().hex}")
    said = {
        "name": "orders",
        "source": {"bootstrap_servers": "127.0.0.1:9092", "topic": "orders"},
        "sink": {
            "table": "delta",
            "path": options["path"],
            "options": {name: value for name, value in options.items() if name.startswith("storage.")},
        },
    }
    with pytest.raises(Mistake, match=r"sink.options.storage.aws_secret_access_key: .* is written out: give it as"):
        define(said, tmp_path)
    said["sink"]["options"]["storage.aws_secret_access_key"] = "${env:A_STORES_SECRET}"  # type: ignore[index]
    sink = define(said, tmp_path).sink
    table = Landing.from_options(sink).table
    with pytest.raises(ValueError, match="the environment of this process has no variable A_STORES_SECRET"):
        table.exists()
    monkeypatch.setitem(os.environ, "A_STORES_SECRET", "a-secret")
    assert not table.exists()
    assert table.commit(reaching(0, 3, 1), staged(table, range(3)))
    assert "a-secret" not in repr(table)
