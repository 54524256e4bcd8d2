"""Each decision is described in words, with its reason."""

from __future__ import annotations

from typing import Any

from highwater.controller.alter_partition import alter_partition
from highwater.controller.brokers import fence_broker, heartbeat, unfence_broker
from highwater.controller.death import Liveness
from highwater.controller.leaders import ElectionType, elect_leaders
from highwater.controller.registration import register_broker
from highwater.controller.state_changes import state_changes, unclean_elections
from highwater.controller.unregister import unregister_broker
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.pieces import whole
from highwater.model import NodeId, uuid_text
from highwater.wire.codec import Message
from highwater.wire.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from highwater.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from highwater.wire.messages.broker_registration_request import BrokerRegistrationRequest, Feature
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.elect_leaders_request import ElectLeadersRequest
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from tests.unit.controller.clusters import (
    CLUSTER,
    cluster,
    directory,
    epoch,
    incarnation,
    node_config,
    then,
    topic_id,
    with_topic,
)

CONFIG = node_config()


def lines_for(head: MetadataImage, records: list[Message], why: str = "because") -> list[str]:
    return list(state_changes(head, records, why))


def fenced(head: MetadataImage, broker: int) -> tuple[MetadataImage, list[str]]:
    records = fence_broker(head, CONFIG, NodeId(broker), epoch(broker))
    return then(head, records), lines_for(head, records, "no heartbeat for 9.1 s")


def orders(*brokers: int, elr: bool = False, isr: tuple[int, ...] | None = None) -> MetadataImage:
    """`orders-0`, with a replica on each broker, led by the first in epoch 5."""
    return with_topic(cluster(*brokers, elr=elr), "orders", brokers, isr=isr)


def test_a_fenced_leader_is_followed_by_an_election_from_the_isr() -> None:
    _, lines = fenced(orders(2, 3, 1), 2)
    assert lines == [
        "orders-0 elected 3 for epoch 6 from the ISR; ISR 2,3,1 -> 3,1: leader 2 was fenced",
        "broker 2 fenced: no heartbeat for 9.1 s",
    ]


def test_a_fenced_follower_leaves_the_isr() -> None:
    _, lines = fenced(orders(2, 3, 1), 1)
    assert lines[0] == "orders-0 ISR 2,3,1 -> 2,3: 1 was fenced"


def test_a_partition_that_loses_its_last_replica_has_no_leader_until_it_is_back() -> None:
    head, lines = fenced(orders(2), 2)
    assert lines[0] == "orders-0 no leader in epoch 6, no replica of ISR 2 and ELR (none) is left: leader 2 was fenced"
    back = unfence_broker(head, CONFIG, NodeId(2), epoch(2))
    assert lines_for(head, back) == [
        "broker 2 unfenced: because",
        "orders-0 elected 2 for epoch 7 from the ISR, the preferred replica: 2 was unfenced",
    ]


def test_an_unclean_election_names_whose_records_are_lost() -> None:
    head, _ = fenced(orders(2, 3, isr=(2,)), 2)
    decision = whole(
        elect_leaders(head, ElectLeadersRequest(election_type=ElectionType.UNCLEAN, topic_partitions=None), CONFIG)
    )
    assert lines_for(head, list(decision.records), decision.why) == [
        "orders-0 elected 3 for epoch 7, uncleanly: what only 2 had is lost; ISR 2 -> 3: "
        "a client asked for unclean leaders"
    ]


def test_an_election_from_the_elr_is_distinguished_from_one_from_the_isr() -> None:
    config = node_config(min_insync_replicas="2")
    whole = orders(2, 3, elr=True)
    records = fence_broker(whole, config, NodeId(3), epoch(3))
    small = then(whole, records)
    assert lines_for(whole, records)[0] == "orders-0 ISR 2,3 -> 2; ELR (none) -> 3: 3 was fenced"
    records = fence_broker(small, config, NodeId(2), epoch(2))
    empty = then(small, records)
    assert lines_for(small, records)[0] == (
        "orders-0 no leader in epoch 6, no replica of ISR 2 and ELR 3 is left; ISR 2 -> (none); ELR 3 -> 2,3; "
        "last known leader (none) -> 2: leader 2 was fenced"
    )
    back = unfence_broker(empty, config, NodeId(3), epoch(3))
    assert lines_for(empty, back)[1] == (
        "orders-0 elected 3 for epoch 7 from the ELR; ISR (none) -> 3; ELR 2,3 -> 2; "
        "last known leader 2 -> (none): 3 was unfenced"
    )


def test_an_isr_that_its_leader_asks_for_is_logged_as_such() -> None:
    head = orders(2, 3, 1)
    members = [BrokerState(broker_id=each, broker_epoch=epoch(each)) for each in (2, 3)]
    asked = PartitionData(partition_index=0, leader_epoch=5, new_isr_with_epochs=members, partition_epoch=7)
    request = AlterPartitionRequest(
        broker_id=2, broker_epoch=epoch(2), topics=[TopicData(topic_id=topic_id("orders"), partitions=[asked])]
    )
    decision = alter_partition(head, request, 3, CONFIG)
    assert lines_for(head, list(decision.records), decision.why) == ["orders-0 ISR 2,3,1 -> 2,3: leader 2 asked for it"]


def test_a_controlled_shutdown_moves_leaders_for_that_reason() -> None:
    head = orders(2, 3)
    liveness = Liveness(9.0)
    request = BrokerHeartbeatRequest(
        broker_id=2, broker_epoch=epoch(2), current_metadata_offset=99, want_shut_down=True
    )
    decision = heartbeat(head, request, CONFIG, liveness)
    assert lines_for(head, list(decision.records), decision.why) == [
        "broker 2 in controlled shutdown: it asked for it",
        "orders-0 elected 3 for epoch 6 from the ISR; ISR 2,3 -> 3: leader 2 shuts down",
    ]


def registered(head: MetadataImage, broker: int, previous: int) -> tuple[list[Message], str]:
    """A broker's next life, by the epoch that it knows of its last one: -1 where that was not stopped in order."""
    request = BrokerRegistrationRequest(
        broker_id=broker,
        cluster_id=CLUSTER,
        incarnation_id=incarnation(broker, 2),
        features=[
            Feature(name="metadata.version", min_supported_version=30, max_supported_version=30),
            Feature(name="eligible.leader.replicas.version", min_supported_version=0, max_supported_version=1),
        ],
        log_dirs=[directory(broker)],
        previous_broker_epoch=previous,
    )
    decision = register_broker(head, request, 4, CONFIG, Liveness(9.0), 0.0, 200, 0)
    return list(decision.records), decision.why


def test_a_lone_broker_that_was_killed_leads_again_and_no_loss_is_claimed() -> None:
    """Its process lost nothing; only a power cut could, and the controller knows of none."""
    head = orders(2, elr=True)
    records, why = registered(head, 2, -1)
    assert lines_for(head, records, why)[0].startswith("orders-0 no leader in epoch 6, ")
    killed = then(head, records)
    back = unfence_broker(killed, CONFIG, NodeId(2), 200)
    assert lines_for(killed, back)[1].startswith(
        "orders-0 elected 2 for epoch 7, the last leader, which did not stop cleanly: it has what its disk kept; "
    )


def test_the_line_of_a_brokers_new_life_says_how_the_last_one_ended() -> None:
    head = orders(2, 3)

    def registration(previous: int) -> str:
        records, why = registered(head, 3, previous)
        lines = lines_for(head, records, why)
        assert lines[0] == "orders-0 ISR 2,3 -> 2: 3 started again"
        return lines[1]

    assert (
        registration(epoch(3))
        == "broker 3 registered with epoch 200 after epoch 103: it started again after a clean stop"
    )
    assert registration(-1).endswith("it started again, and did not stop cleanly")


def test_silence_is_counted_from_the_last_heartbeat() -> None:
    liveness = Liveness(9.0)
    liveness.activate(cluster(1).brokers, now=100.0)
    assert liveness.silent_for(NodeId(1), 109.1) == 109.1 - 100.0
    assert liveness.silent_for(NodeId(7), 109.1) == 0.0


def changed(head: MetadataImage, **fields: Any) -> list[str]:
    return lines_for(head, [PartitionChangeRecord(topic_id=topic_id("orders"), partition_id=0, **fields)], "")


def test_every_change_of_a_partition_is_logged_and_nothing_else() -> None:
    head = orders(2, 3)
    assert changed(head, leader=2) == ["orders-0 leader 2 stays, in epoch 6"]
    assert changed(head, isr=[2]) == ["orders-0 ISR 2,3 -> 2"]
    moved = [directory(2), directory(3, 1)]
    assert changed(head, directories=moved) == [
        f"orders-0 replica 3 lies in directory {uuid_text(directory(3, 1))}",
    ]
    grown = [directory(2), directory(3), directory(1)]
    assert changed(head, replicas=[2, 3, 1], directories=grown) == ["orders-0 replicas 2,3 -> 2,3,1"]
    recovering = then(
        head, [PartitionChangeRecord(topic_id=topic_id("orders"), partition_id=0, leader_recovery_state=1)]
    )
    assert changed(recovering, leader_recovery_state=0) == ["orders-0 leader 2 has recovered"]


def test_two_changes_of_one_partition_are_logged_one_after_the_other() -> None:
    head = orders(2, 3)
    changes = [PartitionChangeRecord(topic_id=topic_id("orders"), partition_id=0, isr=isr) for isr in ([2], [2, 3])]
    assert lines_for(head, list(changes), "") == ["orders-0 ISR 2,3 -> 2", "orders-0 ISR 2 -> 2,3"]


def test_changes_of_what_is_not_there_are_not_logged() -> None:
    unknown = PartitionChangeRecord(topic_id=topic_id("other"), partition_id=0, isr=[2])
    beyond = PartitionChangeRecord(topic_id=topic_id("orders"), partition_id=9, isr=[2])
    assert lines_for(orders(2, 3), [unknown, beyond]) == []


def test_only_elections_that_may_lose_records_are_counted_as_unclean() -> None:
    unclean = PartitionChangeRecord(leader=3, leader_recovery_state=1)
    clean = PartitionChangeRecord(leader=3)
    recovered = PartitionChangeRecord(leader_recovery_state=0)
    created = PartitionRecord(leader_recovery_state=1)
    assert unclean_elections([unclean, clean, recovered, created, unclean]) == 2


def test_the_reason_of_a_registration_is_logged() -> None:
    records, why = registered(cluster(2), 3, -1)
    assert why == "its first registration"
    again = then(cluster(2), records)
    assert registered(again, 3, -1)[1] == "it registered again"


def test_an_unregistered_brokers_leaving_an_isr_is_logged_with_that_reason() -> None:
    head = orders(2, 3)
    decision = unregister_broker(head, UnregisterBrokerRequest(broker_id=3), CONFIG)
    assert lines_for(head, list(decision.records), decision.why) == [
        "orders-0 ISR 2,3 -> 2: 3 was unregistered",
        "broker 3 unregistered: a client asked for it",
    ]


def test_records_of_other_things_are_not_logged() -> None:
    head = orders(2, 3)
    other = ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1")
    change = PartitionChangeRecord(topic_id=topic_id("orders"), partition_id=0, isr=[2])
    assert lines_for(head, [other, change], "") == ["orders-0 ISR 2,3 -> 2"]


def test_with_elr_the_last_leader_is_remembered_only_while_there_is_no_leader() -> None:
    head = orders(2, 3, elr=True)
    moved = fence_broker(head, CONFIG, NodeId(2), epoch(2))
    assert [record.last_known_elr for record in moved if isinstance(record, PartitionChangeRecord)] == [None]
    left = fence_broker(then(head, moved), CONFIG, NodeId(3), epoch(3))
    assert [record.last_known_elr for record in left if isinstance(record, PartitionChangeRecord)] == [[3]]
