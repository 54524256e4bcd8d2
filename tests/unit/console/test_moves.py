"""Moves as the page shows them, and the orders that it sends."""

from __future__ import annotations

import pytest

from highwater.client.descriptions import PartitionDescription
from highwater.console.given import BadQuestion
from highwater.console.kafka_lanes import Replica
from highwater.console.move_plan import MOST_ROWS, cancel_command, start_command, targets_of, throttle_of
from highwater.console.move_reader import move_row, share_of
from highwater.model import TopicPartition
from highwater.wire.messages.list_partition_reassignments_response import OngoingPartitionReassignment

TP = TopicPartition("t", 0)
MOVE = OngoingPartitionReassignment(partition_index=0, replicas=[2, 3, 1], adding_replicas=[3], removing_replicas=[1])


def described(*isr: int) -> PartitionDescription:
    return PartitionDescription(partition_index=0, leader_id=1, replica_nodes=[2, 3, 1], isr_nodes=list(isr))


def sizes(**by_node: int) -> dict[int, dict[TopicPartition, Replica]]:
    return {int(node[1:]): {TP: Replica(size, 0)} for node, size in by_node.items()}


def test_a_new_replica_is_measured_against_the_fullest_old_one() -> None:
    row = move_row(TP, MOVE, described(1, 2), sizes(n1=400, n2=300, n3=100))
    assert row["adding"] == [{"node": 3, "bytes": "100", "in_isr": False, "share": 0.25}]
    assert (row["target"], row["removing"], row["bytes"]) == ([2, 3], [1], "400")


def test_a_replica_is_complete_when_it_is_in_sync_and_not_before() -> None:
    assert move_row(TP, MOVE, described(1, 2), sizes(n1=400, n3=400))["adding"][0]["share"] < 1
    assert move_row(TP, MOVE, described(1, 2, 3), sizes(n1=400, n3=399))["adding"][0]["share"] == 1


def test_a_broker_that_does_not_answer_leaves_its_share_untold() -> None:
    assert move_row(TP, MOVE, described(1, 2), sizes(n1=400))["adding"][0]["share"] is None
    assert share_of(1, None) is None and share_of(0, 0) == 0


def test_rows_of_a_page_are_counted() -> None:
    assert targets_of([{"topic": "t", "partition": 0, "after": [1, 2]}]) == {TP: [1, 2]}
    for none in (None, []):
        with pytest.raises(BadQuestion):
            targets_of(none)
    with pytest.raises(BadQuestion):
        targets_of([{"topic": "t", "partition": 0, "after": [1]}] * (MOST_ROWS + 1))


def test_a_throttle_is_a_text_of_digits() -> None:
    assert throttle_of({"throttle": "1000000000000"}) == 1_000_000_000_000
    assert throttle_of({"throttle": ""}) is None
    for wrong in ("0", "-1", "1e3", 5, "9" * 40):
        with pytest.raises(BadQuestion):
            throttle_of({"throttle": wrong})


def test_the_commands_name_the_same_moves() -> None:
    moved = start_command("h:9", {"kind": "move", "throttle": "5"}, {TopicPartition("it's", 0): [1, 2]})
    assert """'{"version":1,"partitions":[{"topic":"it'"'"'s","partition":0,"replicas":[1,2]}]}'""" in moved
    assert moved.endswith("--execute --additional --throttle 5")
    assert start_command("h:9", {"kind": "drain", "brokers": [3]}, {}) == (
        "highwater balance --bootstrap-server h:9 --drain 3 --execute"
    )
    assert cancel_command("h:9", {TP: [1]}).endswith("--cancel")
