"""What of a log is dirty, whether that is worth a cleaning, and which segments become one."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.log.compaction.plan import MAX_SPAN, Dirt, SegmentShape, find_dirt, grouped
from tests.unit.log.bench import settings

DAY = 86_400_000
NOW = 100 * DAY


def shape(
    base: int, size: int = 100, first: int = 0, largest: int = 0, indexes: tuple[int, int] = (8, 12)
) -> SegmentShape:
    return SegmentShape(base, size, *indexes, first, largest)


SEGMENTS = [shape(base) for base in (0, 10, 20, 30)]
"""The last of them is the active one."""


def dirt(
    checkpoint: int | None = None, log_start: int = 0, stable_end: int = 40, segments: Any = SEGMENTS, **changes: Any
) -> Dirt:
    return find_dirt(segments, settings(**changes), checkpoint, log_start, 40, stable_end, NOW)


def test_all_but_the_active_segment_is_dirty_at_first() -> None:
    assert dirt() == Dirt(0, 30, 0, 300, 0)
    assert dirt(log_start=5) == Dirt(5, 30, 0, 300, 0)
    assert dirt(log_start=10) == Dirt(10, 30, 100, 200, 0)


def test_the_log_below_the_last_cleaning_is_clean() -> None:
    assert dirt(10) == Dirt(10, 30, 100, 200, 0)
    assert dirt(15) == Dirt(15, 30, 100, 200, 0)
    assert dirt(30) == Dirt(30, 30, 300, 0, 0)
    assert dirt(40) == Dirt(40, 40, 300, 0, 0)


@pytest.mark.parametrize(("checkpoint", "clean_end"), [(4, 5), (5, 5), (40, 40), (41, 5)])
def test_a_checkpoint_outside_the_log_counts_for_nothing(checkpoint: int, clean_end: int) -> None:
    assert dirt(checkpoint, log_start=5).clean_end == clean_end


@pytest.mark.parametrize(
    ("stable_end", "dirty_end", "dirty_bytes"), [(30, 30, 300), (29, 29, 200), (20, 20, 200), (3, 3, 0)]
)
def test_nothing_that_is_not_stable_is_cleaned_and_only_whole_segments_count(
    stable_end: int, dirty_end: int, dirty_bytes: int
) -> None:
    assert dirt(stable_end=stable_end)[1:4] == (dirty_end, 0, dirty_bytes)
    assert dirt(25, stable_end=3).dirty_end == 25, "never before what is clean"


@pytest.mark.parametrize(("age", "dirty_end"), [(99, 10), (100, 30), (101, 30)])
def test_records_younger_than_the_shortest_lag_and_all_after_them_are_not_cleaned(age: int, dirty_end: int) -> None:
    segments = [shape(0, largest=1), shape(10, largest=NOW - age), shape(20, largest=1), shape(30)]
    assert dirt(segments=segments, min_compaction_lag_ms=100).dirty_end == dirty_end
    assert dirt(segments=segments, min_compaction_lag_ms=0).dirty_end == 30


@pytest.mark.parametrize(("age", "overdue"), [(99, 0), (100, 0), (107, 7)])
def test_the_oldest_of_what_is_dirty_may_be_overdue(age: int, overdue: int) -> None:
    segments = [shape(0, first=1), shape(10, first=NOW), shape(20, first=NOW - age), shape(30, first=1)]
    assert dirt(10, segments=segments, max_compaction_lag_ms=100).overdue_ms == overdue
    unknown = [shape(0, first=0), shape(10, first=-1), shape(20), shape(30)]
    assert dirt(segments=unknown, max_compaction_lag_ms=100).overdue_ms == 0


@pytest.mark.parametrize(
    ("clean", "dirty", "overdue", "wanted"),
    [(50, 50, 0, False), (49, 51, 0, True), (99, 1, 0, False), (99, 1, 1, True), (50, 0, 1, False), (0, 0, 0, False)],
)
def test_a_cleaning_is_wanted_above_the_ratio_or_when_it_is_overdue(
    clean: int, dirty: int, overdue: int, wanted: bool
) -> None:
    found = Dirt(0, 10, clean, dirty, overdue)
    assert found.wants_cleaning(settings(min_cleanable_dirty_ratio=0.5)) is wanted
    assert found.ratio == (dirty / (clean + dirty) if clean + dirty else 0.0)


def bases(segments: list[SegmentShape], end: int, **changes: Any) -> list[list[int]]:
    return [[each.base_offset for each in group] for group in grouped(segments, end, settings(**changes))]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"segment_bytes": 300}, [[0, 10, 20], [30]]),
        ({"segment_bytes": 299}, [[0, 10], [20, 30]]),
        ({"segment_bytes": 50}, [[0], [10], [20], [30]]),
        ({"segment_index_bytes": 36}, [[0, 10, 20], [30]]),
        ({"segment_index_bytes": 35}, [[0, 10], [20, 30]]),
    ],
)
def test_neighbours_become_one_as_far_as_they_fit(changes: dict[str, int], expected: list[list[int]]) -> None:
    assert bases(SEGMENTS, 40, **changes) == expected


def test_offset_indexes_must_fit_too() -> None:
    wide = [shape(base, indexes=(20, 1)) for base in (0, 10, 20)]
    assert bases(wide, 30, segment_index_bytes=40) == [[0, 10], [20]]


@pytest.mark.parametrize(("beyond", "expected"), [(0, [[0, 10]]), (1, [[0], [10]])])
def test_a_cleaned_segment_spans_no_more_offsets_than_its_index_can_hold(
    beyond: int, expected: list[list[int]]
) -> None:
    assert bases([shape(0), shape(10)], MAX_SPAN + 1 + beyond) == expected


def test_a_lag_of_a_single_millisecond_counts() -> None:
    segments = [shape(0, largest=NOW), shape(10), shape(20), shape(30)]
    assert dirt(segments=segments, min_compaction_lag_ms=1).dirty_end == 0
