from __future__ import annotations

from random import Random
from typing import Any

import pytest

from highwater.config import NodeConfig, Source
from highwater.controller.decision import Decision, error_message
from highwater.controller.deletion import delete_topics
from highwater.controller.partitions import create_partitions
from highwater.controller.topics import create_topics
from highwater.errors import Code, KafkaError
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.configs import topic_resource
from highwater.metadata.pieces import whole
from highwater.model import ZERO_UUID, Uuid, uuid_text
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from highwater.wire.messages.create_partitions_response import CreatePartitionsResponse
from highwater.wire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from highwater.wire.messages.delete_topics_response import DeleteTopicsResponse
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.remove_topic_record import RemoveTopicRecord
from highwater.wire.messages.topic_record import TopicRecord
from tests.unit.controller.clusters import cluster, directory, fence, node_config, then, topic_id, with_topic

CONFIG = node_config()
ONE = cluster(1)
THREE = cluster(1, 2, 3)


def wanted(name: str, partitions: int = 1, factor: int = 1, **configs: str | None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def assigned(name: str, *assignments: tuple[int, list[int]], partitions: int = -1, factor: int = -1) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[CreatableReplicaAssignment(partition_index=i, broker_ids=b) for i, b in assignments],
    )


def create(
    head: MetadataImage, *topics: CreatableTopic, config: NodeConfig = CONFIG, **options: Any
) -> Decision[CreateTopicsResponse]:
    return whole(create_topics(head, CreateTopicsRequest(topics=list(topics), **options), config, Random(1)))


def only_error(decision: Decision[CreateTopicsResponse]) -> tuple[int, str | None]:
    assert not decision.records
    [result] = decision.response.topics
    return result.error_code, result.error_message


def test_a_topic_is_created_with_its_settings_before_its_partitions_and_its_replicas_in_the_one_directory() -> None:
    decision = create(ONE, wanted("orders", 2, retention_ms="1000"))
    [result] = decision.response.topics
    assert (result.name, result.error_code, result.error_message) == ("orders", 0, None)
    assert (result.num_partitions, result.replication_factor, result.topic_config_error_code) == (2, 1, 0)
    topic, setting, *partitions = decision.records
    assert topic == TopicRecord(name="orders", topic_id=result.topic_id)
    assert setting == ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1000")
    assert partitions == [
        PartitionRecord(
            partition_id=index,
            topic_id=result.topic_id,
            replicas=[1],
            isr=[1],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=[directory(1)],
        )
        for index in (0, 1)
    ]


def test_a_topic_id_is_a_random_uuid_whose_text_does_not_begin_with_a_dash() -> None:
    ids: set[Uuid] = set()
    for seed in range(300):
        decision = whole(create_topics(ONE, CreateTopicsRequest(topics=[wanted("a")]), CONFIG, Random(seed)))
        made = decision.response.topics[0].topic_id
        assert (made[6] >> 4, made[8] >> 6) == (4, 2)
        assert not uuid_text(made).startswith("-")
        ids.add(made)
    assert len(ids) == 300


def test_the_second_of_two_creations_of_one_name_is_refused_though_the_first_is_not_committed() -> None:
    first = create(ONE, wanted("a"))
    head = then(ONE, first.records)
    assert only_error(create(head, wanted("a"))) == (Code.TOPIC_ALREADY_EXISTS, "Topic 'a' already exists.")


def test_minus_one_means_the_nodes_defaults() -> None:
    config = node_config(num_partitions="4", default_replication_factor="2")
    [result] = create(THREE, wanted("a", -1, -1), config=config).response.topics
    assert (result.num_partitions, result.replication_factor) == (4, 2)


def test_validate_only_answers_and_writes_nothing() -> None:
    decision = create(THREE, wanted("a", 3, 2), validate_only=True)
    [result] = decision.response.topics
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 3, 2)
    assert decision.records == ()


def test_the_answer_holds_every_setting_with_its_source() -> None:
    config = node_config(log_segment_bytes="2000000")
    [result] = create(ONE, wanted("a", retention_ms="1000"), config=config).response.topics
    assert result.configs is not None
    rows = {row.name: row for row in result.configs}
    assert [row.name for row in result.configs] == sorted(rows)
    assert (rows["retention.ms"].value, rows["retention.ms"].config_source) == ("1000", Source.TOPIC)
    assert (rows["segment.bytes"].value, rows["segment.bytes"].config_source) == ("2000000", Source.STATIC_BROKER)
    assert rows["cleanup.policy"].config_source == Source.DEFAULT
    assert not any(row.is_sensitive or row.read_only for row in result.configs)


def test_one_bad_topic_does_not_spoil_the_others() -> None:
    decision = create(ONE, wanted("bad/name"), wanted("good"), wanted("twice"), wanted("twice"))
    answers = {result.name: result.error_code for result in decision.response.topics}
    assert answers == {"bad/name": Code.INVALID_TOPIC_EXCEPTION, "good": 0, "twice": Code.INVALID_REQUEST}
    assert [record.name for record in decision.records if isinstance(record, TopicRecord)] == ["good"]


@pytest.mark.parametrize(
    ("topic", "code", "words"),
    [
        (wanted(""), Code.INVALID_TOPIC_EXCEPTION, "the empty string is not allowed"),
        (wanted("."), Code.INVALID_TOPIC_EXCEPTION, "'.' is not allowed"),
        (wanted(".."), Code.INVALID_TOPIC_EXCEPTION, "'..' is not allowed"),
        (wanted("x" * 250), Code.INVALID_TOPIC_EXCEPTION, "longer than the max allowed length 249"),
        (wanted("naïve"), Code.INVALID_TOPIC_EXCEPTION, "characters other than ASCII alphanumerics"),
        (wanted("a\n"), Code.INVALID_TOPIC_EXCEPTION, "characters other than ASCII alphanumerics"),
        (wanted("old.topic"), Code.INVALID_TOPIC_EXCEPTION, "collides with existing topic: old_topic"),
        (wanted("old_topic"), Code.TOPIC_ALREADY_EXISTS, "Topic 'old_topic' already exists."),
        (wanted("__cluster_metadata"), Code.INVALID_REQUEST, "internal topic"),
        (wanted("a", 0), Code.INVALID_PARTITIONS, "non-positive"),
        (wanted("a", -2), Code.INVALID_PARTITIONS, "non-positive"),
        (wanted("a", 1, 0), Code.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (wanted("a", 1, -2), Code.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (wanted("a", 1, 4), Code.INVALID_REPLICATION_FACTOR, "Unable to replicate the partition 4 time(s)"),
        (wanted("a", 10_001), Code.POLICY_VIOLATION, "Excessively large number of partitions"),
        (wanted("a", 10_000), Code.POLICY_VIOLATION, "excessively large batch"),
        (wanted("a", no_such_setting="1"), Code.INVALID_CONFIG, "Unknown topic config name: no.such.setting"),
        (wanted("a", retention_ms="x"), Code.INVALID_CONFIG, "Invalid value x for configuration retention.ms"),
        (wanted("a", retention_ms=None), Code.INVALID_CONFIG, "Null value not supported for topic configs"),
        (assigned("a", (0, [1]), factor=1), Code.INVALID_REQUEST, "replication factor was not set to -1"),
        (assigned("a", (0, [1]), partitions=1), Code.INVALID_REQUEST, "numPartitions was not set to -1"),
        (assigned("a", (0, [1]), (0, [2])), Code.INVALID_REPLICA_ASSIGNMENT, "multiple manual partition assignments"),
        (assigned("a", (0, [])), Code.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
        (assigned("a", (0, [9])), Code.INVALID_REPLICA_ASSIGNMENT, "includes broker 9, but no such broker"),
        (assigned("a", (0, [1, 1])), Code.INVALID_REPLICA_ASSIGNMENT, "includes the broker 1 more than once"),
        (assigned("a", (0, [1]), (1, [1, 2])), Code.INVALID_REPLICA_ASSIGNMENT, "not consistent with previous"),
        (assigned("a", (1, [1])), Code.INVALID_REPLICA_ASSIGNMENT, "consecutive 0-based"),
        (assigned("a", (0, [3])), Code.INVALID_REPLICA_ASSIGNMENT, "partition 0 are fenced"),
    ],
)
def test_a_topic_that_cannot_be_created_is_refused_with_kafkas_code(
    topic: CreatableTopic, code: Code, words: str
) -> None:
    head = fence(with_topic(THREE, "old_topic", [1]), 3)
    number, message = only_error(create(head, topic))
    assert number == code
    assert message is not None
    assert words in message


def test_manual_replicas_are_taken_in_order_and_only_live_ones_are_in_sync() -> None:
    decision = create(fence(THREE, 2), assigned("a", (1, [2, 3]), (0, [3, 1])))
    partitions = [record for record in decision.records if isinstance(record, PartitionRecord)]
    assert [(p.partition_id, p.replicas, p.isr, p.leader) for p in partitions] == [
        (0, [3, 1], [3, 1], 3),
        (1, [2, 3], [3], 3),
    ]
    assert partitions[1].directories == [directory(2), directory(3)]


def test_a_client_without_the_right_cannot_create_topics() -> None:
    request = CreateTopicsRequest(topics=[wanted("a"), wanted("b")])
    rights = {("Create", "Topic", "a")}
    decision = whole(create_topics(ONE, request, CONFIG, Random(1), lambda *right: right in rights))
    granted, denied = decision.response.topics
    assert denied.error_code == Code.TOPIC_AUTHORIZATION_FAILED
    assert granted.error_code == 0
    assert (granted.topic_config_error_code, granted.configs) == (Code.TOPIC_AUTHORIZATION_FAILED, [])
    assert granted.num_partitions == -1


def delete(
    head: MetadataImage, *topics: DeleteTopicState | str, version: int = 6, config: NodeConfig = CONFIG
) -> Decision[DeleteTopicsResponse]:
    request = DeleteTopicsRequest(
        topic_names=[topic for topic in topics if isinstance(topic, str)],
        topics=[topic for topic in topics if not isinstance(topic, str)],
    )
    return delete_topics(head, request, version, config)


def test_topics_are_deleted_by_name_and_by_id() -> None:
    head = with_topic(with_topic(ONE, "a", [1]), "b", [1])
    decision = delete(head, DeleteTopicState(name="a"), DeleteTopicState(topic_id=topic_id("b")))
    assert [(r.name, r.topic_id, r.error_code) for r in decision.response.responses] == [
        ("a", topic_id("a"), 0),
        ("b", topic_id("b"), 0),
    ]
    assert decision.records == [RemoveTopicRecord(topic_id=topic_id("a")), RemoveTopicRecord(topic_id=topic_id("b"))]
    assert not then(head, decision.records).topics.by_name


def test_older_versions_delete_by_a_list_of_names() -> None:
    decision = delete(with_topic(ONE, "a", [1]), "a", "gone", version=3)
    assert [(r.name, r.error_code) for r in decision.response.responses] == [
        ("a", 0),
        ("gone", Code.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize(
    ("topics", "code"),
    [
        ([DeleteTopicState(name="gone")], Code.UNKNOWN_TOPIC_OR_PARTITION),
        ([DeleteTopicState(topic_id=Uuid(b"x" * 16))], Code.UNKNOWN_TOPIC_ID),
        ([DeleteTopicState()], Code.INVALID_REQUEST),
        ([DeleteTopicState(name="a", topic_id=topic_id("a"))], Code.INVALID_REQUEST),
        ([DeleteTopicState(name="a"), DeleteTopicState(name="a")], Code.INVALID_REQUEST),
        ([DeleteTopicState(topic_id=topic_id("a")), DeleteTopicState(topic_id=topic_id("a"))], Code.INVALID_REQUEST),
        ([DeleteTopicState(name="a"), DeleteTopicState(topic_id=topic_id("a"))], Code.INVALID_REQUEST),
    ],
)
def test_a_topic_that_cannot_be_deleted_is_refused_with_kafkas_code(topics: list[DeleteTopicState], code: Code) -> None:
    decision = delete(with_topic(ONE, "a", [1]), *topics)
    assert {result.error_code for result in decision.response.responses} == {code}
    assert not decision.records


def test_deletion_can_be_switched_off() -> None:
    head, config = with_topic(ONE, "a", [1]), node_config(delete_topic_enable="false")
    for version, code in ((2, Code.INVALID_REQUEST), (3, Code.TOPIC_DELETION_DISABLED)):
        decision = delete(head, "a", version=version, config=config)
        assert [(r.name, r.error_code) for r in decision.response.responses] == [("a", code)]
        assert not decision.records


def test_a_client_that_may_not_describe_a_topic_does_not_learn_whether_it_exists() -> None:
    head = with_topic(ONE, "a", [1])
    for rights in (set(), {("Describe", "Topic", "a")}):
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="a"), DeleteTopicState(name="gone")])
        decision = delete_topics(head, request, 6, CONFIG, lambda *right, rights=rights: right in rights)
        codes = [result.error_code for result in decision.response.responses]
        assert codes == [Code.TOPIC_AUTHORIZATION_FAILED] * 2
        assert decision.response.responses[0].topic_id == ZERO_UUID
        assert not decision.records


def grow(
    head: MetadataImage, *topics: CreatePartitionsTopic, validate_only: bool = False
) -> Decision[CreatePartitionsResponse]:
    request = CreatePartitionsRequest(topics=list(topics), validate_only=validate_only)
    return whole(create_partitions(head, request, Random(1)))


def test_partitions_are_added_with_the_topics_replication_factor() -> None:
    head = with_topic(THREE, "a", [1, 2])
    decision = grow(head, CreatePartitionsTopic(name="a", count=3, assignments=None))
    assert [(r.name, r.error_code, r.error_message) for r in decision.response.results] == [("a", 0, None)]
    after = then(head, decision.records).topics.by_name["a"].partitions
    assert sorted(after) == [0, 1, 2]
    assert {len(partition.replicas) for partition in after.values()} == {2}
    assert (after[2].leader_epoch, after[2].partition_epoch) == (0, 0)


def test_partitions_are_added_with_the_replication_factor_of_the_target_while_the_first_one_moves() -> None:
    """Then its replicas are those of the target and those that are to be removed."""
    moving = with_topic(cluster(1, 2, 3, 4), "a", [3, 4, 1, 2], adding_replicas=[3, 4], removing_replicas=[1, 2])
    decision = grow(moving, CreatePartitionsTopic(name="a", count=2, assignments=None))
    [record] = decision.records
    assert isinstance(record, PartitionRecord)
    assert len(record.replicas) == 2
    by_hand = [CreatePartitionsAssignment(broker_ids=[3, 1])]
    decision = grow(moving, CreatePartitionsTopic(name="a", count=2, assignments=by_hand))
    assert decision.response.results[0].error_code == Code.NONE


def test_partitions_are_added_where_they_are_assigned() -> None:
    by_hand = [CreatePartitionsAssignment(broker_ids=[3, 1])]
    decision = grow(with_topic(THREE, "a", [1, 2]), CreatePartitionsTopic(name="a", count=2, assignments=by_hand))
    [record] = decision.records
    assert isinstance(record, PartitionRecord)
    assert (record.partition_id, record.replicas, record.isr, record.leader) == (1, [3, 1], [3, 1], 3)


def test_adding_partitions_can_be_tried_out() -> None:
    head = with_topic(THREE, "a", [1, 2])
    decision = grow(head, CreatePartitionsTopic(name="a", count=2, assignments=None), validate_only=True)
    assert decision.response.results[0].error_code == 0
    assert not decision.records


@pytest.mark.parametrize(
    ("count", "by_hand", "code"),
    [
        (2, None, Code.INVALID_PARTITIONS),
        (1, None, Code.INVALID_PARTITIONS),
        (-1, None, Code.INVALID_PARTITIONS),
        (2**31 - 1, None, Code.POLICY_VIOLATION),
        (4, [[1]], Code.INVALID_REPLICA_ASSIGNMENT),
        (3, [[9]], Code.INVALID_REPLICA_ASSIGNMENT),
        (3, [[1, 2]], Code.INVALID_REPLICA_ASSIGNMENT),
        (3, [[3]], Code.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_partitions_that_cannot_be_added_are_refused(count: int, by_hand: list[list[int]] | None, code: Code) -> None:
    head = fence(with_topic(THREE, "a", [1], [2]), 3)
    assignments = None if by_hand is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in by_hand]
    decision = grow(head, CreatePartitionsTopic(name="a", count=count, assignments=assignments))
    assert decision.response.results[0].error_code == code
    assert not decision.records


def test_unknown_and_repeated_topics_are_not_extended() -> None:
    asked = [CreatePartitionsTopic(name=name, count=2, assignments=None) for name in ("a", "a", "gone")]
    decision = grow(with_topic(ONE, "a", [1]), *asked)
    assert {r.name: r.error_code for r in decision.response.results} == {
        "a": Code.INVALID_REQUEST,
        "gone": Code.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert not decision.records


def test_partitions_cannot_be_placed_where_every_broker_is_fenced() -> None:
    head = fence(with_topic(ONE, "a", [1]), 1)
    decision = grow(head, CreatePartitionsTopic(name="a", count=2, assignments=None))
    assert decision.response.results[0].error_code == Code.INVALID_REPLICATION_FACTOR


def test_settings_of_a_created_topic_are_in_the_next_image() -> None:
    head = then(ONE, create(ONE, wanted("a", cleanup_policy="compact,delete")).records)
    assert head.configs.of(topic_resource("a")) == {"cleanup.policy": "compact,delete"}


def test_an_answer_that_quotes_the_longest_strings_can_still_be_written() -> None:
    longest = "\u20ac" * 10922
    created = create(ONE, wanted(longest), wanted("a", **{longest: "1"}), wanted("b", retention_ms=longest))
    deleted = delete(ONE, longest, version=5)
    grown = grow(ONE, CreatePartitionsTopic(name=longest, count=1, assignments=None))
    assert [result.error_code for result in created.response.topics] == [17, 40, 40]
    for response, version in ((created.response, 7), (deleted.response, 5), (grown.response, 3)):
        assert len(response.encode(version)) > 32767


def test_a_client_without_the_right_cannot_add_partitions() -> None:
    head = with_topic(with_topic(THREE, "a", [1]), "b", [1])
    topics = [CreatePartitionsTopic(name=name, count=2, assignments=None) for name in ("a", "b")]
    rights = {("Alter", "Topic", "a")}
    decision = whole(
        create_partitions(head, CreatePartitionsRequest(topics=topics), Random(1), lambda *right: right in rights)
    )
    assert [result.error_code for result in decision.response.results] == [0, Code.TOPIC_AUTHORIZATION_FAILED]
    assert len(decision.records) == 1


def test_a_quoted_name_in_an_error_message_is_cut_to_the_length_of_a_string() -> None:
    assert error_message(KafkaError(Code.INVALID_REQUEST, "x" * 5_000)) == "x" * 4_096
