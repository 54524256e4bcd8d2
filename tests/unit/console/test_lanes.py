"""A partition as lanes: what the page draws of what the replicas answered."""

from __future__ import annotations

from typing import Any

from highwater.client.descriptions import PartitionDescription
from highwater.console.kafka_lanes import Replica, drawn
from highwater.console.lanes import NO_ANSWER, grid_of, lanes_of
from highwater.console.node_status import Status


def answer(node: int, role: str, *, end: int = 100, epoch: int = 3, **more: Any) -> Status:
    fields: Status = {
        "node": node,
        "topic": "orders",
        "partition": 0,
        "role": role,
        "leader_epoch": epoch,
        "partition_epoch": 5,
        "log_start": 10,
        "high_watermark": 90,
        "log_end": end,
        "durable_end": 90,
        "size": 5000,
        "replicas": [1, 2, 3],
        "offline": None,
        "unwritten": None,
        "damage": [],
        "epochs": [{"epoch": 0, "start": 0}, {"epoch": 3, "start": 50}],
        "changes": [{"seconds_ago": 2.0 + node, "what": f"change of {node}"}],
    }
    if role == "leader":
        fields |= {"isr": [1, 2], "min_isr": 2, "pending_isr": None, "follower_fetches": []}
        fields["followers"] = [
            {"id": 2, "in_isr": True, "log_end": 95, "lag": 5, "lag_ms": 12, "why": None},
            {"id": 3, "in_isr": False, "log_end": 40, "lag": 60, "lag_ms": 31000, "why": "last caught up 31.0 s ago"},
        ]
    return fields | more


def test_the_leader_says_who_is_in_sync_and_why_another_is_not() -> None:
    found = lanes_of("orders", 0, {1: answer(1, "leader"), 2: answer(2, "follower", end=95), 3: None})
    assert found is not None
    first, second, third = found["lanes"]
    assert found["leader"] == 1 and found["isr"] == [1, 2] and found["min_isr"] == 2
    assert (first["role"], first["why"]) == ("leader", None)
    assert (second["lag"], second["lag_ms"], second["in_isr"]) == ("5", "12", True)
    assert third["why"] == "last caught up 31.0 s ago" and not third["answers"] and third["log_end"] == "40"


def test_offsets_are_texts_also_beyond_what_a_browser_counts_exactly() -> None:
    huge = 9007199254740993
    found = lanes_of("orders", 0, {1: answer(1, "leader", end=huge)})
    assert found is not None and found["log_end"] == "9007199254740993"
    assert found["lanes"][0]["log_end"] == "9007199254740993" and found["epochs"][1] == {"epoch": 3, "start": "50"}


def test_a_leader_that_was_replaced_and_does_not_know_it_yet_is_no_leader() -> None:
    found = lanes_of("orders", 0, {1: answer(1, "leader"), 2: answer(2, "follower", epoch=4)})
    assert found is not None and found["leader"] == -1 and found["leader_epoch"] == 4


def test_without_a_leader_the_lanes_say_so() -> None:
    found = lanes_of("orders", 0, {1: None, 2: answer(2, "follower"), 3: answer(3, "follower")})
    assert found is not None and found["leader"] == -1
    assert found["lanes"][0]["why"] == NO_ANSWER and "no leader" in found["lanes"][1]["why"]


def test_a_failed_log_is_shown_with_what_was_found() -> None:
    found = lanes_of("orders", 0, {1: answer(1, "leader", offline="disk gone", damage=["at 7"])})
    assert found is not None and found["lanes"][0]["trouble"] == ["disk gone", "at 7"]


def test_the_changes_of_all_replicas_are_in_the_order_of_time() -> None:
    found = lanes_of("orders", 0, {2: answer(2, "follower"), 1: answer(1, "leader")})
    assert found is not None and [each["node"] for each in found["changes"]] == [1, 2]


def test_a_partition_that_no_node_knows_has_no_lanes() -> None:
    assert lanes_of("orders", 0, {1: None, 2: None}) is None


def test_the_grid_has_each_partition_once_and_passes_over_other_topics() -> None:
    other = answer(1, "leader", topic="payments")
    rows = [answer(1, "leader"), answer(1, "follower", partition=1), other]
    statuses: dict[int, Status | None] = {1: {"partitions": rows}, 2: {"partitions": [answer(2, "follower")]}, 3: None}
    grid = grid_of("orders", statuses)
    assert [(each["partition"], each["leader"]) for each in grid] == [(0, 1), (1, -1)]
    assert "fetches" not in grid[0]


def test_of_apache_kafka_the_ends_come_from_the_log_directories_and_the_reason_is_not_known() -> None:
    part = PartitionDescription(
        partition_index=0, leader_id=1, leader_epoch=4, replica_nodes=[1, 2, 3], isr_nodes=[1, 2]
    )
    logs = {1: Replica(500, 0), 2: Replica(490, 3), 3: None}
    found = drawn("orders", part, 10, 100, logs, [(0, 10), (4, 60)])
    assert [each["log_end"] for each in found["lanes"]] == ["100", "97", None]
    assert [each["why"] for each in found["lanes"]] == [None, None, "Kafka does not tell"]
    assert found["fetches"] is None and found["changes"] is None and found["epochs"][1]["start"] == "60"
