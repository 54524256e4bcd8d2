"""Where a consumer with a rack reads (KIP-392): each rule of the choice by example."""

from __future__ import annotations

import pytest

from highwater.model import NodeId
from highwater.replication.follower_progress import Contact
from highwater.replication.leader import Leader
from highwater.replication.read_replica import may_serve_consumers, preferred_read_replica
from tests.unit.replication.leading import LAG, ME, SECOND, THIRD, fetch, leads

NOW = 100.0
RACKS = {ME: "a", SECOND: "b", THIRD: "b"}


def both_at(second: int, third: int) -> Leader:
    leader = leads()
    fetch(leader, SECOND, second)
    fetch(leader, THIRD, third)
    return leader


def chosen(leader: Leader, rack: str = "b", offset: int = 5, racks: dict[NodeId, str] = RACKS) -> NodeId | None:
    return preferred_read_replica(leader, racks, rack, offset, NOW)


def test_a_follower_in_the_consumers_rack_is_preferred_to_a_leader_in_another_rack() -> None:
    assert chosen(both_at(10, 0)) == SECOND


def test_a_leader_in_the_consumers_rack_is_preferred_to_every_follower() -> None:
    assert chosen(both_at(10, 10), racks={ME: "b", SECOND: "b", THIRD: "b"}) is None


def test_a_consumer_in_a_rack_without_a_broker_reads_from_the_leader() -> None:
    assert chosen(both_at(10, 10), rack="z") is None


def test_the_follower_with_the_highest_log_end_is_preferred() -> None:
    assert chosen(both_at(10, 9)) == SECOND
    assert chosen(both_at(9, 10)) == THIRD


def test_of_two_followers_with_the_same_log_end_the_one_that_was_caught_up_last_is_preferred() -> None:
    leader = leads(now=0.0)
    leader.fetched(SECOND, 20, 10, 0, 0, Contact(NOW - 1), NOW)
    leader.fetched(THIRD, 30, 10, 0, 0, Contact(NOW - 2), NOW)
    assert chosen(leader) == SECOND


def test_of_two_followers_that_are_equal_otherwise_the_one_with_the_higher_id_is_preferred() -> None:
    assert chosen(both_at(10, 10)) == THIRD


@pytest.mark.parametrize(("offset", "expected"), [(2, None), (3, SECOND), (8, SECOND), (9, None)])
def test_a_follower_is_preferred_only_for_offsets_from_its_log_start_up_to_its_log_end(
    offset: int, expected: NodeId | None
) -> None:
    leader = leads((ME, SECOND))
    fetch(leader, SECOND, 8, start=3)
    assert chosen(leader, offset=offset) == expected


def test_a_follower_outside_the_isr_is_not_preferred() -> None:
    leader = leads((ME, THIRD))
    fetch(leader, SECOND, 10)
    fetch(leader, THIRD, 7)
    assert chosen(leader) == THIRD


def test_a_follower_that_has_not_fetched_in_this_leader_epoch_is_not_preferred() -> None:
    leader = leads()
    assert chosen(leader) is None
    fetch(leader, SECOND, 10)
    assert chosen(leader) == SECOND


def test_a_fenced_broker_or_one_that_the_consumer_cannot_reach_is_not_preferred() -> None:
    assert chosen(both_at(10, 9), racks={ME: "a", THIRD: "b"}) == THIRD


def test_a_leader_that_the_consumer_cannot_reach_does_not_prevent_the_choice() -> None:
    assert chosen(both_at(10, 9), racks={SECOND: "b"}) == SECOND


@pytest.mark.parametrize(("silent", "expected"), [(LAG, SECOND), (LAG + 0.1, None)])
def test_a_follower_that_was_not_caught_up_within_the_longest_lag_is_not_preferred(
    silent: float, expected: NodeId | None
) -> None:
    leader = leads((ME, SECOND), now=0.0)
    leader.fetched(SECOND, 20, 10, 0, 0, Contact(NOW - silent), NOW - silent)
    assert chosen(leader) == expected


@pytest.mark.parametrize(
    ("is_in_isr", "heard_at", "serves"),
    [
        (True, NOW, True),
        (True, NOW - LAG, True),
        (True, NOW - LAG - 0.1, False),
        (False, NOW, False),
        (True, None, False),
    ],
)
def test_a_follower_serves_consumers_while_it_is_in_the_isr_and_hears_from_its_leader(
    is_in_isr: bool, heard_at: float | None, serves: bool
) -> None:
    assert may_serve_consumers(is_in_isr, heard_at, NOW, LAG) is serves
