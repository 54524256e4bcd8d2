"""What crashes leave behind is removed once it is old; what a commit names, or may yet name, is not."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from highwater.pipeline.landing.iceberg import IcebergTable
from highwater.pipeline.landing.parquet import STAGING, ParquetTable
from highwater.pipeline.landing.table import Table
from tests.unit.pipeline.landing.tables import grow_old, ids, listed, numbered, staged

DAY = timedelta(days=1)


def test_orphans_go_when_they_are_old_and_not_before(table: Table, kind: str, path: Path) -> None:
    table.commit(numbered("q", 0), staged(table, [1]))
    for file in listed(path):
        grow_old(str(path / file))
    old, fresh = staged(table, [2]), staged(table, [3])
    grow_old(old[0].location)
    assert table.clean_up(DAY) == [old[0].location]
    assert not Path(old[0].location).exists()
    assert table.commit(numbered("q", 1), fresh)
    assert ids(kind, path) == Counter([1, 3])


def test_nothing_is_left_to_clean_up_the_second_time(table: Table) -> None:
    [file] = staged(table, [1])
    grow_old(file.location)
    assert len(table.clean_up(DAY)) == 1
    assert table.clean_up(DAY) == []


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_files_of_older_table_versions_are_kept(table: Table, kind: str, path: Path) -> None:
    table.commit(numbered("q", 0), staged(table, [1]))
    table.commit(numbered("q", 1), staged(table, [2]), replace=True)
    for file in listed(path):
        grow_old(str(path / file))
    assert table.clean_up(DAY) == []
    assert table.clean_up(timedelta(0)) == [], "the table's own retention holds all the same"
    assert len(listed(path)) == 2


@pytest.mark.parametrize("kind", ["iceberg"])
def test_a_batch_is_known_after_its_snapshot_has_expired(table: IcebergTable) -> None:
    table.commit(numbered("q", 0), staged(table, [1]))
    first = table.open().current_snapshot()
    assert first is not None
    table.commit(numbered("other", 0), staged(table, [2]))
    table.open().maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    assert [snapshot.snapshot_id for snapshot in table.open().snapshots()] != [first.snapshot_id]
    assert not table.commit(numbered("q", 0), staged(table, [1]))


@pytest.mark.parametrize("kind", ["parquet"])
def test_files_of_a_driver_that_died_before_the_rename_go_with_their_folder(table: ParquetTable, path: Path) -> None:
    [file] = staged(table, [1])
    gathered = path / STAGING / "gathered"
    gathered.mkdir()
    moved = Path(file.location).rename(gathered / "part-00000.parquet")
    grow_old(str(moved))
    assert table.clean_up(DAY) == [str(moved)]
    assert not gathered.exists()


@pytest.mark.parametrize("kind", ["parquet"])
def test_a_folder_with_files_of_mixed_ages_keeps_the_young_ones(table: ParquetTable, path: Path) -> None:
    files = [staged(table, [each])[0] for each in (1, 2)]
    gathered = path / STAGING / "gathered"
    gathered.mkdir()
    old, young = (Path(file.location).rename(gathered / f"part-{number}.parquet") for number, file in enumerate(files))
    grow_old(str(old))
    assert table.clean_up(DAY) == [str(old)]
    assert young.exists()
    grow_old(str(young))
    assert table.clean_up(DAY) == [str(young)]
    assert not gathered.exists()
