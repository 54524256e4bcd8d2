from __future__ import annotations

import pytest

from highwater.controller.brokers import (
    begin_controlled_shutdown,
    fence_broker,
    forget_incarnation,
    unfence_broker,
)
from highwater.controller.elections import Election, Electorate, elect, leads_any, partition_change
from highwater.controller.settings import ElectionRules, election_rules, in_force
from highwater.metadata.brokers import DIRECTORY_LOST
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.topics import PartitionImage, Recovery, TopicImage
from highwater.model import NO_NODE, NodeId
from highwater.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
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


def state(
    isr: tuple[int, ...] = (1, 2, 3),
    leader: int = 1,
    replicas: tuple[int, ...] = (1, 2, 3),
    elr: tuple[int, ...] = (),
    last_known_elr: tuple[int, ...] = (),
) -> PartitionImage:
    return PartitionImage(
        replicas=nodes(*replicas),
        directories=tuple(directory(replica) for replica in replicas),
        isr=nodes(*isr),
        leader=NodeId(leader),
        leader_epoch=5,
        partition_epoch=7,
        elr=nodes(*elr),
        last_known_elr=nodes(*last_known_elr),
    )


@pytest.mark.parametrize(
    ("partition", "isr", "live", "election", "elr_on", "winner"),
    [
        (state(leader=2), (1, 2, 3), (1, 2, 3), Election.ONLINE, False, (2, False)),
        (state(leader=2), (1, 2, 3), (1, 2, 3), Election.PREFERRED, False, (1, False)),
        (state(leader=2), (2, 3), (1, 2, 3), Election.PREFERRED, False, (2, False)),
        (state(leader=1), (2, 3), (2, 3), Election.ONLINE, False, (2, False)),
        (state(leader=1), (2, 3), (3,), Election.ONLINE, False, (3, False)),
        (state(leader=1), (1,), (2, 3), Election.ONLINE, False, (-1, False)),
        (state(leader=1), (1,), (2, 3), Election.PREFERRED, False, (-1, False)),
        (state(leader=1), (1,), (2, 3), Election.UNCLEAN, False, (2, True)),
        (state(leader=1), (1,), (), Election.UNCLEAN, False, (-1, False)),
        (state(leader=-1, isr=(), elr=(3,)), (), (2, 3), Election.UNCLEAN, True, (3, False)),
        (state(leader=-1, isr=(), last_known_elr=(3,)), (), (2, 3), Election.ONLINE, True, (3, True)),
        (state(leader=-1, isr=(), last_known_elr=(3,)), (), (2, 3), Election.ONLINE, False, (-1, False)),
        (state(leader=-1, isr=(), last_known_elr=(2, 3)), (), (2, 3), Election.ONLINE, True, (-1, False)),
        (state(leader=-1, isr=(), last_known_elr=(9,)), (), (9,), Election.ONLINE, True, (-1, False)),
    ],
)
def test_the_current_leader_comes_first_then_replicas_in_order_then_the_risky_ones(
    partition: PartitionImage,
    isr: tuple[int, ...],
    live: tuple[int, ...],
    election: Election,
    elr_on: bool,
    winner: tuple[int, bool],
) -> None:
    assert (
        elect(partition, partition.replicas, nodes(*isr), partition.elr, lambda r: r in live, election, elr_on)
        == winner
    )


def test_a_change_that_changes_nothing_is_no_record() -> None:
    rules = ElectionRules(min_isr=1, unclean=False, elr=False)
    assert partition_change(topic_id("a"), 0, state(), nodes(1, 2, 3), lambda r: True, rules) is None


def fenced(head: MetadataImage, broker: int) -> MetadataImage:
    return then(head, fence_broker(head, CONFIG, NodeId(broker), epoch(broker)))


def unfenced(head: MetadataImage, broker: int) -> MetadataImage:
    return then(head, unfence_broker(head, CONFIG, NodeId(broker), epoch(broker)))


def test_fencing_takes_a_broker_out_of_its_isrs_and_moves_what_it_leads() -> None:
    head = with_topic(cluster(1, 2, 3), "a", [1, 2, 3], [2, 1, 3], [3, 2])
    records = fence_broker(head, CONFIG, NodeId(1), epoch(1))
    assert records == [
        PartitionChangeRecord(topic_id=topic_id("a"), partition_id=0, isr=[2, 3], leader=2),
        PartitionChangeRecord(topic_id=topic_id("a"), partition_id=1, isr=[2, 3]),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch(1), fenced=1),
    ]
    after = then(head, records)
    moved, shrunk = after.topics.by_name["a"].partitions[0], after.topics.by_name["a"].partitions[1]
    assert (moved.leader, moved.leader_epoch, moved.partition_epoch) == (2, 6, 8)
    assert (shrunk.leader, shrunk.leader_epoch, shrunk.partition_epoch) == (2, 5, 8)
    assert after.topics.by_name["a"].partitions[2] is head.topics.by_name["a"].partitions[2]
    assert not after.brokers.is_active(1)


def test_fencing_an_epoch_that_is_gone_or_fenced_is_nothing() -> None:
    head = with_topic(cluster(1, 2), "a", [1, 2])
    assert fence_broker(head, CONFIG, NodeId(1), epoch(1) - 1) == []
    assert fence_broker(head, CONFIG, NodeId(9), 1) == []
    assert fence_broker(fenced(head, 1), CONFIG, NodeId(1), epoch(1)) == []


def test_the_last_member_never_leaves_the_isr_and_leads_again_when_it_is_back() -> None:
    head = with_topic(cluster(1, 2), "a", [1, 2], isr=[1])
    head = fenced(head, 1)
    after = partition(head, "a")
    assert (after["isr"], after["leader"], after["leader_epoch"]) == ((1,), -1, 6)
    head = unfenced(head, 1)
    after = partition(head, "a")
    assert (after["isr"], after["leader"], after["leader_epoch"], after["partition_epoch"]) == ((1,), 1, 7, 9)


def test_a_live_replica_outside_the_isr_leads_only_where_unclean_elections_are_allowed() -> None:
    head = with_topic(cluster(1, 2), "a", [1, 2], isr=[1])
    allowed = ConfigRecord(resource_type=2, resource_name="a", name="unclean.leader.election.enable", value="true")
    head = fenced(then(head, [allowed]), 1)
    after = partition(head, "a")
    assert (after["isr"], after["leader"], after["recovery"]) == ((2,), 2, Recovery.RECOVERING)


def test_a_replica_whose_directory_is_offline_is_not_elected() -> None:
    gone = registered(2)
    gone.log_dirs = [directory(2, 1)]
    head = with_topic(then(cluster(1, 3), [gone]), "a", [1, 2, 3])
    assert partition(fenced(head, 1), "a")["leader"] == 3


def test_with_elr_the_isr_may_become_empty_and_the_last_member_is_remembered() -> None:
    head = with_topic(cluster(1, 2, elr=True), "a", [1, 2])
    first = fenced(head, 1)
    assert partition(first, "a")["isr"] == (2,)
    assert partition(first, "a")["elr"] == ()
    both = fenced(first, 2)
    after = partition(both, "a")
    assert (after["isr"], after["leader"], after["elr"], after["last_known_elr"]) == ((), -1, (2,), (2,))
    assert partition(unfenced(both, 1), "a")["leader"] == NO_NODE
    after = partition(unfenced(both, 2), "a")
    assert (after["isr"], after["leader"], after["elr"], after["last_known_elr"]) == ((2,), 2, (), ())
    assert after["recovery"] is Recovery.RECOVERED


def test_a_broker_that_stopped_uncleanly_leaves_isr_and_elr() -> None:
    head = fenced(with_topic(cluster(1, elr=True), "a", [1]), 1)
    assert partition(head, "a")["elr"] == (1,)
    kept = then(head, forget_incarnation(head, CONFIG, NodeId(1), clean=True))
    assert partition(kept, "a")["elr"] == (1,)
    lost = then(head, forget_incarnation(head, CONFIG, NodeId(1), clean=False))
    assert partition(lost, "a")["elr"] == ()
    # Alone as the last known leader, it may still lead, but what it has is known to be doubtful.
    after = partition(unfenced(lost, 1), "a")
    assert (after["leader"], after["isr"], after["recovery"]) == (1, (1,), Recovery.RECOVERING)


def test_controlled_shutdown_moves_leaders_and_says_so_once() -> None:
    head = with_topic(cluster(1, 2), "a", [1, 2])
    leaving = head.brokers.get(1)
    assert leaving is not None
    records = begin_controlled_shutdown(head, CONFIG, leaving)
    assert records[0] == BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch(1), in_controlled_shutdown=1)
    after = then(head, records)
    assert partition(after, "a")["leader"] == 2
    assert leads_any(head, NodeId(1))
    assert not leads_any(after, NodeId(1))
    again = after.brokers.get(1)
    assert again is not None
    assert begin_controlled_shutdown(after, CONFIG, again) == []


def test_election_rules_come_from_the_topic_then_from_the_node_and_never_ask_for_more_than_the_replicas() -> None:
    head = with_topic(cluster(1, 2, 3), "a", [1, 2])
    topic = head.topics.by_name["a"]
    assert election_rules(head, topic, CONFIG) == (1, False, False)
    rules = election_rules(head, topic, node_config(min_insync_replicas="3"))
    assert (rules.bound(2), rules.bound(3), rules.bound(4)) == (2, 3, 3)
    own = [
        ConfigRecord(resource_type=2, resource_name="a", name="min.insync.replicas", value="2"),
        ConfigRecord(resource_type=2, resource_name="a", name="unclean.leader.election.enable", value="true"),
    ]
    assert election_rules(then(head, own), topic, CONFIG) == (2, True, False)


def test_dynamic_settings_of_the_image_are_in_force() -> None:
    head = cluster(1)
    assert in_force(CONFIG, head) is CONFIG
    default = ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="2")
    head = with_topic(then(head, [default]), "a", [1, 2, 3])
    config = in_force(CONFIG, head)
    assert election_rules(head, head.topics.by_name["a"], config).min_isr == 2
    assert in_force(config, head) is config


def test_dynamic_settings_that_do_not_go_together_with_the_nodes_own_are_left_out() -> None:
    # Written by a controller with another log.cleaner.max.compaction.lag.ms.
    name = "log.cleaner.min.compaction.lag.ms"
    head = then(cluster(1), [ConfigRecord(resource_type=4, resource_name="", name=name, value="11")])
    config = node_config(log_cleaner_max_compaction_lag_ms="10")
    left = in_force(config, head)
    assert (left.dynamic_default, left.dynamic) == ({}, {})
    assert "conflict topic config setting min.compaction.lag.ms (11)" in left.ignored[0]
    assert in_force(left, head) is left


def test_fencing_leaves_other_brokers_partitions_alone() -> None:
    head = fence(with_topic(cluster(1, 2, 3), "a", [2, 3]), 3)
    records = fence_broker(head, CONFIG, NodeId(1), epoch(1))
    assert records == [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch(1), fenced=1)]


def test_a_broker_can_be_fenced_a_part_at_a_time_and_is_fenced_last() -> None:
    head = with_topic(cluster(1, 2, 3), "a", *[[1, 2]] * 5)
    head = with_topic(head, "b", *[[1, 2]] * 3, isr=[1])
    at_once = fenced(head, 1)
    steps = 0
    while head.brokers.is_active(1):
        records = fence_broker(head, CONFIG, NodeId(1), epoch(1), limit=3)
        assert len(records) <= 3
        head = then(head, records)
        steps += 1
    assert steps == 3
    assert head.topics == at_once.topics
    assert head.brokers == at_once.brokers


@pytest.mark.parametrize(("bound", "left"), [(1, []), (2, [3])])
def test_a_leader_from_the_elr_that_may_commit_alone_empties_the_elr(bound: int, left: list[int]) -> None:
    rules = ElectionRules(min_isr=bound, unclean=False, elr=True)
    before = state(leader=-1, isr=(), elr=(2, 3))
    record = partition_change(topic_id("a"), 0, before, (), lambda replica: replica == 2, rules)
    assert record is not None
    assert (record.leader, record.isr, record.eligible_leader_replicas) == (2, [2], left)


@pytest.mark.parametrize(
    ("before", "elr", "last_known"), [(state(), None, None), (state(elr=(2,), last_known_elr=(3,)), [], [])]
)
def test_a_partition_that_begins_anew_names_only_lists_that_it_had(
    before: PartitionImage, elr: list[int] | None, last_known: list[int] | None
) -> None:
    head = cluster(1, 2, 3)
    lost = before._replace(directories=(DIRECTORY_LOST,) * 3)
    topic = TopicImage("a", topic_id("a"), {})
    record = Electorate(head, CONFIG).begin_anew((topic, 0, lost))
    assert record is not None
    assert (record.leader, record.isr, record.directories) == (1, [1], [directory(1), DIRECTORY_LOST, DIRECTORY_LOST])
    assert (record.eligible_leader_replicas, record.last_known_elr) == (elr, last_known)
