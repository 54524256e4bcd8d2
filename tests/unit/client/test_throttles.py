"""The replicas to which a throttle of moves applies, by example."""

from __future__ import annotations

from highwater.client.throttles import Move, planned_moves
from highwater.model import TopicPartition
from highwater.wire.messages.list_partition_reassignments_response import OngoingPartitionReassignment

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def under_way(replicas: list[int], adding: list[int]) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(partition_index=0, replicas=replicas, adding_replicas=adding)


def move(sources: set[int], destinations: set[int]) -> Move:
    return Move(frozenset(sources), frozenset(destinations))


def test_a_new_replica_copies_from_the_replicas_that_there_are() -> None:
    assert planned_moves({A: [2, 3, 4]}, {A: [1, 2, 3]}, {}) == {A: move({1, 2, 3}, {4})}


def test_a_move_that_is_under_way_is_throttled_too() -> None:
    moves = planned_moves({A: [1, 2]}, {A: [1]}, {B: under_way([3, 1, 2], [3])})
    assert moves == {A: move({1}, {2}), B: move({1, 2}, {3})}


def test_a_partition_that_is_moving_already_copies_from_the_replicas_that_it_had_before() -> None:
    moves = planned_moves({A: [4]}, {A: [3, 1, 2]}, {A: under_way([3, 1, 2], [3])})
    assert moves == {A: move({1, 2}, {4})}
