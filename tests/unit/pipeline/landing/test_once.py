"""A batch lands once however often it is tried, and nothing else ever shows."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from highwater.pipeline.landing.rule import NEVER, LandingError
from highwater.pipeline.landing.table import Table
from tests.unit.pipeline.landing.tables import SCHEMA, ids, listed, numbered, staged

pytestmark = pytest.mark.slow


def test_rows_show_when_they_are_committed_and_not_before(table: Table, kind: str, path: Path) -> None:
    files = staged(table, range(3))
    assert table.known("q", "q").last == NEVER
    assert ids(kind, path) == Counter()
    assert table.commit(numbered("q", 0), files)
    assert table.known("q", "q").last == 0
    assert ids(kind, path) == Counter(range(3))


def test_a_batch_that_is_tried_again_is_passed_over_and_its_files_go(table: Table, kind: str, path: Path) -> None:
    assert table.commit(numbered("q", 0), staged(table, [1]))
    assert table.commit(numbered("q", 1), staged(table, [2]))
    before = listed(path)
    again = staged(table, [2])
    assert not table.commit(numbered("q", 1), again)
    assert not any(Path(file.location).exists() for file in again)
    assert listed(path) == before
    assert ids(kind, path) == Counter([1, 2])
    assert table.commit(numbered("q", 2), staged(table, [3]))
    assert table.known("q", "q").last == 2


def test_a_batch_before_the_last_one_is_an_error_since_it_may_have_other_rows_now(
    table: Table, kind: str, path: Path
) -> None:
    table.commit(numbered("q", 0), staged(table, [1]))
    table.commit(numbered("q", 1), staged(table, [2]))
    with pytest.raises(LandingError, match="the table has batch 1 of query q, and now comes batch 0"):
        table.commit(numbered("q", 0), staged(table, [3]))
    assert ids(kind, path) == Counter([1, 2])


def test_queries_count_their_batches_each_for_itself(table: Table, kind: str, path: Path) -> None:
    assert table.commit(numbered("one", 7), staged(table, [1]))
    assert table.commit(numbered("two", 0), staged(table, [2]))
    assert (table.known("one", "one").last, table.known("two", "two").last) == (7, 0)
    assert ids(kind, path) == Counter([1, 2])


def test_of_two_drivers_with_the_same_batch_one_lands_it(table: Table, kind: str, path: Path) -> None:
    table.prepare(SCHEMA)
    with ThreadPoolExecutor(2) as drivers:
        for batch in range(5):
            files = [staged(table, [batch]) for _ in range(2)]
            start = Barrier(2)

            def land(mine: int, batch: int = batch, files: list = files, start: Barrier = start) -> bool:  # type: ignore[type-arg]
                start.wait()
                return table.commit(numbered("q", batch), files[mine])

            assert sorted(drivers.map(land, range(2))) == [False, True]
    assert ids(kind, path) == Counter(range(5))


def test_two_queries_at_once_both_land_all_their_batches(table: Table, kind: str, path: Path) -> None:
    table.prepare(SCHEMA)
    start = Barrier(2)

    def run(query: int) -> list[bool]:
        start.wait()
        return [table.commit(numbered(f"q{query}", batch), staged(table, [query * 100 + batch])) for batch in range(6)]

    with ThreadPoolExecutor(2) as drivers:
        assert list(drivers.map(run, range(2))) == [[True] * 6] * 2
    assert ids(kind, path) == Counter([*range(6), *range(100, 106)])


def test_two_queries_that_start_at_once_make_one_table(table: Table, kind: str, path: Path) -> None:
    start = Barrier(2)

    def run(query: int) -> bool:
        start.wait()
        return table.commit(numbered(f"q{query}", 0), staged(table, [query]))

    with ThreadPoolExecutor(2) as drivers:
        assert list(drivers.map(run, range(2))) == [True, True]
    assert ids(kind, path) == Counter([0, 1])


def test_a_batch_that_replaces_leaves_its_own_rows_alone(table: Table, kind: str, path: Path) -> None:
    table.commit(numbered("q", 0), staged(table, [1, 2]))
    table.commit(numbered("other", 0), staged(table, [3]))
    assert table.commit(numbered("q", 1), staged(table, [4]), replace=True)
    assert ids(kind, path) == Counter([4])
    assert not table.commit(numbered("q", 1), staged(table, [4]), replace=True)
    assert ids(kind, path) == Counter([4])
    assert table.commit(numbered("q", 2), [], replace=True)
    assert ids(kind, path) == Counter()
