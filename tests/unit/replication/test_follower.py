"""A follower's rules, one by one: what an answer means, and what is done after each way it can go."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from highwater.errors import Code
from highwater.log.epoch_cache import EpochCache
from highwater.replication.follower import FIRST_PAUSE, NOTHING, Ends, Follower, Ready, Row, State

EPOCH = 5
HISTORY = EpochCache([(1, 0), (3, 10), (5, 20)])
LOG = Ends(0, 30)
COMMITTED = 25


class Batch(NamedTuple):
    base_offset: int
    last_offset: int
    leader_epoch: int = EPOCH


def asked(fetch: int = 1) -> Follower:
    follower = Follower(EPOCH, 1.0)
    follower.asked(fetch)
    return follower


def answer(follower: Follower, row: Row, fetch: int = 1, log: Ends = LOG) -> Ready:
    return follower.answered(fetch, row, log, COMMITTED, HISTORY)


def test_a_follower_without_work_asks_for_nothing() -> None:
    assert not any(NOTHING)


def test_a_new_follower_fetches_and_must_be_named() -> None:
    follower = Follower(EPOCH, 1.0)
    assert (follower.fetches, follower.is_moved) == (True, True)
    follower.asked(1)
    assert not follower.is_moved


def test_all_batches_of_its_own_epoch_and_older_ones_are_taken() -> None:
    rows = Row(batches=[Batch(30, 31, 4), Batch(32, 35)])
    assert answer(asked(), rows) == Ready(append=2, takes=True)


def test_a_batch_of_a_later_epoch_is_left_for_the_next_fetch() -> None:
    follower = asked()
    assert answer(follower, Row(batches=[Batch(30, 31), Batch(32, 33, EPOCH + 1)])) == Ready(append=1, takes=True)
    refused = answer(follower, Row(batches=[Batch(30, 31, EPOCH + 1)]))
    assert (refused.append, refused.takes, refused.pause) == (0, False, FIRST_PAUSE)
    assert follower.state is State.PAUSED


def test_an_answer_without_a_whole_batch_is_asked_for_again_after_a_pause() -> None:
    follower = asked()
    assert answer(follower, Row(has_bytes=True)).pause == FIRST_PAUSE
    assert follower.state is State.PAUSED


@pytest.mark.parametrize(
    ("leaders", "start", "ready"),
    [
        (25, 0, Ready(leader_high_watermark=25)),
        (33, 0, Ready(leader_high_watermark=33, high_watermark=33)),
        (50, 0, Ready(leader_high_watermark=50, high_watermark=36)),  # we have no more than that
        (20, 0, Ready(leader_high_watermark=20)),  # it never goes back
        (30, 12, Ready(leader_high_watermark=30, high_watermark=30, log_start=12, keep_log_start=True)),
        (
            30,
            90,
            Ready(leader_high_watermark=30, high_watermark=30, log_start=36, keep_log_start=True),
        ),  # never beyond our end
    ],
)
def test_the_leaders_high_watermark_and_log_start_apply_up_to_our_log_end(
    leaders: int, start: int, ready: Ready
) -> None:
    follower = asked()
    row = Row(high_watermark=leaders, log_start=start, batches=[Batch(30, 35)])
    assert answer(follower, row).takes
    assert follower.appended(row, LOG, Ends(0, 36), COMMITTED) == ready
    assert follower.is_moved, "the next fetch acknowledges it"


def test_an_answer_without_news_is_not_acknowledged() -> None:
    follower = asked()
    assert answer(follower, Row()) == Ready(takes=True)
    follower.appended(Row(high_watermark=25, log_start=0), LOG, LOG, COMMITTED)
    assert not follower.is_moved


def test_a_log_start_that_rises_alone_is_sent_to_the_leader() -> None:
    follower = asked()
    follower.appended(Row(high_watermark=25, log_start=3), LOG, LOG, COMMITTED)
    assert follower.is_moved


@pytest.mark.parametrize("how", ["it moved since", "it was asked again since"])
def test_a_follower_takes_only_the_high_watermark_of_an_answer_for_another_position(how: str) -> None:
    follower = asked(1)
    if how == "it moved since":
        follower.appended(Row(high_watermark=25, log_start=0), Ends(0, 29), LOG, COMMITTED)
    else:
        follower.asked(2)
    assert answer(follower, Row(high_watermark=28, batches=[Batch(30, 31)])) == Ready(
        leader_high_watermark=28, high_watermark=28
    )
    assert answer(follower, Row(high_watermark=90)).high_watermark == 30
    assert answer(follower, Row(Code.NOT_LEADER_OR_FOLLOWER)) == NOTHING
    assert answer(follower, Row(high_watermark=28, diverging=(3, 12))) == NOTHING
    assert follower.fetches


def test_an_answer_to_a_fetch_that_did_not_name_it_says_nothing() -> None:
    assert answer(asked(3), Row(high_watermark=28, batches=[Batch(30, 31)]), fetch=2) == NOTHING
    assert answer(Follower(EPOCH, 1.0), Row(high_watermark=28, batches=[Batch(30, 31)])) == NOTHING


def test_a_diverging_follower_cuts_its_log_before_it_takes_batches() -> None:
    follower = asked()
    ready = answer(follower, Row(high_watermark=28, diverging=(3, 15)))
    assert ready == Ready(truncate_to=15, why="epoch 3 of the leader ends at 15")
    assert (follower.state, follower.is_moved) == (State.TRUNCATING, False)
    assert answer(follower, Row(batches=[Batch(30, 31)])) == NOTHING
    follower.truncated()
    assert (follower.fetches, follower.is_moved) == (True, True)
    assert answer(follower, Row(batches=[Batch(30, 31)])) == NOTHING, "it was asked for before the cut"


@pytest.mark.parametrize(("leader_end", "cut", "begin"), [(7, None, 2), (8, 8, None), (9, 9, None)])
def test_a_log_that_parts_from_its_leaders_below_its_own_start_begins_anew_at_the_leaders(
    leader_end: int, cut: int | None, begin: int | None
) -> None:
    """From its old start on, it would lack what the leader has below that."""
    follower = asked()
    ready = answer(follower, Row(log_start=2, diverging=(1, leader_end)), log=Ends(8, 30))
    assert (ready.truncate_to, ready.restart_at, ready.append) == (cut, begin, 0)
    assert follower.state is State.TRUNCATING


def test_an_empty_log_begins_anew_with_a_batch_around_its_end() -> None:
    follower = asked()
    ready = answer(follower, Row(batches=[Batch(8, 12), Batch(13, 14), Batch(15, 15, 9)]), log=Ends(10, 10))
    assert (ready.restart_at, ready.append, ready.takes) == (8, 2, False)
    assert follower.state is State.TRUNCATING
    assert follower.restarted(Ends(10, 15)) == NOTHING
    assert follower.is_moved


@pytest.mark.parametrize(("base", "last", "is_damaged"), [(29, 30, True), (20, 40, True), (30, 31, False)])
def test_a_log_that_ends_inside_a_batch_of_the_leader_is_damaged(base: int, last: int, is_damaged: bool) -> None:
    """No checksum covers the base offset of a batch, so the last one may have moved."""
    follower = asked()
    ready = answer(follower, Row(batches=[Batch(base, last)]))
    assert (ready.is_damaged, ready.append) == (is_damaged, 0 if is_damaged else 1)
    assert follower.state is (State.PARKED if is_damaged else State.FETCHING)


def test_without_room_for_its_first_batches_a_log_is_fetched_again_later() -> None:
    follower = asked()
    answer(follower, Row(batches=[Batch(8, 12)]), log=Ends(10, 10))
    assert follower.restarted(Ends(10, 10)).pause == FIRST_PAUSE
    assert follower.state is State.PAUSED


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.NONE])
def test_an_error_is_looked_into_waited_for_or_asked_again(code: Code) -> None:
    follower = asked()
    ready = answer(follower, Row(code))
    match code:
        case Code.OFFSET_OUT_OF_RANGE:
            assert (ready, follower.state) == (Ready(ask_ends=True), State.ASKING)
        case Code.FENCED_LEADER_EPOCH:
            assert (ready, follower.state) == (NOTHING, State.PARKED)
        case _:
            assert (ready, follower.state) == (Ready(pause=FIRST_PAUSE), State.PAUSED)


def test_pauses_grow_to_their_longest_and_begin_anew_after_a_success() -> None:
    follower = Follower(EPOCH, 0.05)
    pauses = []
    for _ in range(5):
        pauses.append(follower.failed().pause)
        assert follower.resumed()
        assert follower.is_moved
    assert pauses == [0.01, 0.02, 0.04, 0.05, 0.05]
    follower.asked(1)
    follower.appended(Row(), LOG, LOG, COMMITTED)
    assert follower.failed().pause == FIRST_PAUSE


def test_a_paused_follower_is_not_named_though_its_log_has_grown() -> None:
    follower = asked()
    follower.appended(Row(), LOG, Ends(0, 31), COMMITTED)
    follower.failed()
    assert not follower.is_moved


def test_a_pause_that_something_else_has_ended_is_not_ended_again() -> None:
    follower = asked()
    follower.failed()
    follower.stop()
    assert not follower.resumed()
    assert follower.state is State.STOPPED


@pytest.mark.parametrize(
    ("leader", "last_epoch", "ready", "state"),
    [
        (Ends(0, 20), 5, Ready(truncate_to=20, why="the leader ends at 20"), State.TRUNCATING),
        (Ends(40, 50), 5, Ready(restart_at=40, why="the leader has nothing before it any more"), State.TRUNCATING),
        (Ends(0, 40), 5, NOTHING, State.FETCHING),
        (
            Ends(0, 20),
            6,
            Ready(is_damaged=True, why="leader epoch 6 where the highest is 5"),
            State.PARKED,
        ),
        (None, 5, Ready(pause=FIRST_PAUSE), State.PAUSED),
    ],
)
def test_out_of_range_it_goes_where_the_leader_is(
    leader: Ends | None, last_epoch: int, ready: Ready, state: State
) -> None:
    follower = asked()
    answer(follower, Row(Code.OFFSET_OUT_OF_RANGE))
    assert (follower.ends_found(leader, LOG, last_epoch), follower.state) == (ready, state)
    assert follower.ends_found(Ends(0, 10), LOG, 5) == NOTHING, "it was not asked"


def test_a_cut_of_an_earlier_term_is_waited_for() -> None:
    follower = Follower(EPOCH, 1.0, is_being_cut=True)
    assert (follower.state, follower.is_moved) == (State.TRUNCATING, False)
    follower.truncated()
    assert (follower.fetches, follower.is_moved) == (True, True)


def test_a_follower_whose_log_failed_no_longer_fetches() -> None:
    follower = asked()
    follower.log_failed()
    assert (follower.state, answer(follower, Row(batches=[Batch(30, 31)]))) == (State.PARKED, NOTHING)


def test_a_term_that_is_over_takes_nothing_in() -> None:
    follower = asked()
    follower.stop()
    assert answer(follower, Row(batches=[Batch(30, 31)])) == NOTHING
    assert follower.failed() == NOTHING
    follower.truncated()
    follower.log_failed()
    assert follower.restarted(LOG) == NOTHING
    assert follower.state is State.STOPPED
