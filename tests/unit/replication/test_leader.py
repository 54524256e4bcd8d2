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
