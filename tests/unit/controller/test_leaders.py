from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from highwater.controller.decision import MAX_RECORDS
from highwater.controller.leaders import elect_leaders, elect_unclean, rebalance, rebalance_interval, unclean_interval
from highwater.errors import Code
from highwater.metadata.brokers import DIRECTORY_LOST
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.pieces import whole
from highwater.metadata.topics import Recovery
from highwater.wire.codec import Message
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from tests.unit.controller.clusters import cluster, directory, fence, node_config, partition, then, topic_id, with_topic
from tests.unit.controller.test_directories import assign

CONFIG = node_config()
PREFERRED, UNCLEAN = 0, 1


def elected(
    head: MetadataImage, kind: int, *asked: tuple[str, list[int]]
) -> tuple[list[tuple[str, int, int]], list[Message]]:
    """(topic, partition, code) of each that the answer names, and the records."""
    named = [TopicPartitions(topic=name, partitions=indexes) for name, indexes in asked]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=named or None)
    decision = whole(elect_leaders(head, request, CONFIG))
    assert decision.response.error_code == Code.NONE
    answers = [
        (topic.topic, result.partition_id, result.error_code)
        for topic in decision.response.replica_election_results
        for result in topic.partition_result
    ]
    return answers, list(decision.records)


def leads(index: int, leader: int, name: str = "a", **fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=topic_id(name), partition_id=index, leader=leader, **fields)


def test_preferred_leaders_are_elected_where_they_can_lead() -> None:
    head = with_topic(cluster(1, 2, 3), "a", [1, 2, 3], [2, 3, 1], [3, 1, 2], isr=[1, 2, 3], leader=2)
    answers, records = elected(fence(head, 3), PREFERRED, ("a", [0, 1, 2, 9]), ("b", [0]))
    assert answers == [
        ("a", 0, Code.NONE),
        ("a", 1, Code.ELECTION_NOT_NEEDED),
        ("a", 2, Code.PREFERRED_LEADER_NOT_AVAILABLE),
        ("a", 9, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("b", 0, Code.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert records == [leads(0, 1)]


def test_a_preferred_replica_outside_the_isr_is_not_elected() -> None:
    head = with_topic(cluster(1, 2), "a", [1, 2], isr=[2])
    assert elected(head, PREFERRED, ("a", [0])) == ([("a", 0, Code.PREFERRED_LEADER_NOT_AVAILABLE)], [])


def test_an_election_for_all_partitions_answers_only_for_those_that_needed_one() -> None:
    head = with_topic(with_topic(cluster(1, 2), "a", [1, 2]), "b", [1, 2], leader=2)
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None)
    decision = whole(elect_leaders(head, request, CONFIG))
    assert [
        (topic.topic, [result.partition_id for result in topic.partition_result])
        for topic in decision.response.replica_election_results
    ] == [("a", []), ("b", [0])]
    assert decision.records == [leads(0, 1, "b")]


def test_an_unclean_election_that_is_asked_for_needs_no_setting_and_gives_up_what_only_others_had() -> None:
    head = fence(with_topic(cluster(1, 2), "a", [1, 2], isr=[1], leader=-1), 1)
    answers, records = elected(head, UNCLEAN, ("a", [0]))
    assert answers == [("a", 0, Code.NONE)]
    assert records == [leads(0, 2, isr=[2], leader_recovery_state=int(Recovery.RECOVERING))]
    assert elected(then(head, records), UNCLEAN, ("a", [0])) == ([("a", 0, Code.ELECTION_NOT_NEEDED)], [])
    nobody = fence(head, 2)
    assert elected(nobody, UNCLEAN, ("a", [0])) == ([("a", 0, Code.ELIGIBLE_LEADERS_NOT_AVAILABLE)], [])


def test_an_unclean_election_prefers_a_replica_that_lost_nothing() -> None:
    head = with_topic(
        cluster(1, 2, 3, elr=True), "a", [1, 2, 3], isr=[], leader=-1, eligible_leader_replicas=[3], last_known_elr=[1]
    )
    _, records = elected(head, UNCLEAN, ("a", [0]))
    after = partition(then(head, records), "a")
    assert (after["leader"], after["isr"], after["elr"], after["recovery"]) == (3, (3,), (), Recovery.RECOVERED)


def test_the_name_of_a_topic_that_does_not_exist_is_cut_in_the_answer_for_each_partition() -> None:
    named = TopicPartitions(topic="x" * 32_000, partitions=list(range(100)))
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=[named])
    (answer,) = whole(elect_leaders(cluster(1), request, CONFIG)).response.replica_election_results
    assert {row.error_code for row in answer.partition_result} == {Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert all(len(row.error_message or "") < 300 for row in answer.partition_result)


def test_an_unknown_kind_of_election_is_refused_for_each_partition() -> None:
    request = ElectLeadersRequest(election_type=7, topic_partitions=[TopicPartitions(topic="a", partitions=[0, 1])])
    response = whole(elect_leaders(cluster(1), request, CONFIG)).response
    assert response.error_code == Code.INVALID_REQUEST
    assert [result.error_code for result in response.replica_election_results[0].partition_result] == [42, 42]


def test_an_election_with_more_records_than_a_batch_holds_is_refused() -> None:
    head = with_topic(cluster(1, 2), "a", *[[1, 2]] * (MAX_RECORDS + 1), leader=2)
    decision = whole(elect_leaders(head, ElectLeadersRequest(topic_partitions=None), CONFIG))
    assert decision.response.error_code == Code.POLICY_VIOLATION
    assert not decision.records


def test_after_a_broker_came_back_leaderships_are_given_back_to_it() -> None:
    head = with_topic(cluster(1, 2, 3), "a", [1, 2, 3], [2, 3, 1], [3, 1, 2], isr=[1, 2, 3], leader=2)
    assert rebalance(head, CONFIG) == [leads(0, 1), leads(2, 3)]
    after = then(head, rebalance(head, CONFIG))
    assert Counter(p.leader for _, _, p in after.topics.each_partition()) == {1: 1, 2: 1, 3: 1}
    assert rebalance(after, CONFIG) == []
    assert rebalance(fence(head, 1), CONFIG) == [leads(2, 3)]
    assert rebalance(head, node_config(auto_leader_rebalance_enable="false")) == []


def test_one_round_moves_no_more_than_its_limit_and_skips_what_cannot_move() -> None:
    head = with_topic(cluster(1, 2), "a", *[[1, 2]] * 5, leader=2)
    head = with_topic(head, "b", *[[2, 1]] * 5, leader=1)
    head = with_topic(head, "c", *[[3, 1]] * 5, leader=1)
    first = rebalance(head, CONFIG, limit=6)
    assert len(first) == 6
    head = then(head, first)
    assert len(rebalance(head, CONFIG, limit=6)) == 4
    assert rebalance(then(head, rebalance(head, CONFIG)), CONFIG) == []


@pytest.mark.parametrize(
    ("others", "tolerated", "moved"),
    [(9, "0", 1), (9, "9", 1), (9, "10", 0), (9, "100", 0), (8, "10", 1), (8, "11", 1), (8, "12", 0)],
)
def test_a_broker_that_misses_few_of_its_leaderships_may_be_left_alone(others: int, tolerated: str, moved: int) -> None:
    head = with_topic(cluster(1, 2), "a", *[[1, 2]] * others)
    head = with_topic(head, "b", [1, 2], leader=2)
    head = with_topic(head, "c", *[[2, 1]] * 9)
    records = rebalance(head, node_config(leader_imbalance_per_broker_percentage=tolerated))
    assert records == [leads(0, 1, "b")] * moved


def test_partitions_without_a_leader_get_one_where_the_topic_would_rather_lose_records() -> None:
    head = with_topic(cluster(1, 2), "a", [1, 2], [1, 2], isr=[1], leader=-1)
    head = fence(with_topic(head, "b", [1, 2], isr=[1], leader=-1), 1)
    assert elect_unclean(head, CONFIG) == []
    head = then(
        head,
        [ConfigRecord(resource_type=2, resource_name="a", name="unclean.leader.election.enable", value="true")],
    )
    records = elect_unclean(head, CONFIG)
    assert records == [leads(index, 2, isr=[2], leader_recovery_state=1) for index in (0, 1)]
    assert elect_unclean(head, CONFIG, limit=1) == records[:1]
    assert elect_unclean(then(head, records), CONFIG) == []
    everywhere = elect_unclean(head, node_config(unclean_leader_election_enable="true"))
    assert [r.topic_id for r in everywhere if isinstance(r, PartitionChangeRecord)] == [
        topic_id("a"),
        topic_id("a"),
        topic_id("b"),
    ]


def test_the_rounds_come_at_their_intervals() -> None:
    config = node_config(leader_imbalance_check_interval_seconds="7", unclean_leader_election_interval_ms="1500")
    assert (rebalance_interval(config), unclean_interval(config)) == (7.0, 1.5)
    assert (rebalance_interval(CONFIG), unclean_interval(CONFIG)) == (300.0, 300.0)


def without_log(head: MetadataImage, *brokers: int) -> MetadataImage:
    for broker in brokers:
        head = then(head, assign(head, 0, to=DIRECTORY_LOST, broker=broker).records)
    return head


@pytest.mark.parametrize("elr", [False, True])
def test_a_partition_whose_replicas_have_all_lost_their_logs_begins_anew_when_that_is_asked_for(elr: bool) -> None:
    head = without_log(with_topic(cluster(1, 2, 3, elr=elr), "a", [1, 2], leader=1), 2, 1)
    assert partition(head, "a")["leader"] == -1
    answers, records = elected(head, UNCLEAN, ("a", [0]))
    assert answers == [("a", 0, Code.NONE)]
    after = partition(then(head, records), "a")
    assert (after["leader"], after["isr"], after["directories"]) == (1, (1,), (directory(1), DIRECTORY_LOST))
    assert after["recovery"] == Recovery.RECOVERING
    assert (after["elr"], after["last_known_elr"]) == ((), ())


def test_a_preferred_election_never_restarts_a_partition_empty() -> None:
    head = without_log(with_topic(cluster(1, 2), "a", [1], leader=1), 1)
    assert elected(head, PREFERRED, ("a", [0])) == ([("a", 0, Code.PREFERRED_LEADER_NOT_AVAILABLE)], [])


def test_a_partition_whose_lost_replicas_are_all_away_cannot_begin_anew() -> None:
    head = fence(without_log(with_topic(cluster(1, 2), "a", [1], leader=1), 1), 1)
    assert elected(head, UNCLEAN, ("a", [0])) == ([("a", 0, Code.ELIGIBLE_LEADERS_NOT_AVAILABLE)], [])


def test_a_partition_does_not_begin_anew_while_a_whole_copy_is_only_away() -> None:
    """1 has lost its log; 2, alone in sync, has all of it and is down for a moment."""
    head = without_log(with_topic(cluster(1, 2), "a", [1, 2], leader=1, isr=[1, 2]), 1)
    head = then(fence(head, 2), [leads(0, -1)])
    assert partition(head, "a")["isr"] == (2,)
    assert elected(head, UNCLEAN, ("a", [0])) == ([("a", 0, Code.ELIGIBLE_LEADERS_NOT_AVAILABLE)], [])
