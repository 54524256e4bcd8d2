"""A table knows its position: a batch is judged by its offsets, and one that does not fit is never taken in silence."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from highwater.pipeline.landing.delta import DeltaTable
from highwater.pipeline.landing.iceberg import IcebergTable
from highwater.pipeline.landing.position import Interval, Log, Lost, Position, Reach, Skip
from highwater.pipeline.landing.rule import Fenced, LandingError, Misfit
from highwater.pipeline.landing.table import Table
from tests.unit.pipeline.landing.tables import SCHEMA, grow_old, ids, listed, numbered, reaching, staged

pytestmark = pytest.mark.slow

ORDERS = Log("orders", "an-id", 0)


def position_of(table: Table) -> Position:
    found = table.known("p").position
    assert found is not None
    return found


def test_a_batch_number_that_comes_again_with_other_offsets_is_an_error_and_loses_nothing(
    table: Table, kind: str, path: Path
) -> None:
    assert table.commit(reaching(0, 10, number=1), staged(table, range(10)))
    with pytest.raises(
        Misfit, match="batch 1 of query q brings the offsets 0 to 20 of orders-0, and the table has 0 to 10"
    ):
        table.commit(reaching(0, 20, number=1), staged(table, range(20)))
    with pytest.raises(Misfit, match="brings the offsets 20 to 30 of orders-0, and the table has 0 to 10"):
        table.commit(reaching(20, 30, number=2), staged(table, range(20, 30)))
    assert ids(kind, path) == Counter(range(10))
    assert table.commit(reaching(10, 30, number=2), staged(table, range(10, 30)))
    assert ids(kind, path) == Counter(range(30))
    assert position_of(table).at == {ORDERS: (Interval(0, 30),)}


def test_offsets_that_the_table_has_are_passed_over_under_any_number_and_by_any_query(
    table: Table, kind: str, path: Path
) -> None:
    table.commit(reaching(0, 10, number=1), staged(table, range(10)))
    table.commit(reaching(10, 20, number=2), staged(table, range(10, 20)))
    before = listed(path)
    for batch in (reaching(10, 20, 2), reaching(0, 10, 7), reaching(5, 15, 1, query_id="new")):
        again = staged(table, range(batch.number))
        assert not table.commit(batch, again)
        assert not any(Path(file.location).exists() for file in again)
    assert listed(path) == before
    assert ids(kind, path) == Counter(range(20))


def test_a_batch_without_rows_moves_the_position_too(table: Table, kind: str, path: Path) -> None:
    assert table.commit(reaching(0, 10), staged(table, range(10)))
    assert table.commit(reaching(10, 15, has_rows=False), [])
    assert not table.commit(reaching(10, 15, has_rows=False), [])
    assert table.commit(reaching(15, 20), staged(table, [15]))
    assert position_of(table) == Position(3, {"q": 1}, {ORDERS: (Interval(0, 20),)})
    assert ids(kind, path) == Counter([*range(10), 15])


def test_partitions_and_topics_and_pipelines_are_distinguished(table: Table, kind: str, path: Path) -> None:
    logs = [Log("orders", "an-id", 0), Log("orders", "an-id", 1), Log("orders", "a-later-id", 0), Log("returns", "", 0)]
    for at, log in enumerate(logs):
        assert table.commit(reaching(0, 0, number=at, reaches=(Reach(log, 7, 9, 4),)), staged(table, [at]))
    assert table.commit(reaching(0, 10, landing_id="another", query_id="r"), staged(table, [9]))
    assert position_of(table).at == dict.fromkeys(logs, (Interval(7, 9, 4),))
    assert ids(kind, path) == Counter([*range(len(logs)), 9])


def test_of_two_drivers_with_the_same_offsets_one_lands_them_with_any_batch_numbers(
    table: Table, kind: str, path: Path
) -> None:
    table.prepare(SCHEMA)
    with ThreadPoolExecutor(2) as drivers:
        for turn in range(5):
            files = [staged(table, [turn]) for _ in range(2)]
            start = Barrier(2)

            def land(mine: int, turn: int = turn, files: list = files, start: Barrier = start) -> bool:  # type: ignore[type-arg]
                start.wait()
                return table.commit(reaching(turn, turn + 1, number=turn + mine), files[mine])

            assert sorted(drivers.map(land, range(2))) == [False, True]
    assert ids(kind, path) == Counter(range(5))


def test_a_start_without_the_checkpoint_takes_over_and_the_earlier_query_is_fenced(table: Table) -> None:
    table.commit(reaching(0, 10, query_id="first"), staged(table, range(10)))
    assert table.commit(reaching(0, 0, number=0, query_id="second", reaches=(), has_rows=False), [])
    assert position_of(table).drivers == {"first": 1, "second": 2}
    with pytest.raises(Fenced, match=r"p was started anew.*this query \(first\) no longer lands in the table"):
        table.commit(reaching(10, 20, query_id="first"), staged(table, range(10, 20)))
    assert table.commit(reaching(10, 20, query_id="second"), staged(table, range(10, 20)))


def test_a_new_table_does_not_take_the_middle_of_a_query(table: Table, kind: str, path: Path) -> None:
    for batch in (reaching(50, 60, number=4, has_past=True), reaching(0, 0, 4, reaches=None, has_past=True)):
        with pytest.raises(LandingError, match="the table is new, the checkpoint is not"):
            table.commit(batch, staged(table, [1]))
    assert ids(kind, path) == Counter()


def test_a_table_of_an_earlier_version_goes_by_numbers_until_its_first_new_batch(
    table: Table, kind: str, path: Path
) -> None:
    for number in range(1, 4):
        table.commit(numbered("q", number), staged(table, [number]))
    with pytest.raises(LandingError, match="by an earlier version of Highwater, and the checkpoint is new"):
        table.commit(reaching(0, 10, number=0, query_id="new"), staged(table, range(10)))
    assert not table.commit(reaching(20, 30, number=3, has_past=True), staged(table, [3]))
    assert table.commit(reaching(30, 40, number=4, has_past=True), staged(table, [4]))
    with pytest.raises(Misfit, match="the table has 30 to 40"):
        table.commit(reaching(45, 50, number=5), staged(table, [5]))
    assert ids(kind, path) == Counter([1, 2, 3, 4])


def test_rows_without_new_offsets_land_once_by_their_number(table: Table, kind: str, path: Path) -> None:
    table.commit(reaching(0, 10, number=1), staged(table, [1]))
    assert table.commit(reaching(0, 0, number=2, reaches=()), staged(table, [2]))
    assert not table.commit(reaching(0, 0, number=2, reaches=()), staged(table, [2]))
    assert ids(kind, path) == Counter([1, 2])


@pytest.mark.parametrize("kind", ["delta"])
def test_a_position_outlives_the_entries_of_the_log(table: DeltaTable, path: Path) -> None:
    from deltalake import DeltaTable as Delta

    table.prepare(SCHEMA)
    Delta(path).alter.set_table_properties({"delta.checkpointInterval": "5"})
    for number in range(1, 13):
        table.commit(reaching(number - 1, number, number), [])
    log = path / "_delta_log"
    assert len(list(log.glob("*.checkpoint.parquet"))) == 2
    newest = max(log.glob("*.checkpoint.parquet"))
    for entry in log.glob("*.json"):
        if entry.name[:20] <= newest.name[:20]:
            entry.unlink()
    assert position_of(table) == Position(12, {"q": 1}, {ORDERS: (Interval(0, 12),)})
    assert not table.commit(reaching(0, 12), [])


@pytest.mark.parametrize("kind", ["delta"])
@pytest.mark.parametrize("cleans", ["true", "false"])
def test_entries_that_have_expired_go_with_a_checkpoint_if_the_table_says_so(
    table: DeltaTable, path: Path, cleans: str
) -> None:
    from deltalake import DeltaTable as Delta

    table.prepare(SCHEMA)
    rules = {"delta.checkpointInterval": "5", "delta.logRetentionDuration": "interval 0 days"}
    Delta(path).alter.set_table_properties({**rules, "delta.enableExpiredLogCleanup": cleans})
    for entry in (path / "_delta_log").iterdir():
        grow_old(str(entry))
    for number in range(1, 13):
        table.commit(reaching(number - 1, number, number), [])
    first = path / "_delta_log" / f"{0:020}.json"
    assert first.exists() == (cleans == "false")
    assert position_of(table).at == {ORDERS: (Interval(0, 12),)}


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_that_was_put_back_to_an_earlier_version_stops_its_pipeline(
    table: DeltaTable | IcebergTable, kind: str, path: Path
) -> None:
    for number in range(1, 4):
        table.commit(reaching(number - 1, number, number), staged(table, [number]))
    if isinstance(table, DeltaTable):
        from deltalake import DeltaTable as Delta

        Delta(path).restore(Delta(path).version() - 1)
    else:
        second = table.open().snapshots()[1]
        table.open().manage_snapshots().rollback_to_snapshot(second.snapshot_id).commit()
    assert ids(kind, path) == Counter([1, 2])
    for batch in (reaching(2, 3, 3), reaching(3, 4, 4)):
        with pytest.raises(LandingError, match="put back to an earlier version since p landed last"):
            table.commit(batch, staged(table, [batch.number]))
    assert ids(kind, path) == Counter([1, 2])


def test_a_position_that_a_person_sets_counts_from_then_on(table: Table, kind: str, path: Path) -> None:
    table.commit(reaching(0, 10), staged(table, range(10)))
    placed = {ORDERS: (Interval(0, 7),), Log("orders", "an-id", 1): (Interval(0, 40),)}
    assert table.commit(reaching(0, 0, 0, query_id="set-1", reaches=(), has_rows=False, placed=placed), [])
    assert position_of(table) == Position(2, {"q": 1, "set-1": 2}, placed)
    with pytest.raises(Fenced):
        table.commit(reaching(10, 20), staged(table, [1]))
    assert table.commit(reaching(7, 9, query_id="next"), staged(table, [77]))
    assert ids(kind, path) == Counter([*range(10), 77])


def test_what_was_lost_is_remembered_with_its_reason(table: Table) -> None:
    gone = Lost(0, 4, "retention / 100 % of it, \N{GREEK SMALL LETTER ALPHA}")
    later = Lost(12, 13, "retention")
    assert table.commit(reaching(0, 10, lost=((ORDERS, gone),)), staged(table, range(4, 10)))
    assert position_of(table).lost == {ORDERS: (gone,)}
    assert not table.commit(reaching(0, 10, lost=((ORDERS, gone),)), staged(table, range(4, 10)))
    assert table.commit(reaching(10, 20, number=2, lost=((ORDERS, later),)), staged(table, [10]))
    assert table.commit(reaching(20, 30, number=3), staged(table, [20]))
    assert position_of(table) == Position(3, {"q": 1}, {ORDERS: (Interval(0, 30),)}, lost={ORDERS: (gone, later)})
    found = table.contents().positions["p"]
    assert found.lost == {ORDERS: (gone, later)}


def test_what_a_person_skips_is_remembered_and_fences_nobody(table: Table, kind: str, path: Path) -> None:
    table.commit(reaching(0, 10), staged(table, range(10)))
    torn = Skip(12, 15, "the checksum is wrong / 100 % of it, \N{GREEK SMALL LETTER ALPHA}")
    for skip in (torn, Skip(17, 18, "asked for")):
        said = reaching(0, 0, 0, query_id=f"skip-{skip.begin}", reaches=(), has_rows=False, skipped={ORDERS: skip})
        assert table.commit(said, [])
    assert table.commit(reaching(10, 20, number=2), staged(table, [10, 11, 15, 16, 18, 19]))
    assert position_of(table) == Position(
        4, {"q": 1}, {ORDERS: (Interval(0, 20),)}, {ORDERS: (torn, Skip(17, 18, "asked for"))}
    )
    with pytest.raises(LandingError, match="the table has orders-0 beyond 12 already"):
        table.commit(reaching(0, 0, 0, query_id="skip-2", reaches=(), has_rows=False, skipped={ORDERS: torn}), [])
    assert len(ids(kind, path)) == 16


def test_a_skip_makes_no_table_old_or_new(table: Table) -> None:
    """A table without rows is still new, and one of an earlier version still has no offsets."""
    table.prepare(SCHEMA)
    said = reaching(0, 0, 0, query_id="skip-1", reaches=(), has_rows=False, skipped={ORDERS: Skip(1, 2, "")})
    assert table.commit(said, [])
    with pytest.raises(LandingError, match="the table is new, the checkpoint is not"):
        table.commit(reaching(50, 60, number=4, has_past=True), staged(table, [1]))


def test_a_table_without_offsets_skips_nothing(table: Table) -> None:
    for number in range(1, 3):
        table.commit(numbered("q", number), staged(table, [number]))
    said = reaching(0, 0, 0, query_id="skip-1", reaches=(), has_rows=False, skipped={ORDERS: Skip(1, 2, "")})
    with pytest.raises(LandingError, match="nothing can be skipped before the first batch"):
        table.commit(said, [])


@pytest.mark.parametrize("kind", ["delta"])
def test_a_table_that_would_forget_what_has_landed_is_refused(table: DeltaTable, path: Path) -> None:
    from deltalake import DeltaTable as Delta

    table.prepare(SCHEMA)
    Delta(path).alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 1 day"}, False)
    with pytest.raises(LandingError, match="it would forget what has landed"):
        table.prepare(SCHEMA)


@pytest.mark.parametrize("kind", ["parquet"])
def test_an_overwrite_of_a_folder_leaves_the_positions(table: Table, kind: str, path: Path) -> None:
    table.commit(reaching(0, 10), staged(table, range(10)))
    table.commit(numbered("write", 0), staged(table, [77]), replace=True)
    assert ids(kind, path) == Counter([77])
    assert not table.commit(reaching(0, 10), staged(table, range(10)))
    assert table.commit(reaching(10, 11), staged(table, [10]))
    assert ids(kind, path) == Counter([77, 10])
