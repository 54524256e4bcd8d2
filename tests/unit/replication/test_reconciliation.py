"""Where a follower's log and its leader's part, case by case."""

from __future__ import annotations

import pytest

from highwater.log.epoch_cache import EpochCache
from highwater.replication.reconciliation import Reset, cut_for_divergence, first_batch, out_of_range

HISTORY = EpochCache([(1, 0), (3, 10), (5, 20)])


@pytest.mark.parametrize(
    ("epoch", "leader_end", "cut"),
    [
        (5, 25, 25),  # the leader's end of the epoch that both have
        (5, 40, 30),  # never beyond our own end
        (3, 15, 15),
        (3, 25, 20),  # we left that epoch before the leader did
        (4, 18, 20),  # we have no such epoch: where the largest smaller one ended here, and the next fetch asks again
        (2, 5, 10),
        (0, 7, 0),  # older than all that we have
    ],
)
def test_a_log_is_cut_by_epoch_where_it_left_that_of_its_leader(epoch: int, leader_end: int, cut: int) -> None:
    assert cut_for_divergence(HISTORY, 30, epoch, leader_end) == cut


def test_a_log_without_a_history_is_cut_to_the_end_of_its_leader() -> None:
    assert cut_for_divergence(EpochCache(), 30, 4, 12) == 12
    assert cut_for_divergence(EpochCache(), 30, 4, 50) == 30


@pytest.mark.parametrize(
    ("log_start", "log_end", "base", "last", "begins"),
    [
        (10, 10, 8, 12, 8),  # the leader's log begins amid the batch
        (10, 10, 8, 10, 8),
        (10, 10, 8, 9, None),  # it ends before our log begins
        (10, 10, 10, 12, None),  # it follows
        (10, 10, 11, 12, None),
        (5, 10, 8, 12, None),  # there is something already: it does not fit
    ],
)
def test_an_empty_log_begins_with_the_batch_around_its_end(
    log_start: int, log_end: int, base: int, last: int, begins: int | None
) -> None:
    assert first_batch(log_start, log_end, base, last) == begins


@pytest.mark.parametrize(
    ("log_start", "log_end", "leader_start", "leader_end", "reset"),
    [
        (0, 30, 0, 20, Reset(truncate_to=20)),  # an unclean election took the rest
        (20, 30, 0, 20, Reset(truncate_to=20)),
        (25, 30, 3, 20, Reset(restart_at=3)),  # nothing of ours is in the leader's log
        (0, 30, 40, 50, Reset(restart_at=40)),  # the leader has deleted what comes next
        (0, 30, 30, 50, Reset()),
        (0, 30, 10, 30, Reset()),  # it is in range by now
    ],
)
def test_a_log_end_outside_the_leaders_range_is_moved_into_it(
    log_start: int, log_end: int, leader_start: int, leader_end: int, reset: Reset
) -> None:
    assert out_of_range(log_start, log_end, 4, leader_start, leader_end, 4) == reset


def test_a_last_epoch_above_the_leaders_is_damage() -> None:
    assert out_of_range(0, 30, 5, 0, 20, 4) == Reset(is_damaged=True)
