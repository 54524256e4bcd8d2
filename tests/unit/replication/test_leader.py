"""The high watermark: what every in-sync replica has."""

from __future__ import annotations

import pytest

from highwater.model import NodeId
from highwater.replication.leader import LeaderState


def state(isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3)) -> LeaderState:
    return LeaderState(NodeId(1), 4, 10, [NodeId(each) for each in replicas], [NodeId(each) for each in isr])


def test_alone_in_its_isr_the_leaders_own_end_counts() -> None:
    leader = state((1,), (1,))
    assert leader.high_watermark(15, 10, 1) == 15
    assert leader.high_watermark(15, 15, 1) == 15


def test_it_never_goes_back() -> None:
    assert state((1,)).high_watermark(5, 10, 1) == 10


def test_a_new_leader_waits_for_the_first_word_of_every_in_sync_follower() -> None:
    leader = state((1, 2))
    assert leader.high_watermark(15, 10, 1) == 10
    leader.assigned(leader.replicas, [NodeId(1)])
    assert leader.high_watermark(15, 10, 1) == 15


@pytest.mark.parametrize(("isr", "minimum", "enough"), [((1,), 1, True), ((1,), 2, False), ((1, 2), 2, True)])
def test_below_the_minimum_it_is_frozen(isr: tuple[int, ...], minimum: int, enough: bool) -> None:
    leader = state(isr)
    assert leader.enough_in_sync(minimum) is enough
    if not enough:
        assert leader.high_watermark(15, 10, minimum) == 10


def test_a_topic_of_one_replica_asks_for_no_more_than_it_has() -> None:
    leader = state((1,), (1,))
    assert leader.enough_in_sync(2)
    assert leader.high_watermark(15, 10, 2) == 15


def fetch(leader: LeaderState, end: int, broker_epoch: int, now: float = 1.0, leader_end: int = 15) -> bool:
    return leader.fetched(NodeId(2), end, 0, broker_epoch, leader_end, now, lambda: now)


def test_what_an_incarnation_was_says_nothing_of_the_next_one() -> None:
    leader = state((1, 2))
    assert fetch(leader, 15, broker_epoch=5, now=9.0)
    assert leader.caught_up_at(NodeId(2), 15) == 9.0
    assert fetch(leader, 11, broker_epoch=6, now=10.0, leader_end=15)
    assert leader.caught_up_at(NodeId(2), 15) == 0.0, "it was the former one that had everything"
    assert not fetch(leader, 15, broker_epoch=5, now=11.0), "it comes late, from one that is no more"
    assert leader.followers[NodeId(2)].end == 11


def test_a_replica_that_left_the_isr_may_join_only_by_what_it_fetches_from_then_on() -> None:
    leader = state((1, 2))
    assert fetch(leader, 15, broker_epoch=5)
    leader.assigned(leader.replicas, [NodeId(1)])
    assert not leader.may_join(NodeId(2), 15)
    assert fetch(leader, 15, broker_epoch=5, now=2.0)
    assert leader.may_join(NodeId(2), 15)


def test_a_proposal_keeps_the_epochs_of_those_it_was_made_for() -> None:
    leader = state((1,))
    assert fetch(leader, 15, broker_epoch=5)
    proposal = leader.propose([NodeId(1), NodeId(2)], 7)
    assert fetch(leader, 11, broker_epoch=6)
    assert (proposal.isr, proposal.epochs) == ((1, 2), (-1, 5))
