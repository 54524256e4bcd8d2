"""Leader epochs and where they begin: examples of KIP-101 and KIP-279, and a naive model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.log.epoch_cache import UNDEFINED, EpochCache

HISTORY = [(1, 0), (2, 10), (5, 20)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, UNDEFINED),
        (0, (0, 0)),  # older than all: nothing of it is here, it ends where the log begins
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),  # KIP-279: never heard of it, so the largest epoch below and its end
        (4, (2, 20)),
        (5, (5, 33)),
        (6, UNDEFINED),  # newer than all: only another leader knows it
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(asked: int, answer: tuple[int, int]) -> None:
    assert EpochCache(HISTORY).end_of(asked, 33) == answer


def test_an_empty_cache_knows_nothing() -> None:
    cache = EpochCache()
    assert cache.end_of(0, 5) == UNDEFINED
    assert (cache.latest, cache.epoch_at(3)) == (-1, -1)


def test_after_retention_an_epoch_below_the_first_ends_at_the_log_start() -> None:
    cache = EpochCache(HISTORY)
    assert cache.truncate_start(15)
    assert cache.entries == [(2, 15), (5, 20)]
    assert cache.end_of(1, 33) == (1, 15)
    assert not cache.truncate_start(15)
    assert not cache.truncate_start(3)


def test_an_election_without_a_record_is_remembered_until_the_next_one_replaces_it() -> None:
    cache = EpochCache(HISTORY)
    assert cache.assign(6, 33)
    assert cache.entries[-1] == (6, 33)
    assert cache.assign(7, 33)
    assert cache.entries == [*HISTORY, (7, 33)]
    assert not cache.assign(7, 40)


def test_a_cut_at_the_log_end_still_forgets_empty_epochs() -> None:
    cache = EpochCache([*HISTORY, (6, 33)])
    assert cache.truncate_end(33)
    assert cache.entries == HISTORY
    assert not cache.truncate_end(33)


@pytest.mark.parametrize(("epoch", "at"), [(0, 0), (1, 9), (2, 10), (2, 19), (5, 20), (5, 10**12)])
def test_the_epoch_of_a_record_is_the_last_that_began_before_it(epoch: int, at: int) -> None:
    assert EpochCache([(0, 0), (1, 1), (2, 10), (5, 20)]).epoch_at(at) == epoch


def test_a_new_epoch_entry_removes_entries_that_contradict_it() -> None:
    cache = EpochCache(HISTORY)
    assert cache.assign(3, 15)
    assert cache.entries == [(1, 0), (2, 10), (3, 15)]


@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=12),
    cuts=st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=4),
)
def test_the_epoch_cache_agrees_with_a_list_of_the_epoch_of_every_record(
    steps: list[tuple[int, int]], cuts: list[tuple[bool, int]]
) -> None:
    cache, start, epoch = EpochCache(), 0, 0
    log: list[int] = []
    for rise, count in steps:
        epoch += rise
        cache.assign(epoch, len(log))
        log += [epoch] * count
    for at_end, offset in cuts:
        if at_end:
            end = max(start, min(offset, len(log)))
            cache.truncate_end(end)
            del log[end:]
        else:
            start = max(start, min(offset, len(log)))
            cache.truncate_start(start)
    for offset in range(start, len(log)):
        assert cache.epoch_at(offset) == log[offset]
    there = log[start:]
    for asked in range(8):
        if not there or asked > max(there):
            continue
        below = [each for each in there if each <= asked]
        end = start + len(below)
        assert cache.end_of(asked, len(log)) == (max(below) if below else asked, end)


def test_a_batch_puts_right_where_its_epoch_and_later_ones_began() -> None:
    cache = EpochCache([(0, 0), (2, 1)])
    assert cache.follow(1, 1), "epoch 2 had begun too early"
    assert cache.entries == [(0, 0), (1, 1)]
    assert cache.follow(2, 2)
    assert not cache.follow(2, 3)
    assert cache.entries == [(0, 0), (1, 1), (2, 2)]


def test_a_batch_of_an_epoch_that_is_known_moves_only_what_came_after_it() -> None:
    cache = EpochCache([(0, 0), (1, 10), (900, 20)])
    assert cache.follow(1, 21)
    assert cache.entries == [(0, 0), (1, 10)]


def test_a_batch_without_an_epoch_adds_none() -> None:
    cache = EpochCache()
    assert not cache.follow(-1, 5)
    assert cache.entries == []
