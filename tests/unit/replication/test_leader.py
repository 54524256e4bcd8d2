"""A leader's rules, one by one: what is committed, and who holds it back."""

from __future__ import annotations

import pytest

from highwater.errors import Code
from highwater.model import NodeId
from highwater.replication.alter_partition import Answer
from highwater.replication.leader import COMMITTED, PROPOSAL, SHRANK, STALE, Terms
from tests.unit.replication.leading import ALL, EPOCHS, LAG, ME, SECOND, THIRD, fetch, leads


def test_the_flags_of_an_input_are_distinct() -> None:
    assert SHRANK + COMMITTED + PROPOSAL + STALE == SHRANK | COMMITTED | PROPOSAL | STALE


# What is committed


def test_alone_in_its_isr_the_leaders_own_end_counts() -> None:
    leader = leads((ME,), (ME,))
    assert leader.begin(100.0) == 0
    assert leader.appended(15, 100.0) == COMMITTED
    assert leader.high_watermark == 15
    assert leader.appended(15, 100.0) == 0, "that is no news"


def test_existing_records_are_committed_when_a_term_begins_with_an_isr_of_one() -> None:
    leader = leads((ME,), high_watermark=6)
    assert (leader.begin(100.0), leader.high_watermark) == (COMMITTED, 10)


def test_the_high_watermark_waits_for_the_slowest_member_of_the_isr() -> None:
    leader = leads()
    leader.appended(15, 100.0)
    assert fetch(leader, SECOND, 15) == 0, "of the third nothing is known"
    assert fetch(leader, THIRD, 12) == COMMITTED
    assert leader.high_watermark == 12
    assert fetch(leader, THIRD, 15) == COMMITTED
    assert leader.high_watermark == 15


def test_a_new_leader_waits_for_the_first_fetch_of_every_in_sync_follower() -> None:
    leader = leads((ME, SECOND), high_watermark=8)
    assert (leader.begin(100.0), leader.high_watermark) == (0, 8)
    assert leader.assigned(ALL, (ME,), 8, EPOCHS, 100.0) == SHRANK | COMMITTED
    assert leader.high_watermark == 10


def test_the_high_watermark_never_moves_back() -> None:
    leader = leads((ME, SECOND))
    assert (fetch(leader, SECOND, 3), leader.high_watermark) == (0, 10)
    leader.appended(15, 100.0)
    assert (fetch(leader, SECOND, 4), leader.high_watermark) == (0, 10)
    assert (fetch(leader, SECOND, 10), leader.high_watermark) == (0, 10)


@pytest.mark.parametrize(("isr", "minimum", "enough"), [((ME,), 1, True), ((ME,), 2, False), ((ME, SECOND), 2, True)])
def test_below_the_minimum_it_is_frozen(isr: tuple[NodeId, ...], minimum: int, enough: bool) -> None:
    leader = leads(isr, minimum=minimum)
    assert leader.enough_in_sync is enough
    for replica in isr[1:]:
        fetch(leader, replica, 15)
    leader.appended(15, 100.0)
    assert leader.high_watermark == (15 if enough else 10)


def test_min_insync_replicas_is_bounded_by_the_number_of_replicas() -> None:
    leader = leads((ME,), (ME,), minimum=2)
    assert leader.appended(15, 100.0) == COMMITTED


def test_the_high_watermark_moves_when_min_insync_replicas_is_lowered() -> None:
    leader = leads((ME,), minimum=2)
    assert leader.appended(15, 100.0) == 0
    assert leader.settings_changed(Terms(1, False, LAG), 100.0) == COMMITTED


def test_in_flush_mode_the_leaders_own_records_count_once_they_are_synced() -> None:
    leader = leads((ME, SECOND), flushes=True)
    leader.appended(15, 100.0)
    assert fetch(leader, SECOND, 15) == 0
    assert (leader.synced(13, 100.0), leader.high_watermark) == (COMMITTED, 13)
    assert leader.settings_changed(Terms(1, False, LAG), 100.0) == COMMITTED
    assert leader.high_watermark == 15


def test_nothing_is_committed_by_a_leader_whose_log_failed() -> None:
    leader = leads((ME, SECOND))
    leader.appended(15, 100.0)
    leader.freeze()
    assert fetch(leader, SECOND, 15) == 0
    assert leader.assigned(ALL, (ME,), 8, EPOCHS, 100.0) == SHRANK


def test_waiting_tokens_are_released_in_order_and_the_rest_when_the_term_ends() -> None:
    leader = leads((ME, SECOND))
    leader.appended(15, 100.0)
    for end in (11, 13, 15):
        leader.wait(end, f"up to {end}")
    assert (fetch(leader, SECOND, 13), leader.released) == (COMMITTED, ["up to 11", "up to 13"])
    assert leader.step_down() == ["up to 15"]
    assert leader.step_down() == []


def test_waiting_tokens_stay_when_their_leader_is_elected_again() -> None:
    before = leads((ME, SECOND))
    before.appended(15, 100.0)
    before.wait(15, "up to 15")
    leader = leads((ME,), end=15)
    leader.take_over(before)
    assert (leader.begin(100.0), leader.released, before.step_down()) == (COMMITTED, ["up to 15"], [])


# Which follower is nearly there


def test_a_joining_follower_holds_the_high_watermark_back_until_it_falls_behind() -> None:
    leader = leads((ME, SECOND))
    leader.appended(12, 100.0)
    fetch(leader, THIRD, 12, 100.0)
    asked = leader.proposal
    assert asked is not None
    leader.answered(asked, Answer(Code.OPERATION_NOT_ATTEMPTED), 100.0)
    leader.appended(15, 101.0)
    assert fetch(leader, SECOND, 15, 101.0) == COMMITTED
    assert leader.high_watermark == 12, "the third has 12, and had all a second ago"
    assert leader.tick(100.0 + LAG) == PROPOSAL, "it may still join"
    assert (leader.high_watermark, leader.proposal and leader.proposal.isr) == (12, ALL)
    leader.answered(leader.proposal, Answer(Code.OPERATION_NOT_ATTEMPTED), 100.0 + LAG)
    assert leader.tick(100.0 + LAG + 0.1) & COMMITTED
    assert leader.high_watermark == 15


@pytest.mark.parametrize("what", ["fenced", "of another incarnation", "left the ISR", "silent"])
def test_a_follower_that_may_not_join_does_not_hold_the_high_watermark_back(what: str) -> None:
    leader = leads()
    for replica in (SECOND, THIRD):
        if what != "silent" or replica is SECOND:
            fetch(leader, replica, 10)
    brokers = EPOCHS | ({THIRD: None} if what == "fenced" else {THIRD: 31} if what == "of another incarnation" else {})
    leader.assigned(ALL, (ME, SECOND), 8, brokers, 100.0)
    if what in ("fenced", "of another incarnation"):
        fetch(leader, THIRD, 10)
    assert leader.proposal is None
    leader.appended(15, 100.0)
    assert fetch(leader, SECOND, 15) == COMMITTED
    assert leader.high_watermark == 15


def test_a_fenced_follower_no_longer_holds_the_high_watermark_back() -> None:
    leader = leads((ME, SECOND), end=12, high_watermark=10)
    fetch(leader, SECOND, 12)
    assert leader.high_watermark == 12
    leader.appended(15, 100.0)
    fetch(leader, THIRD, 15, 100.0)
    asked = leader.proposal
    assert asked is not None
    leader.answered(asked, Answer(Code.INELIGIBLE_REPLICA), 100.0)
    leader.appended(18, 100.0)
    assert fetch(leader, SECOND, 18) == COMMITTED
    assert leader.high_watermark == 15, "the third"
    assert leader.brokers_changed({THIRD: None}, 100.0) == COMMITTED
    assert leader.high_watermark == 18


# Deleting records


def test_records_are_gone_when_no_live_replica_has_them() -> None:
    leader = leads()
    assert leader.low_watermark(5) == -1, "no follower has said where its log begins"
    fetch(leader, SECOND, 10, start=5)
    fetch(leader, THIRD, 10, start=2)
    assert leader.low_watermark(5) == 2
    leader.brokers_changed({THIRD: None}, 100.0)
    assert leader.low_watermark(5) == 5
