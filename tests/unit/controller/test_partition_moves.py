"""Reassignments (KIP-455): what a target makes of a partition, when it is reached, and what a cancellation restores."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from highwater.controller.alter_partition import alter_partition
from highwater.controller.brokers import unfence_broker
from highwater.controller.partition_moves import alter_partition_reassignments, list_partition_reassignments
from highwater.errors import Code
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.pieces import whole
from highwater.metadata.topics import Recovery
from highwater.model import NodeId
from highwater.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from highwater.wire.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.unit.controller.clusters import (
    cluster,
    directory,
    epoch,
    fence,
    node_config,
    partition,
    then,
    topic_id,
    with_topic,
)

CONFIG = node_config()


def decide(
    head: MetadataImage, *targets: Sequence[int] | None, index: int = 0, may_change_factor: bool = True
) -> tuple[MetadataImage, list[int]]:
    """The image after one request with these targets for the same partition, and the codes of its answer."""
    rows = [
        ReassignablePartition(partition_index=index, replicas=None if target is None else list(target))
        for target in targets
    ]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="a", partitions=rows)], allow_replication_factor_change=may_change_factor
    )
    decision = whole(alter_partition_reassignments(head, request, CONFIG))
    codes = [row.error_code for topic in decision.response.responses for row in topic.partitions]
    return then(head, decision.records), codes


def moved(head: MetadataImage, target: Sequence[int] | None) -> MetadataImage:
    after, codes = decide(head, target)
    assert codes == [Code.NONE]
    return after


def in_sync(head: MetadataImage, *isr: int) -> MetadataImage:
    """After the leader's proposal of this ISR."""
    found = head.topics.partition("a", 0)
    assert found is not None
    asked = PartitionData(
        partition_index=0,
        leader_epoch=found.leader_epoch,
        partition_epoch=found.partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=epoch(each)) for each in isr],
    )
    request = AlterPartitionRequest(
        broker_id=found.leader,
        broker_epoch=epoch(found.leader),
        topics=[TopicData(topic_id=topic_id("a"), partitions=[asked])],
    )
    decision = alter_partition(head, request, 3, CONFIG)
    assert decision.response.topics[0].partitions[0].error_code in (Code.NONE, Code.NEW_LEADER_ELECTED)
    return then(head, decision.records)


def shape(head: MetadataImage) -> tuple[object, ...]:
    found = partition(head, "a")
    return found["replicas"], found["adding"], found["removing"], found["isr"], found["leader"]


def begun() -> MetadataImage:
    return with_topic(cluster(1, 2, 3, 4, 5, elr=True), "a", [1, 2, 3])


def test_during_a_move_the_replicas_are_those_of_the_target_and_then_those_to_be_removed() -> None:
    after = moved(begun(), [5, 2, 4])
    assert shape(after) == ((5, 2, 4, 1, 3), (4, 5), (1, 3), (1, 2, 3), 1)
    found = partition(after, "a")
    assert found["directories"] == tuple(directory(broker) for broker in (5, 2, 4, 1, 3))
    assert (found["leader_epoch"], found["partition_epoch"]) == (5, 8), "nobody was removed yet"


def test_a_move_ends_when_all_added_replicas_are_in_sync_and_a_leader_that_is_removed_is_replaced() -> None:
    after = in_sync(moved(begun(), [5, 2, 4]), 1, 2, 3, 4)
    assert shape(after) == ((5, 2, 4, 1, 3), (4, 5), (1, 3), (1, 2, 3, 4), 1)
    after = in_sync(after, 1, 2, 3, 4, 5)
    assert shape(after) == ((5, 2, 4), (), (), (2, 4, 5), 5)
    assert partition(after, "a")["leader_epoch"] == 6
    assert partition(after, "a")["directories"] == tuple(directory(broker) for broker in (5, 2, 4))


def test_a_new_order_of_the_same_replicas_needs_no_move() -> None:
    after = moved(begun(), [3, 1, 2])
    assert shape(after) == ((3, 1, 2), (), (), (1, 2, 3), 1)
    assert partition(after, "a")["leader_epoch"] == 5
    again, codes = decide(after, [3, 1, 2])
    assert codes == [Code.NONE]
    assert partition(again, "a") == partition(after, "a"), "that is no news"


def test_a_lower_replication_factor_is_reached_at_once_if_the_replicas_that_stay_are_in_sync() -> None:
    after = moved(begun(), [2, 3])
    assert shape(after) == ((2, 3), (), (), (2, 3), 2)
    lagging = with_topic(cluster(1, 2, 3, elr=True), "a", [1, 2, 3], isr=[1, 3])
    after = moved(lagging, [1, 2])
    assert shape(after) == ((1, 2, 3), (), (3,), (1, 3), 1), "2 would be missing from the ISR"
    assert shape(in_sync(after, 1, 2, 3)) == ((1, 2), (), (), (1, 2), 1)


def test_a_removed_replica_raises_the_leader_epoch_though_the_leader_stays() -> None:
    after = moved(begun(), [1, 2])
    assert shape(after) == ((1, 2), (), (), (1, 2), 1)
    assert partition(after, "a")["leader_epoch"] == 6


def test_a_higher_replication_factor_waits_for_the_added_replicas_alone() -> None:
    after = moved(begun(), [1, 2, 3, 4])
    assert shape(after) == ((1, 2, 3, 4), (4,), (), (1, 2, 3), 1)
    assert shape(in_sync(after, 1, 4)) == ((1, 2, 3, 4), (), (), (1, 4), 1)


def test_a_new_target_takes_the_place_of_one_that_is_under_way() -> None:
    first = moved(begun(), [1, 2, 4])
    second = moved(first, [1, 2, 5])
    assert shape(second) == ((1, 2, 5, 3, 4), (4, 5), (3, 4), (1, 2, 3), 1), "4 was not there before"
    assert shape(in_sync(second, 1, 2, 3, 4, 5)) == ((1, 2, 5), (), (), (1, 2, 5), 1)
    assert shape(moved(first, [2, 3, 4])) == ((2, 3, 4, 1), (4,), (1,), (1, 2, 3), 1), "4 is still being added"
    back = moved(first, [1, 2, 3])
    assert shape(back) == ((1, 2, 3), (), (), (1, 2, 3), 1), "4 has nothing that is needed"
    assert partition(back, "a")["leader_epoch"] == 6


def test_a_cancelled_move_leaves_the_replicas_that_the_partition_had() -> None:
    moving = in_sync(moved(begun(), [5, 2, 4]), 1, 2, 3, 4)
    after = moved(moving, None)
    replicas, *rest = shape(after)
    assert isinstance(replicas, tuple) and sorted(replicas) == [1, 2, 3]
    assert rest == [(), (), (1, 2, 3), 1]
    assert partition(after, "a")["leader_epoch"] == 6, "4 and 5 are excluded"


def test_a_cancelled_move_that_had_several_targets_leaves_the_replicas_that_the_partition_had() -> None:
    """A replica of an earlier target that is not in the last one is to be removed, and had no copy before."""
    first = moved(begun(), [1, 4, 5])
    for before in (first, in_sync(first, 1, 2, 3, 4)):
        after = moved(moved(moved(before, [1, 2, 5]), [5, 3, 1]), None)
        replicas, *rest = shape(after)
        assert isinstance(replicas, tuple) and sorted(replicas) == [1, 2, 3]
        assert rest == [(), (), (1, 2, 3), 1]


def test_a_move_that_had_another_target_before_waits_for_the_same_replicas_as_without_it() -> None:
    """1 is dead and stays a replica. 4 was only a target for a while, so the replication factor does not fall."""
    two = fence(with_topic(cluster(1, 2, 3, 4), "a", [1, 2], isr=[2], leader=2), 1)
    direct = in_sync(moved(two, [1, 3]), 2, 3)
    after = in_sync(moved(moved(two, [3, 4]), [1, 3]), 2, 3)
    assert shape(direct) == shape(after) == ((1, 3), (), (), (3,), 3)


def test_a_cancelled_move_replaces_a_leader_that_was_being_added() -> None:
    moving = with_topic(
        cluster(1, 2, 3), "a", [3, 2, 1], isr=[3, 2], leader=3, adding_replicas=[3], removing_replicas=[1]
    )
    assert shape(moved(moving, None)) == ((2, 1), (), (), (2,), 2)


def test_a_cancellation_that_would_leave_nobody_in_the_isr_needs_unclean_elections() -> None:
    moving = with_topic(cluster(1, 2, 3), "a", [3, 2, 1], isr=[3], leader=3, adding_replicas=[3], removing_replicas=[1])
    after, codes = decide(moving, None)
    assert codes == [Code.INVALID_REPLICA_ASSIGNMENT]
    assert shape(after) == shape(moving)
    unclean = ConfigRecord(resource_type=2, resource_name="a", name="unclean.leader.election.enable", value="true")
    assert shape(moved(then(moving, [unclean]), None)) == ((2, 1), (), (), (2,), 2)


@pytest.mark.parametrize("unclean", ["false", "true"])
def test_a_cancellation_that_would_leave_the_isr_empty_elects_a_live_replica_of_the_elr(unclean: str) -> None:
    """4 was added and leads alone. 2 has every acknowledged record, and 1 has not."""
    settings = {"min.insync.replicas": "2", "unclean.leader.election.enable": unclean}
    records = [ConfigRecord(resource_type=2, resource_name="a", name=n, value=v) for n, v in settings.items()]
    moving = with_topic(
        cluster(1, 2, 4, 5, elr=True),
        "a",
        [4, 5, 1, 2],
        isr=[4],
        leader=4,
        adding_replicas=[4, 5],
        removing_replicas=[1, 2],
        eligible_leader_replicas=[2],
    )
    after = moved(then(moving, records), None)
    assert (shape(after), partition(after, "a")["recovery"]) == (((1, 2), (), (), (2,), 2), Recovery.RECOVERED)
    dead = fence(then(moving, records), 2)
    after, codes = decide(dead, None)
    if unclean == "false":
        assert codes == [Code.INVALID_REPLICA_ASSIGNMENT]
        assert shape(after) == shape(moving)
    else:
        assert (shape(after), codes) == (((1, 2), (), (), (1,), 1), [Code.NONE])


def test_a_move_ends_with_the_election_of_a_leader_from_the_elr_if_it_waits_for_no_other_replica() -> None:
    """1 stays and comes back. 3 is to be removed, and will never come back."""
    moving = with_topic(
        fence(cluster(1, 3, elr=True), 1, 3),
        "a",
        [1, 3],
        isr=[],
        leader=-1,
        removing_replicas=[3],
        eligible_leader_replicas=[1, 3],
    )
    two = ConfigRecord(resource_type=2, resource_name="a", name="min.insync.replicas", value="2")
    head = then(moving, [two])
    after = then(head, unfence_broker(head, CONFIG, NodeId(1), epoch(1)))
    assert (shape(after), partition(after, "a")["elr"]) == (((1,), (), (), (1,), 1), ())


def test_a_removed_replica_leaves_the_elr_and_the_last_known_leaders() -> None:
    two = ConfigRecord(resource_type=2, resource_name="a", name="min.insync.replicas", value="2")
    head = with_topic(cluster(1, 2, 3, elr=True), "a", [1, 2, 3], isr=[1], eligible_leader_replicas=[3])
    after = moved(then(head, [two]), [1])
    assert (shape(after), partition(after, "a")["elr"]) == (((1,), (), (), (1,), 1), ())
    three = ConfigRecord(resource_type=2, resource_name="a", name="min.insync.replicas", value="3")
    few = with_topic(cluster(1, 2, 3, 4, elr=True), "a", [1, 2, 3], isr=[1, 3], eligible_leader_replicas=[2])
    after = in_sync(moved(then(few, [three]), [1, 2, 4]), 1, 3, 4)
    assert (shape(after), partition(after, "a")["elr"]) == (((1, 2, 4), (), (), (1, 4), 1), (2,)), "without 3"
    alone = with_topic(
        fence(cluster(1, 2, 3, elr=True), 3),
        "a",
        [1, 2, 3],
        isr=[],
        leader=-1,
        last_known_elr=[3],
        adding_replicas=[3],
    )
    unclean = ConfigRecord(resource_type=2, resource_name="a", name="unclean.leader.election.enable", value="true")
    after = moved(then(alone, [unclean]), None)
    assert partition(after, "a")["last_known_elr"] == ()


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ([], Code.INVALID_REPLICA_ASSIGNMENT),
        ([1, 2, 1], Code.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], Code.INVALID_REPLICA_ASSIGNMENT),
        (None, Code.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_a_move_that_makes_no_sense_is_refused(target: list[int] | None, code: Code) -> None:
    after, codes = decide(begun(), target)
    assert codes == [code]
    assert shape(after) == shape(begun())


def test_a_partition_that_does_not_exist_is_refused() -> None:
    assert decide(begun(), [1], index=1)[1] == [Code.UNKNOWN_TOPIC_OR_PARTITION]
    assert decide(cluster(1), [1])[1] == [Code.UNKNOWN_TOPIC_OR_PARTITION]


def test_the_name_of_a_topic_that_does_not_exist_is_not_repeated_at_length_for_each_partition() -> None:
    rows = [ReassignablePartition(partition_index=index, replicas=[1]) for index in range(100)]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="x" * 32_000, partitions=rows)])
    (answer,) = whole(alter_partition_reassignments(cluster(1), request, CONFIG)).response.responses
    assert {row.error_code for row in answer.partitions} == {Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert all(len(row.error_message or "") < 300 for row in answer.partitions)


def test_a_partition_that_is_named_twice_is_moved_once() -> None:
    after, codes = decide(begun(), [1, 2, 4], [1, 2, 5])
    assert codes == [Code.NONE, Code.INVALID_REQUEST]
    assert shape(after) == ((1, 2, 4, 3), (4,), (3,), (1, 2, 3), 1)


def test_the_replication_factor_changes_only_if_the_request_allows_it() -> None:
    assert decide(begun(), [1, 2], may_change_factor=False)[1] == [Code.INVALID_REPLICATION_FACTOR]
    after, codes = decide(begun(), [1, 2, 4], may_change_factor=False)
    assert codes == [Code.NONE]
    assert decide(after, [1, 2, 3, 4], may_change_factor=False)[1] == [Code.INVALID_REPLICATION_FACTOR]
    assert decide(after, [1, 2, 5], may_change_factor=False)[1] == [Code.NONE]


def test_moves_are_listed_and_partitions_that_do_not_move_are_not() -> None:
    head = with_topic(moved(begun(), [1, 2, 4]), "b", [1, 2])

    def listed(topics: list[ListPartitionReassignmentsTopics] | None) -> list[tuple[str, int, list[int]]]:
        request = ListPartitionReassignmentsRequest(topics=topics)
        response = whole(list_partition_reassignments(head, request)).response
        return [
            (topic.name, row.partition_index, row.replicas) for topic in response.topics for row in topic.partitions
        ]

    assert listed(None) == [("a", 0, [1, 2, 4, 3])]
    assert listed([]) == []
    names = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 1]) for name in ("a", "b", "c")]
    assert listed(names) == [("a", 0, [1, 2, 4, 3])]
