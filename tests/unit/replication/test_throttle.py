"""How many bytes may pass in a time, and which replicas a topic's list names."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from highwater.config import LogConfig
from highwater.model import NodeId
from highwater.replication.follower import Follower, State
from highwater.replication.throttle import Flow, names
from tests.unit.config.test_topic import NODE

RATE = 1000


def test_one_seconds_bytes_may_pass_at_once_and_then_as_many_as_the_rate_permits() -> None:
    flow = Flow()
    flow.record(RATE, RATE, 5.0)
    assert not flow.is_exceeded(RATE, 5.0)
    flow.record(1, RATE, 5.0)
    assert flow.is_exceeded(RATE, 5.0)
    assert not flow.is_exceeded(RATE, 5.001)
    flow.record(3 * RATE, RATE, 6.0)
    assert flow.is_exceeded(RATE, 8.0)
    assert not flow.is_exceeded(RATE, 8.01)


def test_an_idle_flow_may_be_ahead_by_one_second_at_most() -> None:
    flow = Flow()
    assert not flow.is_exceeded(RATE, 1000.0)
    flow.record(RATE + 1, RATE, 2000.0)
    assert flow.is_exceeded(RATE, 2000.0)


def test_a_debt_is_paid_off_at_the_new_rate_when_the_rate_is_raised() -> None:
    flow = Flow()
    flow.record(100 * RATE, 1, 0.0)
    assert flow.is_exceeded(1, 3600.0)
    assert not flow.is_exceeded(100 * RATE, 3601.0)


def test_nothing_more_passes_at_a_rate_of_zero() -> None:
    flow = Flow()
    assert not flow.is_exceeded(0, 0.0)
    flow.record(1, 0, 0.0)
    assert flow.is_exceeded(0, 1e9)


@pytest.mark.parametrize("seed", range(20))
def test_no_window_of_kafkas_length_has_more_than_the_rate_a_burst_and_one_fetch(seed: int) -> None:
    draw, flow, now, passed = Random(seed), Flow(), 0.0, list[tuple[float, int]]()
    largest = 400
    while now < 60:
        now += draw.random() * 0.2
        if not flow.is_exceeded(RATE, now):
            size = draw.randint(1, largest)
            flow.record(size, RATE, now)
            passed.append((now, size))
    for end, _ in passed:
        assert sum(size for at, size in passed if end - 11 < at <= end) <= 12 * RATE + largest
    assert sum(size for _, size in passed) >= 0.9 * 60 * RATE


@pytest.mark.parametrize(
    ("listed", "expected"), [((), False), (("*",), True), (("1:2", "3:4"), True), (("3:2", "1:4"), False)]
)
def test_a_replica_is_throttled_if_the_list_names_its_partition_on_its_broker(
    listed: tuple[str, ...], expected: bool
) -> None:
    assert names(listed, 3, NodeId(4)) is expected


def test_a_follower_that_is_held_back_pauses_and_fetches_again() -> None:
    follower = Follower(1, 1.0)
    assert follower.held(0.5).pause == 0.5
    assert (follower.state, follower.is_moved) == (State.PAUSED, False)
    assert follower.resumed()
    assert (follower.fetches, follower.is_moved) == (True, True)


def test_a_follower_that_does_not_fetch_is_not_held_back() -> None:
    follower = Follower(1, 1.0, is_being_cut=True)
    assert follower.held(0.5).pause is None
    assert follower.state is State.TRUNCATING


@pytest.mark.parametrize(("rate", "expected"), [(RATE, 2.0), (2 * RATE, 0.0), (0, inf)])
def test_the_wait_lasts_until_the_debt_is_paid(rate: int, expected: float) -> None:
    flow = Flow()
    flow.record(2 * RATE, 0, 1.0)
    assert flow.seconds_left(rate, 1.0 if rate <= RATE else 2.0) == expected


def test_a_long_list_of_replicas_is_not_read_for_each_of_them() -> None:
    """It may have thousands, and a follower looks all its partitions up in one turn of the loop."""
    config = LogConfig.resolve(NODE, {"follower.replication.throttled.replicas": "0:4,7:4"})
    assert isinstance(config.follower_replication_throttled_replicas, frozenset)
    assert names(config.follower_replication_throttled_replicas, 7, NodeId(4))
