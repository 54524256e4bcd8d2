"""What an audit compares, and what it says, without Spark."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.cli.pipeline_audit import audit_lines
from highwater.model import TopicPartition
from highwater.pipeline.audit.scope import Present, Segment, scope, times
from highwater.pipeline.audit.verdict import DOUBLED, FOREIGN, MISSING, Finding, Verdict, by_counts
from highwater.pipeline.landing.position import Interval, Log, Position, Skip

ORDERS = Log("orders", "an-id", 0)
OLD = Log("orders", "old-id", 0)
THERE = {TopicPartition("orders", 0): Present("an-id", 0, 100, is_compacted=False)}
NONE = {MISSING: 0, DOUBLED: 0, FOREIGN: 0}


def position(*intervals: tuple[int, int], log: Log = ORDERS, skips: tuple[Skip, ...] = ()) -> Position:
    return Position(1, {}, {log: tuple(Interval(*each) for each in intervals)}, {log: skips} if skips else {})


def test_all_that_the_position_covers_is_compared_except_what_was_skipped() -> None:
    mine = position((0, 40), (50, 60), skips=(Skip(10, 20, "torn"),))
    found = scope(mine, [mine], THERE)
    assert [(each.begin, each.end) for each in found.compared] == [(0, 10), (20, 40), (50, 60)]
    assert all(found.compared.values())
    assert found.covered == {Segment("orders", 0, 0, 40): 1, Segment("orders", 0, 50, 60): 1}
    assert (found.notes, [skip[3:] for skip in found.skipped]) == ((), [(10, 20)])


def test_what_the_topic_no_longer_has_is_not_compared_and_named() -> None:
    mine = position((0, 120))
    found = scope(mine, [mine], {TopicPartition("orders", 0): Present("an-id", 30, 100, is_compacted=False)})
    assert list(found.compared) == [Segment("orders", 0, 30, 100)]
    assert found.notes == (
        "orders-0 begins at 30 now: the offsets 0 to 30 are not compared",
        "orders-0 ends at 100, and the table has it to 120: the log was cut back",
    )


@pytest.mark.parametrize("present", [{}, {TopicPartition("orders", 0): Present("new-id", 0, 9, is_compacted=False)}])
def test_a_topic_that_is_gone_or_another_now_is_not_compared_and_named(present: dict[TopicPartition, Present]) -> None:
    mine = position((0, 40))
    found = scope(mine, [mine], present)
    assert not found.compared
    assert "since it was landed (topic id an-id): it is not compared" in found.notes[0]


def test_rows_of_a_compacted_topic_or_of_an_earlier_one_need_no_record() -> None:
    mine = position((0, 40))
    compacted = scope(mine, [mine], {TopicPartition("orders", 0): Present("an-id", 0, 100, is_compacted=True)})
    assert compacted.compared == {Segment("orders", 0, 0, 40): False}
    again = Position(1, {}, {OLD: (Interval(0, 30),), ORDERS: (Interval(0, 40),)})
    found = scope(again, [again], THERE)
    assert found.compared == {Segment("orders", 0, 0, 40): False}
    assert found.covered == {Segment("orders", 0, 0, 30): 2, Segment("orders", 0, 30, 40): 1}


def test_a_record_may_be_there_once_for_each_pipeline_that_has_landed_it() -> None:
    mine, other = position((0, 40)), position((20, 60))
    assert scope(mine, [mine, other], THERE).covered == {
        Segment("orders", 0, 0, 20): 1,
        Segment("orders", 0, 20, 40): 2,
        Segment("orders", 0, 40, 60): 1,
    }


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 30)), max_size=6))
def test_segments_are_disjoint_and_count_each_offset_right(bounds: list[tuple[int, int, int]]) -> None:
    covers = [Segment("t", partition, begin, end) for partition, begin, end in bounds]
    found: Counter[tuple[int, int]] = Counter()
    for segment, depth in times(covers):
        for offset in range(segment.begin, segment.end):
            assert (segment.partition, offset) not in found
            found[segment.partition, offset] = depth
    assert found == Counter((each.partition, offset) for each in covers for offset in range(each.begin, each.end))


@pytest.mark.parametrize(
    ("counts", "more", "wrong"),
    [
        (NONE, {}, 0),
        (NONE | {MISSING: 1}, {}, 1),
        (NONE | {DOUBLED: 2}, {}, 2),
        (NONE | {FOREIGN: 3}, {}, 3),
        (NONE | {MISSING: 5}, {"placeless": 5}, 0),
        (NONE | {MISSING: 6}, {"placeless": 5}, 1),
        (NONE | {MISSING: 5, DOUBLED: 1}, {"is_transformed": True}, 0),
        (NONE | {FOREIGN: 1}, {"is_transformed": True}, 1),
    ],
)
def test_what_is_wrong(counts: dict[str, int], more: dict[str, int], wrong: int) -> None:
    assert Verdict(10, 10, 0, 0, 0, counts, **more).wrong == wrong  # type: ignore[arg-type]


@pytest.mark.parametrize(("rows", "counts"), [(8, NONE), (7, NONE | {MISSING: 1}), (9, NONE | {DOUBLED: 1})])
def test_counts_alone_leave_out_what_has_no_row_on_purpose(rows: int, counts: dict[str, int]) -> None:
    assert by_counts(10, rows, 2) == counts


def test_an_audit_names_each_range_and_what_it_could_not_compare() -> None:
    findings = (Finding(MISSING, "orders", 0, 3, 5), Finding(FOREIGN, "orders", 11, 7, 7))
    verdict = Verdict(10, 9, 2, 1, 4, NONE | {MISSING: 3, FOREIGN: 1}, findings, notes=("a note",))
    assert list(audit_lines("shop", verdict)) == [
        "shop: 10 records and 9 rows compared by offset",
        "2 records are dead letters",
        "1 records have no value and are dropped",
        "4 records were skipped",
        "a note",
        "TOPIC   PARTITION  OFFSETS  WHAT",
        "orders  0          3-5      missing",
        "orders  11         7-7      foreign",
        "3 missing, 0 doubled, 1 foreign",
    ]
