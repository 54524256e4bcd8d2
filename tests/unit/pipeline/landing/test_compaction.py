"""Small files become large ones; rows, positions and what lands meanwhile stay as they are."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.pipeline.landing import delta_upkeep, iceberg_upkeep
from highwater.pipeline.landing.compaction import FEWEST, SmallFile, groups
from highwater.pipeline.landing.table import Table
from tests.unit.pipeline.landing.tables import grow_old, ids, listed, reaching, staged

pytestmark = pytest.mark.slow

TARGET = 1 << 20
KINDS = pytest.mark.parametrize("kind", ["delta", "iceberg"])


def land(table: Table, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        assert table.commit(reaching(number, number + 1, number + 1), staged(table, [number]))


def never() -> bool:
    return False


@KINDS
def test_small_files_become_one_and_the_table_is_the_same(table: Table, kind: str, path: Path) -> None:
    land(table, 10)
    before = table.contents()
    assert table.compact(TARGET, never) == 10
    after = table.contents()
    assert (len(before.files), len(after.files)) == (10, 1)
    assert after.positions == before.positions
    assert ids(kind, path) == Counter(range(10))
    assert table.compact(TARGET, never) == 0, "one file is not worth a commit"
    assert not table.commit(reaching(9, 10, 10), staged(table, [9]))
    land(table, 3, first=10)
    assert ids(kind, path) == Counter(range(13))


@KINDS
def test_a_batch_that_lands_during_a_compaction_lands(
    table: Table, kind: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(table, 6)
    upkeep = delta_upkeep if kind == "delta" else iceberg_upkeep
    stage = upkeep.stage

    def staging_slowly(*given: object) -> object:
        land(table, 1, first=6)
        return stage(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(upkeep, "stage", staging_slowly)
    assert table.compact(TARGET, never) == 6
    assert ids(kind, path) == Counter(range(7))
    assert len(table.contents().files) == 2


@KINDS
def test_two_compactions_of_the_same_files_keep_each_row_once(
    table: Table, kind: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(table, 6)
    upkeep = delta_upkeep if kind == "delta" else iceberg_upkeep
    stage = upkeep.stage

    def another_first(*given: object) -> object:
        monkeypatch.undo()
        assert table.compact(TARGET, never) == 6
        return stage(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(upkeep, "stage", another_first)
    assert table.compact(TARGET, never) == 0
    assert ids(kind, path) == Counter(range(6))


@pytest.mark.parametrize("kind", ["delta"])
def test_a_delete_that_began_before_a_compaction_does_not_bring_rows_back(table: Table, kind: str, path: Path) -> None:
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError

    land(table, 6)
    stale = DeltaTable(path)
    assert table.compact(TARGET, never) == 6
    with pytest.raises(CommitFailedError):
        stale.delete("id = 3")
    assert ids(kind, path) == Counter(range(6))


@KINDS
def test_the_entry_before_the_commit_is_not_overtaken(
    table: Table, kind: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another compaction commits after ours has looked for its files, and before it commits."""
    land(table, 6)
    upkeep, name = (delta_upkeep, "_actions") if kind == "delta" else (iceberg_upkeep, "_present")
    look = getattr(upkeep, name)
    looks = []

    def looking(*given: object) -> object:
        found = look(*given)
        looks.append(found)
        if len(looks) == 2:
            monkeypatch.undo()
            assert table.compact(TARGET, never) == 6
        return found

    monkeypatch.setattr(upkeep, name, looking)
    assert table.compact(TARGET, never) == 0
    assert ids(kind, path) == Counter(range(6))


@KINDS
def test_a_compaction_that_is_stopped_begins_no_other_group(table: Table, kind: str, path: Path) -> None:
    land(table, 6)
    assert table.compact(TARGET, lambda: True) == 0
    assert len(table.contents().files) == 6


@pytest.mark.parametrize("kind", ["iceberg"])
def test_the_small_files_go_when_no_snapshot_needs_them(table: Table, kind: str, path: Path) -> None:
    land(table, 6)
    table.compact(TARGET, never)
    for file in path.glob("data/*"):
        grow_old(str(file))
    assert not [each for each in table.clean_up(timedelta(seconds=0)) if "/data/" in each], "snapshots need them"
    assert len(listed(path)) == 7


@pytest.mark.parametrize("kind", ["parquet"])
def test_a_folder_of_batches_is_not_compacted(table: Table, kind: str, path: Path) -> None:
    land(table, 6)
    assert table.compact(TARGET, never) == 0
    assert len(listed(path)) == 6


@given(st.lists(st.integers(1, 200), max_size=40), st.integers(10, 150))
def test_a_file_is_in_one_group_at_most_and_large_ones_are_in_none(sizes: list[int], target: int) -> None:
    files = [SmallFile(str(number), size) for number, size in enumerate(sizes)]
    found = list(groups(files, target))
    chosen = [file for group in found for file in group]
    assert len(set(chosen)) == len(chosen)
    assert all(file.size < target // 2 for file in chosen)
    assert all(len(group) >= FEWEST for group in found)
    assert all(sum(file.size for file in group[:-1]) < target for group in found)
    small = [file for file in files if file.size < target // 2]
    if sum(file.size for file in small) < target and len(small) >= FEWEST:
        assert found == [small]
