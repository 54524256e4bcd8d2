"""What is Iceberg's alone: a history that does not grow without end, and catalogs of the user's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyiceberg.table
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog

from highwater.pipeline.landing import iceberg
from highwater.pipeline.landing.iceberg import CATALOG_FILE, LOCK_SECONDS, IcebergTable
from highwater.pipeline.landing.iceberg_history import BATCH_MARK, RULES, expire
from highwater.pipeline.landing.options import Landing
from highwater.pipeline.landing.rule import Batch, Known
from tests.unit.pipeline.landing.tables import SCHEMA, grow_old, ids, numbered, staged

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pyiceberg.table import Table as OpenTable

DAY = timedelta(days=1)
KEPT = 2
SHORT = {"history.expire.max-snapshot-age-ms": "0", "history.expire.min-snapshots-to-keep": str(KEPT)}


@pytest.fixture
def table(path: Path) -> IcebergTable:
    return IcebergTable("default.t", str(path))


def set_rules(table: IcebergTable, rules: Mapping[str, str]) -> None:
    table.prepare(SCHEMA)
    with table.open().transaction() as change:
        change.set_properties(dict(rules))


def batches(table: OpenTable) -> list[str | None]:
    """Of the snapshots that the table remembers, the oldest first; None: no landing."""
    return [None if snapshot.summary is None else snapshot.summary[BATCH_MARK] for snapshot in table.snapshots()]


def test_a_new_table_has_rules_for_its_history(table: IcebergTable) -> None:
    table.prepare(SCHEMA)
    assert RULES.items() <= table.open().properties.items()


def test_snapshots_go_by_the_rules_of_the_table_while_rows_and_batches_stay(table: IcebergTable, path: Path) -> None:
    set_rules(table, SHORT)
    for batch in range(7):
        assert table.commit(numbered("q", batch), staged(table, [batch]))
        assert len(table.open().snapshots()) < 2 * KEPT
    assert batches(table.open())[-KEPT:] == ["5", "6"]
    assert not table.commit(numbered("q", 6), staged(table, [6]))
    assert ids("iceberg", path) == Counter(range(7))


def test_what_expires_together_costs_one_commit_and_no_copies_of_the_metadata(
    table: IcebergTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyiceberg's own way copies the metadata twice for each of them: a third of the CPU time of all commits."""
    for number in range(2 * KEPT):
        table.commit(numbered("q", number), staged(table, [number]))
    set_rules(table, SHORT)
    usual, copies = pyiceberg.table.update_table_metadata, []

    def counted(*given: Any) -> Any:
        copies.append(given)
        return usual(*given)

    monkeypatch.setattr(pyiceberg.table, "update_table_metadata", counted)
    opened = table.open()
    expire(opened)
    assert len(table.open().snapshots()) == len(opened.snapshots()) == KEPT
    assert not copies


def test_young_snapshots_stay_however_many_there_are(table: IcebergTable) -> None:
    set_rules(table, SHORT | {"history.expire.max-snapshot-age-ms": "600000"})
    for batch in range(5):
        table.commit(numbered("q", batch), staged(table, [batch]))
    assert batches(table.open()) == [str(batch) for batch in range(5)]


def test_tagged_snapshots_and_those_of_other_writers_are_kept(table: IcebergTable) -> None:
    set_rules(table, SHORT)
    table.commit(numbered("q", 0), staged(table, [0]))
    tagged = table.open().current_snapshot()
    assert tagged is not None
    table.open().manage_snapshots().create_tag(tagged.snapshot_id, "audited").commit()
    table.open().append(pa.table({"id": [100], "note": ["by hand"]}, schema=SCHEMA))
    for batch in range(1, 6):
        table.commit(numbered("q", batch), staged(table, [batch]))
    remembered = batches(table.open())
    assert remembered[:2] == ["0", None]
    assert len(remembered) < 2 + 2 * KEPT


def test_a_table_without_rules_keeps_its_history(table: IcebergTable) -> None:
    table.prepare(SCHEMA)
    with table.open().transaction() as change:
        change.remove_properties(*RULES)
    for batch in range(5):
        table.commit(numbered("q", batch), staged(table, [batch]))
    assert batches(table.open()) == [str(batch) for batch in range(5)]


def test_the_clean_up_removes_what_only_forgotten_snapshots_need(table: IcebergTable, path: Path) -> None:
    set_rules(table, SHORT)
    table.commit(numbered("q", 0), staged(table, [0]))
    for batch in range(1, 5):
        table.commit(numbered("q", batch), staged(table, [batch]), replace=True)
    assert None not in batches(table.open()), "what a batch removes is marked as what it adds"
    known = len(table.open().snapshots())
    for file in path.glob("*/*"):
        grow_old(str(file))
    removed = [Path(file).name for file in table.clean_up(DAY)]
    assert [name for name in removed if name.startswith("snap-")], "lists of manifests"
    assert [name for name in removed if name.endswith(".parquet")], "rows that were replaced"
    assert len(list(path.glob("metadata/snap-*"))) == known
    assert ids("iceberg", path) == Counter([4])
    assert table.commit(numbered("q", 5), staged(table, [5]))
    assert ids("iceberg", path) == Counter([4, 5])
    table.clean_up(DAY)  # what the last batch has let expire
    assert table.clean_up(DAY) == []


@pytest.mark.slow
def test_drivers_that_start_at_once_find_one_whole_catalog(path: Path) -> None:
    drivers = 6
    with ThreadPoolExecutor(drivers) as pool:
        for attempt in range(4):
            table = IcebergTable("default.t", str(path / str(attempt)))
            start = Barrier(drivers)

            def prepare(driver: int, table: IcebergTable = table, start: Barrier = start) -> bool:
                start.wait()
                table.prepare(SCHEMA)
                return table.commit(numbered(f"q{driver}", 0), [])

            assert all(pool.map(prepare, range(drivers)))


def test_a_driver_waits_for_others_that_write_to_the_catalog_longer_than_sqlite_does_by_itself(
    table: IcebergTable, path: Path
) -> None:
    table.prepare(SCHEMA)
    catalog = table._catalog()
    assert isinstance(catalog, SqlCatalog)
    with catalog.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 1000 * LOCK_SECONDS
    assert (path / CATALOG_FILE).is_file(), "and its file has the name that is documented for readers"


def test_a_table_lands_in_a_catalog_of_the_users_own_which_says_where(tmp_path: Path) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/users.db", "warehouse": f"file://{tmp_path}/warehouse"}
    options = {f"catalog.{name}": value for name, value in catalog.items()} | {"catalog.name": "users"}
    table = Landing.from_options({"table": "iceberg", "name": "lake.raw.orders"} | options).table
    assert table.commit(numbered("q", 0), staged(table, [1, 2]))
    assert not table.commit(numbered("q", 0), staged(table, [1, 2]))
    found = load_catalog("users", **catalog).load_table("lake.raw.orders")
    assert found.scan().to_arrow()["id"].to_pylist() == [1, 2]
    assert found.location().startswith(f"file://{tmp_path}/warehouse/")
    data = list((tmp_path / "warehouse").glob("**/*.parquet"))
    assert len(data) == 1, "the files of the second try are gone"
    [orphan] = staged(table, [3])
    for file in (str(data[0]), orphan.location):
        grow_old(file)
    assert table.clean_up(DAY) == [orphan.location]


def test_a_batch_that_another_driver_lands_amid_its_commit_lands_once(
    table: IcebergTable, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is not repeated on top of the other one: it is judged again, and the table has the batch by then."""
    table.prepare(SCHEMA)
    mine, theirs = staged(table, [1]), staged(table, [1])
    judge, raced = iceberg.after, list[bool]()

    def judged_before_the_other_lands(known: Known, batch: Batch) -> Known | None:
        new = judge(known, batch)
        if not raced:
            raced.append(True)
            assert IcebergTable("default.t", str(path)).commit(batch, theirs)
        return new

    monkeypatch.setattr(iceberg, "after", judged_before_the_other_lands)
    assert not table.commit(numbered("q", 0), mine)
    assert ids("iceberg", path) == Counter([1])
