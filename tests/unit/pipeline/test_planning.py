"""Every offset is read once and no limit is passed, whatever the backlogs are."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from highwater.model import TopicPartition
from highwater.pipeline.planning import SMALL_TASK, backlog, limited, tasks
from highwater.pipeline.ranges import NO_EPOCH, OffsetRange

SIZES = st.lists(st.integers(0, 3 * SMALL_TASK), min_size=1, max_size=12)


def ranges_of(sizes: list[int], start: int = 100) -> list[OffsetRange]:
    return [OffsetRange("orders", "", index, start, start + size, 7) for index, size in enumerate(sizes)]


@settings(deadline=None, max_examples=60)
@given(SIZES, st.integers(1, 4 * SMALL_TASK))
@example([1, 30_000], 5)
@example([9, 9, 9], 1)
def test_a_limit_is_kept_and_used_up(sizes: list[int], limit: int) -> None:
    starts = {TopicPartition("orders", index): 50 for index in range(len(sizes))}
    ends = {partition: 50 + size for partition, size in zip(starts, sizes, strict=True)}
    got = limited(starts, ends, limit)
    busy = [partition for partition in ends if ends[partition] > starts[partition]]
    assert backlog(starts, got) == min(backlog(starts, ends), max(limit, len(busy)))
    assert all(starts[partition] <= got[partition] <= ends[partition] for partition in ends)
    assert all(got[partition] > starts[partition] for partition in busy), "a partition with a backlog gets on"


def test_a_limit_is_shared_by_backlog() -> None:
    small, large = TopicPartition("orders", 0), TopicPartition("orders", 1)
    assert limited({small: 0, large: 0}, {small: 100, large: 900}, 100) == {small: 10, large: 90}


def test_an_end_before_the_start_is_no_backlog() -> None:
    one, other = TopicPartition("orders", 0), TopicPartition("orders", 1)
    assert backlog({one: 10, other: 10}, {one: 5, other: 12}) == 2


@settings(deadline=None, max_examples=60)
@given(SIZES, st.none() | st.integers(1, 20), st.none() | st.integers(500, SMALL_TASK))
def test_every_offset_is_read_exactly_once_and_in_order(
    sizes: list[int], min_partitions: int | None, max_records: int | None
) -> None:
    planned = tasks(ranges_of(sizes), min_partitions, max_records)
    for index, size in enumerate(sizes):
        read = [range_ for task in planned for range_ in task if range_.partition == index]
        bounds = [100, *(range_.end for range_ in read)]
        assert [range_.start for range_ in read] == bounds[:-1]
        assert bounds[-1] == 100 + size
    assert all(range_.size > 0 for task in planned for range_ in task)


@settings(deadline=None, max_examples=60)
@given(SIZES, st.none() | st.integers(1, 20), st.integers(500, SMALL_TASK))
def test_no_task_has_more_records_than_allowed(sizes: list[int], min_partitions: int | None, max_records: int) -> None:
    planned = tasks(ranges_of(sizes), min_partitions, max_records)
    assert all(sum(range_.size for range_ in task) <= max_records for task in planned)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1000, 3 * SMALL_TASK), min_size=1, max_size=12), st.integers(1, 20))
def test_about_as_many_tasks_are_made_as_wanted(sizes: list[int], wanted: int) -> None:
    made = len(tasks(ranges_of(sizes), wanted, None))
    assert made >= min(wanted, len(sizes))
    assert made >= wanted - len(sizes), "rounding costs at most one for each range"


def test_small_ranges_share_a_task_and_large_ones_have_their_own() -> None:
    planned = tasks(ranges_of([10, 20, SMALL_TASK, 30, 5 * SMALL_TASK]), None, None)
    assert [[range_.partition for range_ in task] for task in planned] == [[0, 1], [2], [3], [4]]


def test_small_ranges_stay_apart_where_so_many_tasks_are_wanted() -> None:
    assert len(tasks(ranges_of([10, 10, 10, 10]), 3, None)) == 3


def test_only_the_first_part_knows_the_epoch_before_it() -> None:
    """The epoch of the range's start has ended long before the other parts begin, perhaps."""
    planned = tasks(ranges_of([100]), 2, None)
    assert [[range_.leader_epoch for range_ in task] for task in planned] == [[7], [NO_EPOCH]]
