"""A broker without the listener that a client uses: the client learns that it cannot reach it there."""

from __future__ import annotations

import pytest

from highwater.errors import Code
from highwater.model import NodeId
from highwater.wire.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from highwater.wire.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponse
from highwater.wire.messages.find_coordinator_request import FindCoordinatorRequest
from highwater.wire.messages.find_coordinator_response import FindCoordinatorResponse
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.wire.messages.metadata_response import MetadataResponse
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.register_broker_record import BrokerEndpoint
from highwater.wire.messages.topic_record import TopicRecord
from tests.unit.active_controller.test_active_controller import decide
from tests.unit.broker.grouping import OFFSETS
from tests.unit.broker.living import NODE, Living
from tests.unit.controller.clusters import directory, registered, topic_id

ELSEWHERE = "10.0.0.3"
OTHER = NodeId(2)
INSIDE, OUTSIDE = 9092, 9094
"""The ports of two listeners. The other broker has only the first one."""
LISTENERS = {
    "listeners": f"PLAINTEXT://{NODE}:9092,OUTSIDE://{NODE}:9094,CONTROLLER://{NODE}:9093",
    "listener_security_protocol_map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "inter_broker_listener_name": "PLAINTEXT",
}


def led_elsewhere(topic: str) -> Living:
    """A topic of one partition, which the other broker leads and this node follows."""
    living = Living(**LISTENERS).start()
    other = registered(OTHER)
    other.end_points = [BrokerEndpoint(name="PLAINTEXT", host=ELSEWHERE, port=9092)]
    own = living.node.raft.committed.brokers.by_id[NodeId(1)].directories[0]
    partition = PartitionRecord(
        partition_id=0,
        topic_id=topic_id("t"),
        replicas=[OTHER, 1],
        isr=[OTHER, 1],
        leader=OTHER,
        directories=[directory(OTHER), own],
    )
    decide(living, [other, TopicRecord(name=topic, topic_id=topic_id("t")), partition])
    living.sim.run(living.sim.until(lambda: topic in living.node.broker.metadata.image.topics.by_name))
    return living


@pytest.mark.parametrize("version", range(14))
def test_a_leader_without_the_clients_listener_is_named_by_no_metadata_response(version: int) -> None:
    with led_elsewhere("t") as living:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])

        inside = living.ask(asked, MetadataResponse, version, INSIDE)
        assert [(node.node_id, node.host, node.port) for node in inside.brokers] == [
            (1, NODE, 9092),
            (2, ELSEWHERE, 9092),
        ]
        (row,) = inside.topics[0].partitions
        assert (row.error_code, row.leader_id, row.replica_nodes, row.isr_nodes) == (Code.NONE, 2, [2, 1], [2, 1])
        assert row.offline_replicas == []

        outside = living.ask(asked, MetadataResponse, version, OUTSIDE)
        assert [(node.node_id, node.host, node.port) for node in outside.brokers] == [(1, NODE, 9094)]
        (row,) = outside.topics[0].partitions
        # LISTENER_NOT_FOUND came with KIP-302. Clients before that take it for an unknown error.
        expected = Code.LISTENER_NOT_FOUND if version >= 6 else Code.LEADER_NOT_AVAILABLE
        assert (row.error_code, row.leader_id, row.replica_nodes, row.isr_nodes) == (expected, -1, [2, 1], [2, 1])
        assert row.offline_replicas == ([2] if version >= 5 else [])
        assert outside.topics[0].error_code == Code.NONE


def test_a_leader_without_the_clients_listener_is_named_by_no_description_of_partitions() -> None:
    with led_elsewhere("t") as living:
        asked = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])
        rows = [
            living.ask(asked, DescribeTopicPartitionsResponse, 0, port).topics[0].partitions[0]
            for port in (INSIDE, OUTSIDE)
        ]
        assert [(row.error_code, row.leader_id, row.offline_replicas) for row in rows] == [
            (Code.NONE, 2, []),
            (Code.LISTENER_NOT_FOUND, -1, [2]),
        ]


@pytest.mark.parametrize("version", range(7))
def test_a_coordinator_without_the_clients_listener_is_not_available(version: int) -> None:
    with led_elsewhere(OFFSETS) as living:
        asked = FindCoordinatorRequest(coordinator_keys=["g"]) if version >= 4 else FindCoordinatorRequest(key="g")

        def found(port: int) -> tuple[int, int, str, int]:
            answer = living.ask(asked, FindCoordinatorResponse, version, port)
            row = answer.coordinators[0] if version >= 4 else answer
            return row.error_code, row.node_id, row.host, row.port

        assert found(INSIDE) == (Code.NONE, 2, ELSEWHERE, 9092)
        assert found(OUTSIDE) == (Code.COORDINATOR_NOT_AVAILABLE, -1, "", -1)
