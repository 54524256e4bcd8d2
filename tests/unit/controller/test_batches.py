"""What a decision takes in the metadata log: refused where it must stay whole and is too large, else cut."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from highwater.config.alteration import Operation
from highwater.controller.batches import MAX_BYTES, at_most, check_size, cut
from highwater.controller.configs import incremental_alter_configs
from highwater.controller.partitions import create_partitions
from highwater.controller.topics import create_topics
from highwater.errors import Code, KafkaError
from highwater.metadata.pieces import whole
from highwater.metadata.records import encode
from highwater.model import NodeId
from highwater.wire.codec import Message
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from highwater.wire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from highwater.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from highwater.wire.messages.no_op_record import NoOpRecord
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.topic_record import TopicRecord
from tests.unit.controller.clusters import cluster, node_config, topic_id, with_topic

BROKER = 4
HALF = MAX_BYTES // 2


def setting(size: int) -> ConfigRecord:
    return ConfigRecord(resource_type=BROKER, resource_name="1", name="x", value="é" * (size // 2))


def test_a_record_is_not_larger_than_its_estimate() -> None:
    many = list(range(100_000, 100_200))
    samples: list[Message] = [
        NoOpRecord(),
        TopicRecord(name="ä" * 200, topic_id=topic_id("t")),
        setting(3000),
        PartitionRecord(
            partition_id=2**31 - 1,
            topic_id=topic_id("t"),
            replicas=many,
            isr=many,
            adding_replicas=many,
            removing_replicas=many,
            leader=2**31 - 1,
            leader_epoch=2**31 - 1,
            partition_epoch=2**31 - 1,
            directories=[topic_id("d")] * 200,
            eligible_leader_replicas=many,
            last_known_elr=many,
        ),
        PartitionChangeRecord(
            partition_id=2**31 - 1,
            topic_id=topic_id("t"),
            isr=many,
            leader=2**31 - 1,
            replicas=many,
            adding_replicas=many,
            removing_replicas=many,
            directories=[topic_id("d")] * 200,
            eligible_leader_replicas=many,
            last_known_elr=many,
        ),
    ]
    for record in samples:
        assert len(encode(record)) + 40 <= at_most(record) <= len(encode(record)) + 400


def test_records_are_cut_in_their_order_into_what_a_batch_holds() -> None:
    records: list[Message] = [setting(HALF - 1000) for _ in range(5)]
    batches = whole(cut(records))
    assert [len(batch) for batch in batches] == [2, 2, 1]
    assert [id(record) for batch in batches for record in batch] == [id(record) for record in records]
    assert whole(cut([])) == []


def alteration(broker: int) -> AlterConfigsResource:
    name, value = "max.connections.per.ip.overrides", "a" * 30_000 + ":1"
    config = AlterableConfig(name=name, config_operation=Operation.SET, value=value)
    return AlterConfigsResource(resource_type=BROKER, resource_name=str(broker), configs=[config])


def test_settings_beyond_what_a_batch_holds_are_refused() -> None:
    brokers, head = range(1, 401), cluster(1)
    alike = dict.fromkeys(map(NodeId, brokers), head.brokers.by_id[NodeId(1)])
    head = replace(head, brokers=replace(head.brokers, by_id=alike))
    request = IncrementalAlterConfigsRequest(resources=[alteration(broker) for broker in brokers])
    decided = whole(incremental_alter_configs(head, request, node_config()))
    codes = [response.error_code for response in decided.response.responses]
    written = codes.count(Code.NONE)
    assert codes == [Code.NONE] * written + [Code.RECORD_LIST_TOO_LARGE] * (400 - written)
    assert MAX_BYTES - 40_000 < sum(map(at_most, decided.records)) <= MAX_BYTES


def test_topics_that_would_not_fit_a_batch_are_not_created() -> None:
    brokers = range(1, 101)
    by_hand = [CreatableReplicaAssignment(partition_index=at, broker_ids=list(brokers)) for at in range(5000)]
    topic = CreatableTopic(name="wide", num_partitions=-1, replication_factor=-1, assignments=by_hand)
    decided = whole(create_topics(cluster(*brokers), CreateTopicsRequest(topics=[topic]), node_config(), Random(1)))
    assert [result.error_code for result in decided.response.topics] == [Code.RECORD_LIST_TOO_LARGE]
    assert not decided.records


def test_records_that_must_stay_together_may_fill_a_batch_and_no_more() -> None:
    record = setting(100)
    size = at_most(record)
    assert MAX_BYTES == 8_388_608, "as in Kafka"
    assert whole(check_size([record, record])) == 2 * size
    assert whole(check_size([record], MAX_BYTES - size)) == MAX_BYTES
    with pytest.raises(KafkaError, match="ask for less"):
        whole(check_size([record], MAX_BYTES - size + 1))


def test_a_batch_is_cut_where_it_is_full_to_the_byte() -> None:
    half = setting(HALF - at_most(setting(0)))
    assert at_most(half) == HALF
    assert [len(batch) for batch in whole(cut([half] * 4))] == [2, 2]
    with pytest.raises(KafkaError):
        whole(cut([half, setting(MAX_BYTES)]))


def test_partitions_are_reckoned_by_their_replicas_and_directories() -> None:
    """Without being encoded: there may be thousands of them."""
    record = PartitionRecord(replicas=[1, 2], isr=[1, 2], directories=[topic_id("d")] * 2)
    assert at_most(record) == 160 + 4 * 4 + 16 * 2
    assert at_most(PartitionChangeRecord(isr=[1])) == 160 + 4


def test_partitions_that_would_not_fit_a_batch_together_are_not_added() -> None:
    brokers = list(range(1, 101))
    head = cluster(*brokers)
    for name in ("a", "b", "c"):
        head = with_topic(head, name, brokers)
    by_hand = [CreatePartitionsAssignment(broker_ids=brokers)] * 1_700
    asked = [CreatePartitionsTopic(name=name, count=1_701, assignments=by_hand) for name in ("a", "b")]
    asked.append(CreatePartitionsTopic(name="c", count=2, assignments=by_hand[:1]))
    decided = whole(create_partitions(head, CreatePartitionsRequest(topics=asked), Random(1)))
    codes = [result.error_code for result in decided.response.results]
    assert codes == [Code.NONE, Code.RECORD_LIST_TOO_LARGE, Code.NONE]
    assert len(decided.records) == 1_701
