"""What the console makes of a cluster over time: health, changes, rates, lag."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.console.discovery import Node, Nodes, endpoint
from highwater.console.lag_history import KEPT_SECONDS, MOST_POINTS, LagHistory
from highwater.console.node_status import Status
from highwater.console.overview import (
    active_controller,
    fenced_brokers,
    kafka_node_rows,
    kafka_partition_counts,
    node_rows,
    partition_counts,
    verdict,
)
from highwater.console.paced import Paced, period
from highwater.console.rates import BYTES_IN, LOG_SIZE, Rates, totals
from highwater.console.timeline import NO_REASON, Leadership, Timeline
from highwater.model import Endpoint
from highwater.wire.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic

WHOLE = {"leaderless": 0, "under_min_isr": 0, "failed_logs": 0, "under_replicated": 0}


def status(node: int, *, fenced: tuple[int, ...] = (), leader: int = 1, epoch: int = 1, **summary: int) -> Status:
    counted = {"partitions": 4, "leaders": 2, "under_replicated": 0, "under_min_isr": 0, "offline": 0} | summary
    return {
        "node": node,
        "quorum": {"role": "Leader" if node == leader else "Follower", "leader": leader, "epoch": epoch},
        "standing": "active",
        "metadata_offset": epoch,
        "leaderless": [],
        "brokers": [{"id": each, "fenced": each in fenced} for each in (1, 2, 3)],
        "summary": counted,
    }


def nodes() -> Nodes:
    return Nodes("c", -1, {each: Node(each, ("broker", "controller"), f"h:{each}") for each in (1, 2, 3)})


def test_a_node_that_does_not_answer_is_down_and_one_that_does_may_be_fenced() -> None:
    statuses = {1: status(1, fenced=(2,)), 2: status(2, fenced=(2,)), 3: None}
    rows = node_rows(nodes(), statuses, fenced_brokers(statuses))
    assert [each["state"] for each in rows] == ["up", "fenced", "down"]
    assert [each["is_active_controller"] for each in rows] == [True, False, False]


def test_the_newest_epoch_says_who_the_active_controller_is() -> None:
    assert active_controller({1: status(1, leader=1, epoch=1), 2: status(2, leader=2, epoch=5), 3: None}) == 2
    assert active_controller({1: None}) is None


def test_the_counts_of_all_leaders_are_summed() -> None:
    statuses = {1: status(1, under_replicated=1), 2: status(2, under_min_isr=1, under_replicated=2), 3: None}
    statuses[2]["leaderless"] = [{"topic": "orders", "partition": 7}]
    statuses[2]["metadata_offset"] = 9
    found = partition_counts(statuses)
    assert (found["under_replicated"], found["under_min_isr"], found["partitions"]) == (3, 1, 5)
    assert found["without_leader"] == ["orders-7"]


def test_a_list_of_all_partitions_is_counted_as_the_summary_would_be() -> None:
    listed = status(1)
    del listed["summary"]
    led = {"role": "leader", "isr": [1], "replicas": [1, 2], "min_isr": 2, "offline": None}
    listed["partitions"] = [led, {"role": "follower", "offline": "failed"}]
    assert partition_counts({1: listed}) == {
        "partitions": 1, "under_replicated": 1, "under_min_isr": 1, "failed_logs": 1, "leaderless": 0,
        "without_leader": [],
    }  # fmt: skip


def test_apache_kafka_is_counted_from_its_metadata() -> None:
    parts = [
        MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1]),
        MetadataResponsePartition(
            partition_index=1, leader_id=-1, replica_nodes=[1], isr_nodes=[], offline_replicas=[1]
        ),
    ]
    found = kafka_partition_counts([MetadataResponseTopic(name="t", partitions=parts)])
    assert (found["under_replicated"], found["leaderless"], found["failed_logs"]) == (2, 1, 1)
    assert found["without_leader"] == ["t-1"] and found["under_min_isr"] is None


def test_a_broker_of_apache_kafka_is_up_if_the_metadata_lists_it_and_a_controller_is_not_told_to_be_down() -> None:
    parts = [MetadataResponsePartition(leader_id=1, replica_nodes=[1, 2], isr_nodes=[1])]
    known = (Node(1, ("broker", "controller"), "h:1"), Node(2, ("broker",), "h:2"), Node(101, ("controller",), ""))
    found = {each.id: each for each in known}
    rows = kafka_node_rows(
        Nodes("c", 1, found, voters=(1, 101)), {1}, [MetadataResponseTopic(name="t", partitions=parts)]
    )
    assert [(each["id"], each["state"], each["quorum"]) for each in rows] == [
        (1, "up", "Voter"), (2, "down", None), (101, "up", "Voter")
    ]  # fmt: skip
    assert [(each["leaders"], each["partitions"]) for each in rows] == [(1, 1), (0, 1), (None, None)]
    assert [each["is_active_controller"] for each in rows] == [True, False, False]


@pytest.mark.parametrize(
    "down, counts, word, part",
    [((), {}, "healthy", "all replicas are in sync"),
     ((2,), {"under_replicated": 3}, "degraded", "Node 2 not up; 3 partitions under-replicated"),
     ((), {"leaderless": 1}, "critical", "1 partition without a leader"),
     ((), {"under_min_isr": 2}, "critical", "below min.insync.replicas"),
     ((1, 2, 3), {}, "unreachable", "No node answers")],
)  # fmt: skip
def test_the_verdict_is_one_word_and_one_sentence(
    down: tuple[int, ...], counts: dict[str, int], word: str, part: str
) -> None:
    rows: list[dict[str, Any]] = [{"id": each, "state": "down" if each in down else "up"} for each in (1, 2, 3)]
    found = verdict(rows, WHOLE | counts, True)
    assert found["word"] == word and part in found["sentence"]


def test_a_decision_that_is_seen_again_is_one_change() -> None:
    timeline = Timeline()
    for late in (0.0, 1.0, 2.0):
        timeline.note_decisions(1000.0 + late, [{"seconds_ago": 5.0 + late, "what": "broker 2 fenced: it is silent"}])
    timeline.note_decisions(1010.0, [{"seconds_ago": 0.0, "what": "broker 2 fenced: it is silent"}])
    found = timeline.newest(10)
    assert [each["at"] for each in found] == ["1010000", "995000"]
    assert found[0]["what"] == "broker 2 fenced" and found[0]["reason"] == "it is silent"


@pytest.mark.parametrize(
    "text, kind",
    [("broker 2 fenced: it refused two connections", "trouble"), ("broker 2 unfenced: caught up", "recovery"),
     ("orders-0 elected 3 for epoch 1 from the ISR; ISR 2,3,1 -> 3,1: leader 2 was fenced", "election"),
     ("orders-0 ISR 3,1,2 -> 3,1: 2 last caught up", "trouble"), ("orders-0 ISR 3,1 -> 3,1,2: 2 is back", "recovery"),
     ("orders-1 elected 1 for epoch 7, uncleanly: lost", "trouble"), ("broker 1 registered: first", "other")],
)  # fmt: skip
def test_a_change_has_a_kind_for_its_colour(text: str, kind: str) -> None:
    timeline = Timeline()
    timeline.note(1.0, text)
    assert timeline.newest(1)[0]["kind"] == kind


def test_a_cluster_without_decisions_shows_what_differs_and_no_reason() -> None:
    timeline = Timeline()
    before = {"t-0": Leadership(1, (1, 2)), "t-1": Leadership(2, (2, 1))}
    timeline.note_difference(5.0, before, {"t-0": Leadership(2, (2,)), "t-1": Leadership(2, (1, 2))})
    timeline.note_brokers(6.0, {1, 2}, {2, 3})
    found = timeline.newest(10)
    assert {each["what"] for each in found} == {
        "t-0 is led by 2, before by 1", "t-0 ISR 1,2 -> 2", "broker 1 is gone", "broker 3 is there"
    }  # fmt: skip
    assert {each["reason"] for each in found} == {NO_REASON}


def test_rates_are_the_growth_of_counters_and_a_restart_counts_from_zero() -> None:
    rates = Rates()
    rates.note(10.0, {"a": 100})
    assert rates.total is None
    rates.note(12.0, {"a": 300, "b": 7})
    assert rates.now == {"a": 100.0, "b": 0.0}
    rates.note(13.0, {"a": 40, "b": 7})
    assert rates.now["a"] == 40.0 and rates.total == 40.0


def test_metrics_are_summed_over_nodes_and_topics() -> None:
    text = '# TYPE x\nkafka_log_log_size{topic="t",partition="0"} 7\nother{topic="t"} 1\n'
    text += 'kafka_server_brokertopicmetrics_bytesin_total{topic="t"} 1e3\n'
    found = totals([text, text, None])
    assert found[LOG_SIZE] == {"t": 14} and found[BYTES_IN] == {"t": 2000}


def test_the_history_of_lag_is_bounded_and_goes_back_for_hours() -> None:
    history = LagHistory()
    for at in range(0, 2 * int(KEPT_SECONDS), 10):
        history.note(float(at), "g", {"t-0": at})
    points = history.of("g")
    assert len(points) <= MOST_POINTS and points[-1][1] == str(2 * int(KEPT_SECONDS) - 10)
    assert int(points[0][0]) <= (KEPT_SECONDS + 900) * 1000
    assert history.of("g", "t-0")[-1] == points[-1]
    history.keep_only({"other"})
    assert history.of("g") == []


def test_a_question_is_asked_when_it_is_due_and_less_often_if_the_answer_is_large() -> None:
    now, asked = [0.0], []
    paced = Paced(lambda: asked.append(now[0]) or len(asked), lambda: period(1.0, 500, 100), lambda: now[0])
    for at in (0.0, 1.0, 4.9, 5.0, 9.0, 10.0):
        now[0] = at
        paced.value()
    assert asked == [0.0, 5.0, 10.0]


def test_the_address_of_status_takes_the_brokers_host_where_it_listens_everywhere() -> None:
    assert endpoint("127.0.0.1:9100", "broker1") == Endpoint("127.0.0.1", 9100)
    assert endpoint("0.0.0.0:9100", "broker1") == Endpoint("broker1", 9100)
    assert endpoint("[::1]:9100", "broker1") == Endpoint("::1", 9100)
    assert endpoint(None, "x") is None and endpoint("", "x") is None and endpoint("a:0", "x") is None
