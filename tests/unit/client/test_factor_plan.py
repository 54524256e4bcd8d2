"""Plans of another replication factor, by example."""

from __future__ import annotations

import pytest

from highwater.client.balance_plan import Held, Place
from highwater.client.factor_plan import TooFewBrokers, plan_factor
from highwater.model import NodeId, TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def places(*racks: str | None) -> list[Place]:
    return [Place(NodeId(at), rack) for at, rack in enumerate(racks, 1)]


def held(size: int, *replicas: int) -> Held:
    return Held(tuple(map(NodeId, replicas)), size)


def test_a_new_replica_goes_to_the_broker_with_the_fewest_bytes() -> None:
    everything = {A: held(10, 1), B: held(99, 2)}
    assert plan_factor(everything, [A], places(None, None, None), 2) == {A: (1, 3)}


def test_new_replicas_are_spread_as_they_are_planned() -> None:
    everything = {A: held(10, 1), B: held(10, 1)}
    targets = plan_factor(everything, [A, B], places(None, None, None), 2)
    assert sorted(each[1] for each in targets.values()) == [2, 3]


def test_a_new_replica_goes_to_a_rack_that_the_partition_does_not_have() -> None:
    everything = {A: held(10, 1), B: held(99, 3)}
    assert plan_factor(everything, [A], places("a", "a", "b"), 2) == {A: (1, 3)}


def test_the_preferred_leader_stays_and_the_fullest_other_broker_loses_its_replica() -> None:
    everything = {A: held(10, 1, 2, 3), B: held(99, 1, 3)}
    assert plan_factor(everything, [A], places(None, None, None), 2) == {A: (1, 2)}


def test_replicas_are_removed_from_different_brokers_if_the_plan_leaves_them_equally_full() -> None:
    everything = {A: held(10, 1, 2, 3), B: held(10, 1, 2, 3)}
    targets = plan_factor(everything, [A, B], places(None, None, None), 2)
    assert sorted(each[1] for each in targets.values()) == [2, 3]


def test_a_partition_keeps_all_its_racks_while_one_of_them_has_two_replicas() -> None:
    everything = {A: held(10, 1, 2, 3), B: held(99, 3)}
    assert plan_factor(everything, [A], places("a", "a", "b"), 2) == {A: (1, 3)}


def test_the_replica_of_a_missing_broker_is_removed_first() -> None:
    assert plan_factor({A: held(10, 1, 9, 2)}, [A], places(None, None), 2) == {A: (1, 2)}


def test_a_partition_that_has_the_factor_is_left_out() -> None:
    assert plan_factor({A: held(10, 1, 2)}, [A], places(None, None, None), 2) == {}


@pytest.mark.parametrize("factor", [0, 3])
def test_there_is_one_replica_at_least_and_one_on_each_broker_at_most(factor: int) -> None:
    with pytest.raises(TooFewBrokers):
        plan_factor({A: held(10, 1)}, [A], places(None, None), factor)
