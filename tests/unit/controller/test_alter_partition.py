from __future__ import annotations

from typing import Any

import pytest

from highwater.controller.alter_partition import alter_partition
from highwater.controller.decision import Decision
from highwater.controller.reassignment import assignment_of, completed
from highwater.errors import Code
from highwater.metadata.brokers import DIRECTORY_LOST
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.topics import Recovery
from highwater.wire.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from highwater.wire.messages.alter_partition_response import AlterPartitionResponse
from highwater.wire.messages.alter_partition_response import PartitionData as Answer
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from tests.unit.controller.clusters import (
    cluster,
    directory,
    epoch,
    fence,
    node_config,
    nodes,
    partition,
    registered,
    then,
    topic_id,
    with_topic,
)

CONFIG = node_config()
HEAD = with_topic(cluster(1, 2, 3, 4), "a", [1, 2, 3])
"""Leader epoch 5, partition epoch 7."""


def proposal(*isr: int, **fields: Any) -> PartitionData:
    """As the leader of `HEAD` would send it."""
    states = [BrokerState(broker_id=broker, broker_epoch=epoch(broker)) for broker in isr]
    defaults: dict[str, Any] = {"leader_epoch": 5, "partition_epoch": 7, "new_isr_with_epochs": states}
    return PartitionData(**{**defaults, **fields})


def propose(
    head: MetadataImage, *proposals: PartitionData, leader: int = 1, name: str = "a", version: int = 3
) -> Decision[AlterPartitionResponse]:
    request = AlterPartitionRequest(
        broker_id=leader,
        broker_epoch=epoch(leader),
        topics=[TopicData(topic_id=topic_id(name), partitions=list(proposals))],
    )
    return alter_partition(head, request, version, CONFIG)


def answer(decision: Decision[AlterPartitionResponse]) -> Answer:
    assert decision.response.error_code == Code.NONE
    return decision.response.topics[0].partitions[0]


def test_the_isr_shrinks_and_grows_and_the_answer_says_what_is_in_force_then() -> None:
    shrunk = propose(HEAD, proposal(1, 2))
    assert shrunk.records == [PartitionChangeRecord(topic_id=topic_id("a"), partition_id=0, isr=[1, 2])]
    assert answer(shrunk) == Answer(leader_id=1, leader_epoch=5, isr=[1, 2], partition_epoch=8)
    grown = propose(then(HEAD, shrunk.records), proposal(1, 2, 3, partition_epoch=8))
    assert answer(grown) == Answer(leader_id=1, leader_epoch=5, isr=[1, 2, 3], partition_epoch=9)


def test_a_proposal_that_changes_nothing_is_answered_without_a_record() -> None:
    same = propose(HEAD, proposal(1, 2, 3))
    assert not same.records
    assert answer(same) == Answer(leader_id=1, leader_epoch=5, isr=[1, 2, 3], partition_epoch=7)


@pytest.mark.parametrize(
    ("asked", "leader", "code"),
    [
        (proposal(1, 2, partition_index=9), 1, Code.UNKNOWN_TOPIC_OR_PARTITION),
        (proposal(1, 2, leader_epoch=6, partition_epoch=6), 2, Code.NOT_CONTROLLER),
        (proposal(1, 2, leader_epoch=4, partition_epoch=8), 2, Code.NOT_CONTROLLER),
        (proposal(1, 2, leader_epoch=4, partition_epoch=6), 2, Code.FENCED_LEADER_EPOCH),
        (proposal(1, 2, partition_epoch=6), 2, Code.INVALID_REQUEST),
        (proposal(9, partition_epoch=6), 1, Code.INVALID_UPDATE_VERSION),
        (proposal(1, 9), 1, Code.INVALID_REQUEST),
        (proposal(1, 4), 1, Code.INVALID_REQUEST),
        (proposal(1, 1), 1, Code.INVALID_REQUEST),
        (proposal(1, -1), 1, Code.INVALID_REQUEST),
        (proposal(2, 3), 1, Code.INVALID_REQUEST),
        (proposal(), 1, Code.INVALID_REQUEST),
        (proposal(1, 2, leader_recovery_state=1), 1, Code.INVALID_REQUEST),
        (proposal(1, leader_recovery_state=1), 1, Code.INVALID_REQUEST),
        (proposal(1, leader_recovery_state=2), 1, Code.INVALID_REQUEST),
    ],
)
def test_checks_come_in_kafkas_order(asked: PartitionData, leader: int, code: Code) -> None:
    decision = propose(HEAD, asked, leader=leader)
    assert answer(decision) == Answer(partition_index=asked.partition_index, error_code=code)
    assert not decision.records
    assert decision.refusal is not None
    assert decision.refusal.code == code
    assert decision.refusal.__traceback__ is None, "it would keep the request in memory"


def test_an_unknown_topic_id_is_answered_for_each_partition() -> None:
    decision = propose(HEAD, proposal(1), proposal(1, partition_index=1), name="b")
    assert [(p.partition_index, p.error_code) for p in decision.response.topics[0].partitions] == [
        (0, Code.UNKNOWN_TOPIC_ID),
        (1, Code.UNKNOWN_TOPIC_ID),
    ]


@pytest.mark.parametrize("broker_epoch", [epoch(1) - 1, epoch(1) + 1, -1])
def test_another_incarnation_of_the_leader_is_refused_as_a_whole(broker_epoch: int) -> None:
    request = AlterPartitionRequest(
        broker_id=1, broker_epoch=broker_epoch, topics=[TopicData(partitions=[proposal(1)])]
    )
    decision = alter_partition(HEAD, request, 3, CONFIG)
    assert decision.response == AlterPartitionResponse(error_code=Code.STALE_BROKER_EPOCH)
    assert not decision.records


def test_a_fenced_leaving_unknown_or_other_incarnation_does_not_join_the_isr() -> None:
    def code(head: MetadataImage, asked: PartitionData, version: int = 3) -> int:
        return answer(propose(head, asked, version=version)).error_code

    alone = with_topic(cluster(1, 2), "a", [1, 2, 3], isr=[1])
    joining = proposal(1, 2)
    assert code(alone, joining) == Code.NONE
    assert code(alone, proposal(1, 3)) == Code.INELIGIBLE_REPLICA
    assert code(fence(alone, 2), joining) == Code.INELIGIBLE_REPLICA
    assert code(then(alone, [registered(2, shutting_down=True)]), joining) == Code.INELIGIBLE_REPLICA
    for other in (epoch(2) - 1, epoch(2) + 1):
        stale = proposal(1)
        stale.new_isr_with_epochs.append(BrokerState(broker_id=2, broker_epoch=other))
        assert code(alone, stale) == Code.INELIGIBLE_REPLICA
    unnamed = proposal(1)
    unnamed.new_isr_with_epochs.append(BrokerState(broker_id=2, broker_epoch=-1))
    assert code(alone, unnamed) == Code.INELIGIBLE_REPLICA
    # Version 2 has no epochs to compare.
    assert code(alone, PartitionData(leader_epoch=5, partition_epoch=7, new_isr=[1, 2]), version=2) == (
        Code.INELIGIBLE_REPLICA
    )


def test_a_refused_proposal_is_not_granted_to_a_late_copy() -> None:
    """Its leader has heard the refusal and commits without this member. The copy was on a connection that it lost."""
    alone = with_topic(cluster(1, 2), "a", [1, 2], isr=[1])
    fenced = fence(alone, 2)
    refused = propose(fenced, proposal(1, 2))
    assert answer(refused).error_code == Code.INELIGIBLE_REPLICA
    back = then(then(fenced, refused.records), [registered(2)])
    assert partition(back, "a")["isr"] == (1,)
    late = propose(back, proposal(1, 2))
    assert (answer(late).error_code, late.records) == (Code.INVALID_UPDATE_VERSION, [])
    assert answer(propose(back, proposal(1, 2, partition_epoch=8))).error_code == Code.NONE


def test_a_member_that_stays_may_be_named_without_its_epoch() -> None:
    """A leader that has just been elected has not heard from all of them yet."""
    whole = with_topic(cluster(1, 2, 3), "a", [1, 2, 3], isr=[1, 2, 3])
    shrunk = proposal(1)
    shrunk.new_isr_with_epochs.append(BrokerState(broker_id=2, broker_epoch=-1))
    assert answer(propose(whole, shrunk)).error_code == Code.NONE
    without_epochs = PartitionData(leader_epoch=5, partition_epoch=7, new_isr=[1, 2])
    assert answer(propose(whole, without_epochs, version=2)).error_code == Code.NONE


def test_a_replica_in_a_lost_or_offline_directory_does_not_join_the_isr() -> None:
    alone = with_topic(cluster(1, 2), "a", [1, 2], isr=[1])
    lost = PartitionChangeRecord(topic_id=topic_id("a"), partition_id=0, directories=[directory(1), DIRECTORY_LOST])
    assert answer(propose(then(alone, [lost]), proposal(1, 2, partition_epoch=8))).error_code == Code.INELIGIBLE_REPLICA
    elsewhere = registered(2)
    elsewhere.log_dirs = [directory(2, 1)]
    assert answer(propose(then(alone, [elsewhere]), proposal(1, 2))).error_code == Code.INELIGIBLE_REPLICA


def test_an_identical_retry_of_a_committed_change_succeeds() -> None:
    asked = proposal(1, 2)
    once = propose(HEAD, asked)
    head = then(HEAD, once.records)
    again = propose(head, asked)
    assert again.response == once.response
    assert not again.records
    # But not what asks for anything else with an epoch that is behind.
    assert answer(propose(head, proposal(1))).error_code == Code.INVALID_UPDATE_VERSION
    assert answer(propose(head, proposal(1, 2, leader_recovery_state=1))).error_code == Code.INVALID_UPDATE_VERSION


def test_the_second_proposal_of_one_request_sees_the_first() -> None:
    decision = propose(HEAD, proposal(1, 2), proposal(1, 3), proposal(1, partition_epoch=8))
    first, second, third = decision.response.topics[0].partitions
    assert (first.isr, second.error_code, third.isr) == ([1, 2], Code.INVALID_UPDATE_VERSION, [1])
    assert third.partition_epoch == partition(then(HEAD, decision.records), "a")["partition_epoch"] == 9


def test_a_leader_that_recovers_says_so_before_any_replica_joins_it() -> None:
    head = with_topic(cluster(1, 2), "a", [1, 2], isr=[1], leader_recovery_state=1)
    assert answer(propose(head, proposal(1, 2, leader_recovery_state=1))).error_code == Code.INVALID_REQUEST
    alone = propose(head, proposal(1, leader_recovery_state=1))
    assert (answer(alone).error_code, alone.records) == (Code.NONE, [])
    recovered = propose(head, proposal(1))
    assert recovered.records == [
        PartitionChangeRecord(topic_id=topic_id("a"), partition_id=0, leader_recovery_state=Recovery.RECOVERED)
    ]
    assert answer(propose(head, proposal(1, 2))).isr == [1, 2]


def test_a_replica_that_leaves_an_isr_below_the_bound_is_eligible_until_the_bound_is_met() -> None:
    head = with_topic(cluster(1, 2, 3, elr=True), "a", [1, 2, 3])
    two = ConfigRecord(resource_type=2, resource_name="a", name="min.insync.replicas", value="2")
    head = then(head, [two])
    head = then(head, propose(head, proposal(1)).records)
    assert (partition(head, "a")["isr"], partition(head, "a")["elr"]) == ((1,), (2, 3))
    head = then(head, propose(head, proposal(1, 3, partition_epoch=8)).records)
    assert (partition(head, "a")["isr"], partition(head, "a")["elr"]) == ((1, 3), ())


def test_a_leader_whose_directory_is_offline_learns_that_another_leads() -> None:
    elsewhere = registered(1)
    elsewhere.log_dirs = [directory(1, 1)]
    head = then(HEAD, [elsewhere])
    decision = propose(head, proposal(1, 2))
    assert answer(decision) == Answer(error_code=Code.NEW_LEADER_ELECTED)
    assert partition(then(head, decision.records), "a")["leader"] == 2


def test_the_change_that_ends_a_reassignment_removes_the_old_replicas_and_may_move_the_leader() -> None:
    moving = with_topic(
        cluster(1, 2, 3), "a", [2, 3, 1], isr=[1, 2], leader=1, adding_replicas=[3], removing_replicas=[1]
    )
    waiting = propose(moving, proposal(1))
    assert partition(then(moving, waiting.records), "a")["replicas"] == (2, 3, 1)
    decision = propose(moving, proposal(1, 2, 3))
    assert answer(decision) == Answer(error_code=Code.NEW_LEADER_ELECTED)
    after = partition(then(moving, decision.records), "a")
    assert (after["replicas"], after["isr"], after["leader"], after["leader_epoch"]) == ((2, 3), (2, 3), 2, 6)
    assert (after["adding"], after["removing"], after["directories"]) == ((), (), (directory(2), directory(3)))


def test_a_leader_that_stays_gets_a_new_epoch_when_replicas_are_removed() -> None:
    moving = with_topic(cluster(1, 2, 3), "a", [1, 3, 2], isr=[1, 2], adding_replicas=[3], removing_replicas=[2])
    decision = propose(moving, proposal(1, 2, 3))
    assert answer(decision) == Answer(leader_id=1, leader_epoch=6, isr=[1, 3], partition_epoch=8)


def test_a_shrinking_reassignment_waits_for_every_replica_that_stays() -> None:
    moving = with_topic(cluster(1, 2, 3), "a", [1, 2, 3], isr=[1, 3], removing_replicas=[3])
    assert partition(then(moving, propose(moving, proposal(1)).records), "a")["replicas"] == (1, 2, 3)
    assert partition(then(moving, propose(moving, proposal(1, 2, 3)).records), "a")["replicas"] == (1, 2)


def test_replicas_that_were_removed_are_not_eligible() -> None:
    two = ConfigRecord(resource_type=2, resource_name="a", name="min.insync.replicas", value="2")
    moving = then(
        with_topic(cluster(1, 2, 3, elr=True), "a", [1, 2, 3], adding_replicas=[2], removing_replicas=[3]), [two]
    )
    after = partition(then(moving, propose(moving, proposal(1, 2, 3)).records), "a")
    assert (after["replicas"], after["isr"], after["elr"]) == ((1, 2), (1, 2), ())
    three = ConfigRecord(resource_type=2, resource_name="a", name="min.insync.replicas", value="3")
    moving = then(moving, [three])
    after = partition(then(moving, propose(moving, proposal(1, 2, 3)).records), "a")
    assert (after["replicas"], after["isr"], after["elr"]) == ((1, 2), (1, 2), ())


def test_a_partition_that_is_not_moved_has_no_move_to_end() -> None:
    found = with_topic(cluster(1, 2), "a", [1, 2]).topics.partition("a", 0)
    assert found is not None
    assert completed(assignment_of(found), nodes(1, 2)) is None
    moving = found._replace(adding=nodes(2))
    assert completed(assignment_of(moving), nodes(1)) is None
    assert completed(assignment_of(moving), nodes(1, 2)) == (nodes(1, 2), [1, 2])
