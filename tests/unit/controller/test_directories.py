from __future__ import annotations

import pytest

from highwater.controller.decision import Decision
from highwater.controller.directories import assign_replicas_to_dirs
from highwater.errors import Code
from highwater.metadata.brokers import DIRECTORY_LOST, DIRECTORY_TROUBLED
from highwater.metadata.cluster import MetadataImage
from highwater.model import Uuid
from highwater.wire.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from highwater.wire.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from tests.unit.controller.clusters import (
    cluster,
    directory,
    epoch,
    node_config,
    partition,
    registered,
    then,
    topic_id,
    with_topic,
)

NEW = directory(2, 1)


def head_with_another_disk(**fields: object) -> MetadataImage:
    """Broker 2 is registered with a directory that no partition names yet."""
    moved = registered(2)
    moved.log_dirs = [NEW]
    return then(with_topic(cluster(1, 2, 3), "a", [1, 2], isr=[1], **fields), [moved])


def assign(
    head: MetadataImage, *indexes: int, to: Uuid = NEW, broker: int = 2, name: str = "a", age: int = 0
) -> Decision[AssignReplicasToDirsResponse]:
    topic = TopicData(topic_id=topic_id(name), partitions=[PartitionData(partition_index=index) for index in indexes])
    request = AssignReplicasToDirsRequest(
        broker_id=broker, broker_epoch=epoch(broker) - age, directories=[DirectoryData(id=to, topics=[topic])]
    )
    return assign_replicas_to_dirs(head, request, node_config())


def codes(decision: Decision[AssignReplicasToDirsResponse]) -> list[int]:
    answered = decision.response.directories[0]
    assert answered.id == NEW
    return [row.error_code for row in answered.topics[0].partitions]


def test_a_replica_is_put_where_its_broker_says_and_nothing_else_changes() -> None:
    head = head_with_another_disk()
    decision = assign(head, 0)
    assert codes(decision) == [Code.NONE]
    assert decision.records == [
        PartitionChangeRecord(topic_id=topic_id("a"), partition_id=0, directories=[directory(1), NEW])
    ]
    after = then(head, decision.records)
    assert partition(after, "a") == {
        **partition(head, "a"),
        "directories": (directory(1), NEW),
        "partition_epoch": 8,
    }
    assert assign(after, 0).records == [], "it is known by now"


def test_partitions_that_are_not_the_brokers_own_are_refused_one_by_one() -> None:
    head = head_with_another_disk()
    assert codes(assign(head, 0, 5)) == [Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION]
    assert codes(assign(head, 0, name="b")) == [Code.UNKNOWN_TOPIC_ID]
    other = assign(head, 0, broker=3)
    assert (codes(other), other.records) == ([Code.NOT_LEADER_OR_FOLLOWER], [])


def test_another_incarnation_is_refused_as_a_whole() -> None:
    decision = assign(head_with_another_disk(), 0, age=1)
    assert (decision.response.error_code, decision.records) == (Code.STALE_BROKER_EPOCH, ())


def test_a_replica_in_an_offline_directory_leaves_the_isr() -> None:
    head = with_topic(cluster(1, 2, 3), "a", [2, 1, 3], leader=2)
    after = partition(then(head, assign(head, 0).records), "a")
    assert (after["directories"], after["isr"], after["leader"]) == ((NEW, directory(1), directory(3)), (1, 3), 1)


def trouble(head: MetadataImage, what: Uuid, **settings: str) -> tuple[int, MetadataImage]:
    """What broker 2 is answered for its replica of `a`, and what comes of it."""
    topic = TopicData(topic_id=topic_id("a"), partitions=[PartitionData(partition_index=0)])
    request = AssignReplicasToDirsRequest(
        broker_id=2, broker_epoch=epoch(2), directories=[DirectoryData(id=what, topics=[topic])]
    )
    decision = assign_replicas_to_dirs(head, request, node_config(**settings))
    return decision.response.directories[0].topics[0].partitions[0].error_code, then(head, decision.records)


@pytest.mark.parametrize("what", [DIRECTORY_LOST, DIRECTORY_TROUBLED])
def test_a_replica_in_trouble_is_lost_where_others_have_all_of_it(what: Uuid) -> None:
    code, head = trouble(with_topic(cluster(1, 2, 3), "a", [2, 1, 3], leader=2), what)
    after = partition(head, "a")
    assert (code, after["isr"], after["leader"]) == (Code.NONE, (1, 3), 1)
    assert after["directories"] == (DIRECTORY_LOST, directory(1), directory(3))


@pytest.mark.parametrize("unclean", ["true", "false"])
def test_the_last_copy_is_not_given_up_for_what_is_damaged_in_it(unclean: str) -> None:
    before = with_topic(cluster(1, 2, 3), "a", [2, 1], leader=2, isr=[2])
    assert trouble(before, DIRECTORY_TROUBLED, unclean_leader_election_enable=unclean) == (
        Code.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        before,
    )


def test_the_last_copy_that_failed_stays_in_the_isr_and_no_longer_leads() -> None:
    code, head = trouble(with_topic(cluster(1, 2, 3), "a", [2, 1], leader=2, isr=[2]), DIRECTORY_LOST)
    after = partition(head, "a")
    assert (code, after["isr"], after["leader"]) == (Code.NONE, (2,), -1)
    assert after["directories"] == (DIRECTORY_LOST, directory(1))
    assert trouble(head, DIRECTORY_LOST)[1] == head, "it is known by now"
    back = then(head, assign(head, 0, to=directory(2)).records)
    assert (partition(back, "a")["isr"], partition(back, "a")["leader"]) == ((2,), 2)


def test_the_last_copy_that_failed_is_in_the_elr_and_no_longer_leads() -> None:
    code, head = trouble(with_topic(cluster(1, 2, 3, elr=True), "a", [2, 1], leader=2, isr=[2]), DIRECTORY_LOST)
    after = partition(head, "a")
    assert (code, after["isr"], after["elr"], after["leader"]) == (Code.NONE, (), (2,), -1)
    back = then(head, assign(head, 0, to=directory(2)).records)
    assert (partition(back, "a")["isr"], partition(back, "a")["leader"]) == ((2,), 2)


def test_an_unclean_election_replaces_a_leader_whose_last_copy_failed_if_allowed() -> None:
    head = with_topic(cluster(1, 2, 3), "a", [2, 1], leader=2, isr=[2])
    after = partition(trouble(head, DIRECTORY_LOST, unclean_leader_election_enable="true")[1], "a")
    assert (after["isr"], after["leader"], after["directories"][0]) == ((1,), 1, DIRECTORY_LOST)


def test_a_lost_replica_outside_the_isr_is_announced_in_a_new_leader_epoch() -> None:
    """The leader must know that its follower begins anew."""
    head = head_with_another_disk()
    assert assign(head, 0, to=DIRECTORY_LOST).records == [
        PartitionChangeRecord(
            topic_id=topic_id("a"), partition_id=0, leader=1, directories=[directory(1), DIRECTORY_LOST]
        )
    ]
