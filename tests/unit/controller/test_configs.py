from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from highwater.config import TOPIC_SETTINGS
from highwater.config.alteration import MAX_VALUE, MOST_CHARACTERS, Alteration, Operation
from highwater.controller import configs
from highwater.controller.configs import alter_configs, incremental_alter_configs
from highwater.errors import Code
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.configs import CLUSTER_DEFAULT, ConfigResource, broker_resource, topic_resource
from highwater.metadata.pieces import whole
from highwater.wire.codec import Message
from highwater.wire.messages.alter_configs_request import AlterableConfig as ReplacedConfig
from highwater.wire.messages.alter_configs_request import AlterConfigsRequest
from highwater.wire.messages.alter_configs_request import AlterConfigsResource as ReplacedResource
from highwater.wire.messages.clear_elr_record import ClearElrRecord
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.unit.controller.clusters import cluster, node_config, then, with_topic

CONFIG = node_config()
TOPIC, OWN, OTHER = topic_resource("a"), broker_resource(1), broker_resource(2)
HEAD = with_topic(cluster(1, 2), "a", [1])
SET, DELETE, APPEND, SUBTRACT = Operation

Change = tuple[str, int, str | None]


def wanted(resource: ConfigResource, *changes: Change) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=resource.type,
        resource_name=resource.name,
        configs=[AlterableConfig(name=n, config_operation=o, value=v) for n, o, v in changes],
    )


def alter(
    head: MetadataImage, *resources: AlterConfigsResource, validate_only: bool = False
) -> tuple[list[tuple[int, str | None]], Sequence[Message]]:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    decision = whole(incremental_alter_configs(head, request, CONFIG))
    answers = decision.response.responses
    assert [(a.resource_type, a.resource_name) for a in answers] == [
        (r.resource_type, r.resource_name) for r in resources
    ]
    return [(a.error_code, a.error_message) for a in answers], decision.records


def changed(head: MetadataImage, resource: ConfigResource, *changes: Change) -> MetadataImage:
    answers, records = alter(head, wanted(resource, *changes))
    assert answers == [(0, None)]
    return then(head, records)


def replace(head: MetadataImage, resource: ConfigResource, *given: tuple[str, str | None]) -> tuple[int, MetadataImage]:
    """By the older API, which has all settings of a resource."""
    configs = [ReplacedConfig(name=name, value=value) for name, value in given]
    asked = ReplacedResource(resource_type=resource.type, resource_name=resource.name, configs=configs)
    decision = whole(alter_configs(head, AlterConfigsRequest(resources=[asked]), CONFIG))
    (answer,) = decision.response.responses
    assert (answer.resource_type, answer.resource_name) == (resource.type, resource.name)
    return answer.error_code, then(head, decision.records)


def test_settings_that_a_replacement_leaves_out_lose_their_values() -> None:
    head = changed(HEAD, TOPIC, ("retention.ms", SET, "5"), ("segment.ms", SET, "6"))
    code, head = replace(head, TOPIC, ("segment.ms", "7"), ("retention.bytes", "8"))
    assert (code, head.configs.of(TOPIC)) == (Code.NONE, {"segment.ms": "7", "retention.bytes": "8"})
    code, head = replace(head, TOPIC)
    assert (code, head.configs.of(TOPIC)) == (Code.NONE, {})


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ([("retention.ms", "abc")], Code.INVALID_CONFIG),
        ([("retention.ms", None)], Code.INVALID_REQUEST),
        ([("retention.ms", "1"), ("retention.ms", "2")], Code.INVALID_REQUEST),
        ([("nope", "1")], Code.INVALID_CONFIG),
    ],
)
def test_a_replacement_that_is_refused_changes_nothing(given: list[tuple[str, str | None]], code: Code) -> None:
    head = changed(HEAD, TOPIC, ("retention.ms", SET, "5"))
    refused, after = replace(head, TOPIC, *given)
    assert (refused, after.configs.of(TOPIC)) == (code, {"retention.ms": "5"})


def test_a_replacement_that_is_only_checked_changes_nothing() -> None:
    asked = ReplacedResource(resource_type=2, resource_name="a", configs=[ReplacedConfig(name="segment.ms", value="1")])
    decision = whole(alter_configs(HEAD, AlterConfigsRequest(resources=[asked], validate_only=True), CONFIG))
    assert ([each.error_code for each in decision.response.responses], list(decision.records)) == ([0], [])


def test_settings_are_set_and_taken_away() -> None:
    head = changed(HEAD, TOPIC, ("retention.ms", SET, "5"), ("segment.ms", SET, "6"))
    assert head.configs.of(TOPIC) == {"retention.ms": "5", "segment.ms": "6"}
    head = changed(head, TOPIC, ("retention.ms", DELETE, None))
    assert head.configs.of(TOPIC) == {"segment.ms": "6"}


def test_a_topic_setting_that_stays_the_same_is_not_written_but_a_brokers_is() -> None:
    head = changed(HEAD, TOPIC, ("retention.ms", SET, "5"))
    assert alter(head, wanted(TOPIC, ("retention.ms", SET, "5")))[1] == []
    head = changed(HEAD, CLUSTER_DEFAULT, ("log.retention.ms", SET, "5"))
    assert len(alter(head, wanted(CLUSTER_DEFAULT, ("log.retention.ms", SET, "5")))[1]) == 1


def test_lists_grow_from_their_default_and_shrink() -> None:
    head = changed(HEAD, TOPIC, ("cleanup.policy", APPEND, "compact"))
    assert head.configs.of(TOPIC) == {"cleanup.policy": "delete,compact"}
    head = changed(head, TOPIC, ("cleanup.policy", APPEND, "compact"))
    assert head.configs.of(TOPIC) == {"cleanup.policy": "delete,compact"}
    head = changed(head, TOPIC, ("cleanup.policy", SUBTRACT, "delete"))
    assert head.configs.of(TOPIC) == {"cleanup.policy": "compact"}


def test_parts_that_are_subtracted_from_a_list_are_not_compared_with_each_part_of_it() -> None:
    compared = 0

    class Part(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    class Parts(str):
        __slots__ = ()

        def split(self, *separator: Any) -> list[str]:  # type: ignore[override]
            return [Part(each) for each in str.split(self, *separator)]

    current = ",".join(f"{index}:1" for index in range(1_000))
    gone = Parts(",".join(f"{index}:{index % 2}" for index in range(1_000)))
    change = Alteration("leader.replication.throttled.replicas", SUBTRACT, gone)
    assert change.of(current, of_topic=True) == ",".join(f"{index}:1" for index in range(0, 1_000, 2))
    assert compared < 10_000


def test_settings_of_the_cluster_and_of_one_broker_are_kept_apart() -> None:
    head = changed(HEAD, CLUSTER_DEFAULT, ("log.retention.ms", SET, "5"))
    head = changed(head, OTHER, ("log.retention.ms", SET, "6"))
    assert head.configs.of(CLUSTER_DEFAULT) == {"log.retention.ms": "5"}
    assert head.configs.of(OTHER) == {"log.retention.ms": "6"}
    assert head.configs.of(OWN) == {}


def test_validate_only_answers_and_writes_nothing() -> None:
    answers, records = alter(HEAD, wanted(TOPIC, ("retention.ms", SET, "5")), validate_only=True)
    assert answers == [(0, None)]
    assert not records


def test_one_bad_resource_does_not_spoil_the_others_and_is_not_changed_in_part() -> None:
    good, bad = wanted(OWN, ("log.retention.ms", SET, "5")), wanted(TOPIC, ("retention.ms", SET, "5"), ("x", SET, "1"))
    answers, records = alter(HEAD, good, bad)
    assert [code for code, _ in answers] == [0, Code.INVALID_CONFIG]
    assert records == [ConfigRecord(resource_type=4, resource_name="1", name="log.retention.ms", value="5")]


@pytest.mark.parametrize(
    ("resource", "change", "code", "words"),
    [
        (TOPIC, ("x", SET, "1"), Code.INVALID_CONFIG, "Unknown topic config name: x"),
        (TOPIC, ("retention.ms", SET, "soon"), Code.INVALID_CONFIG, "Invalid value soon"),
        (TOPIC, ("retention.ms", SET, None), Code.INVALID_REQUEST, "Null value not supported for : retention.ms"),
        (TOPIC, ("retention.ms", APPEND, "1"), Code.INVALID_CONFIG, "Can't APPEND to key retention.ms"),
        (TOPIC, ("no.such", SUBTRACT, "1"), Code.INVALID_CONFIG, "Can't SUBTRACT to key no.such"),
        (TOPIC, ("retention.ms", 9, "1"), Code.INVALID_REQUEST, "Unknown operation 9"),
        (TOPIC, ("cleanup.policy", APPEND, "x" * 32767), Code.INVALID_CONFIG, "maximum value size"),
        (TOPIC, ("min.compaction.lag.ms", SET, str(2**63 - 1)), 0, ""),
        (topic_resource("gone"), ("retention.ms", SET, "1"), Code.UNKNOWN_TOPIC_OR_PARTITION, "'gone' does not exist"),
        (topic_resource(""), ("retention.ms", SET, "1"), Code.INVALID_REQUEST, "Default topic resources"),
        (topic_resource("a/b"), ("retention.ms", SET, "1"), Code.INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
        (ConfigResource(4, "x"), ("log.retention.ms", SET, "1"), Code.INVALID_REQUEST, "base 10"),
        (ConfigResource(4, "-1"), ("log.retention.ms", SET, "1"), Code.INVALID_REQUEST, "negative"),
        (ConfigResource(4, "9"), ("log.retention.ms", SET, "1"), Code.BROKER_ID_NOT_REGISTERED, "No node with id 9"),
        (OWN, ("node.id", SET, "7"), Code.INVALID_CONFIG, "Cannot update these configs dynamically"),
        (OWN, ("log.cleaner.dedupe.buffer.size", SET, "5"), Code.INVALID_CONFIG, "at least 1MB per cleaner thread"),
        (CLUSTER_DEFAULT, ("log.roll.ms", SET, "0"), Code.INVALID_CONFIG, "log.roll.ms must be greater"),
        (OWN, ("log.retention.ms", SET, "x"), Code.INVALID_CONFIG, "Invalid value x"),
        (ConfigResource(8, "1"), ("x", SET, "1"), Code.INVALID_REQUEST, "BROKER_LOGGER"),
        (ConfigResource(32, "g"), ("x", SET, "1"), Code.INVALID_REQUEST, "GROUP"),
        (ConfigResource(99, "g"), ("x", SET, "1"), Code.UNSUPPORTED_VERSION, "Unknown resource type 99"),
    ],
)
def test_a_wrong_change_of_a_setting_is_refused_with_kafkas_code(
    resource: ConfigResource, change: Change, code: int, words: str
) -> None:
    [(number, message)], records = alter(HEAD, wanted(resource, change))
    assert number == code
    assert words in (message or "")
    assert bool(records) == (code == 0)


def test_settings_of_a_topic_must_go_together_with_those_it_has() -> None:
    head = changed(HEAD, TOPIC, ("max.compaction.lag.ms", SET, "10"))
    [(code, message)], _ = alter(head, wanted(TOPIC, ("min.compaction.lag.ms", SET, "11")))
    assert code == Code.INVALID_CONFIG
    assert "conflict topic config setting" in (message or "")


def test_a_resource_or_a_setting_named_twice_is_refused() -> None:
    one = wanted(TOPIC, ("retention.ms", SET, "5"))
    answers, records = alter(HEAD, one, one)
    assert [code for code, _ in answers] == [Code.INVALID_REQUEST] * 2
    assert not records
    [(code, message)], _ = alter(HEAD, wanted(TOPIC, ("retention.ms", SET, "5"), ("retention.ms", SET, "6")))
    assert (code, message) == (Code.INVALID_REQUEST, "Error due to duplicate config keys")


def test_a_client_without_the_right_cannot_alter_settings() -> None:
    request = IncrementalAlterConfigsRequest(
        resources=[wanted(TOPIC, ("retention.ms", SET, "5")), wanted(OWN, ("log.retention.ms", SET, "5"))]
    )
    decision = whole(incremental_alter_configs(HEAD, request, CONFIG, lambda *right: False))
    codes = [answer.error_code for answer in decision.response.responses]
    assert codes == [Code.TOPIC_AUTHORIZATION_FAILED, Code.CLUSTER_AUTHORIZATION_FAILED]


def test_with_elr_another_bound_clears_what_it_made_eligible_and_brokers_have_none_of_their_own() -> None:
    head = with_topic(cluster(1, 2, elr=True), "a", [1, 2], eligible_leader_replicas=[2])
    bound = "min.insync.replicas"
    _, records = alter(head, wanted(TOPIC, (bound, SET, "2")))
    assert records[-1] == ClearElrRecord(topic_name="a")
    partition = then(head, records).topics.partition("a", 0)
    assert partition is not None
    assert partition.elr == ()
    assert alter(head, wanted(CLUSTER_DEFAULT, (bound, SET, "2")))[1][-1] == ClearElrRecord()
    assert alter(head, wanted(OWN, (bound, SET, "2")))[0][0][0] == Code.INVALID_CONFIG
    assert alter(head, wanted(CLUSTER_DEFAULT, (bound, DELETE, None)))[0][0][0] == Code.INVALID_CONFIG
    assert ClearElrRecord(topic_name="a") not in alter(HEAD, wanted(TOPIC, (bound, SET, "2")))[1]
    assert ClearElrRecord(topic_name="a") not in alter(head, wanted(TOPIC, ("retention.ms", SET, "1")))[1]


@pytest.mark.parametrize("resource", [TOPIC, CLUSTER_DEFAULT])
def test_with_elr_a_changed_bound_keeps_the_possible_leaders_of_a_leaderless_partition(
    resource: ConfigResource,
) -> None:
    head = cluster(1, 2, elr=True)
    head = with_topic(head, "a", [1, 2], isr=[], leader=-1, eligible_leader_replicas=[1, 2], last_known_elr=[2])
    head = with_topic(head, "b", [1, 2], isr=[], leader=-1, last_known_elr=[2])
    _, records = alter(head, wanted(resource, ("min.insync.replicas", SET, "2")))
    a, b = (then(head, records).topics.partition(name, 0) for name in ("a", "b"))
    assert a is not None and (a.leader, a.isr, a.elr, a.last_known_elr) == (-1, (), (1, 2), (2,))
    assert b is not None and (b.leader, b.isr, b.elr, b.last_known_elr) == (-1, (), (), (2,))


def test_a_setting_that_is_taken_away_does_not_stand_in_the_way_of_another() -> None:
    head = changed(HEAD, TOPIC, ("min.compaction.lag.ms", SET, "11"))
    lower = ("max.compaction.lag.ms", SET, "10")
    [(refused, _)], _ = alter(head, wanted(TOPIC, lower))
    assert refused == Code.INVALID_CONFIG
    after = changed(head, TOPIC, ("min.compaction.lag.ms", DELETE, None), lower)
    assert after.configs.of(TOPIC) == {"max.compaction.lag.ms": "10"}


def test_another_bound_of_one_topic_takes_no_look_at_the_partitions_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request may name hundreds of topics, and tens of thousands of partitions may be without a leader."""
    head = with_topic(cluster(1, 2, elr=True), "a", [1, 2], isr=[], leader=-1, eligible_leader_replicas=[1, 2])
    monkeypatch.setattr(configs, "leaderless", lambda head: pytest.fail("it looks at all of them"))
    _, records = alter(head, wanted(TOPIC, ("min.insync.replicas", SET, "2")))
    a = then(head, records).topics.partition("a", 0)
    assert a is not None and a.elr == (1, 2)


@pytest.mark.parametrize("resource", [OWN, OTHER, CLUSTER_DEFAULT])
def test_a_broker_has_a_thousand_settings_at_most_with_those_that_it_has_already(resource: ConfigResource) -> None:
    head = changed(HEAD, resource, *((f"own.{index}", SET, "") for index in range(999)))
    head = changed(head, resource, ("own.999", SET, ""))
    [(code, message)], records = alter(head, wanted(resource, ("own.1000", SET, "")))
    assert (code, records) == (Code.INVALID_CONFIG, [])
    assert message == "The resource would have 1001 settings, and 1000 are the most."
    head = changed(head, resource, ("own.0", DELETE, None), ("own.1000", SET, ""), ("own.1", SET, "another value"))
    assert len(head.configs.of(resource)) == 1_000
    assert replace(head, resource, *((f"new.{index}", "") for index in range(1_001)))[0] == Code.INVALID_CONFIG
    assert replace(head, resource, *((f"new.{index}", "") for index in range(1_000)))[0] == Code.NONE


def test_the_settings_of_a_broker_have_a_mebibyte_of_characters_at_most_with_their_names() -> None:
    value = "v" * 32_763
    head = changed(HEAD, OWN, *((f"a.{index:03}", SET, value) for index in range(31)))
    left = 2**20 - 31 * (32_763 + 5)
    name = "n" * (left - 32_000)
    [(code, message)], records = alter(head, wanted(OWN, (name, SET, "v" * 32_001)))
    assert (code, records) == (Code.INVALID_CONFIG, [])
    assert message is not None and "would have 1048577 characters" in message and "1048576 are the most" in message
    head = changed(head, OWN, (name, SET, "v" * 32_000))
    assert alter(head, wanted(OWN, ("more", SET, "")))[0][0][0] == Code.INVALID_CONFIG


def test_settings_beyond_the_bounds_that_are_there_already_may_be_made_less() -> None:
    """Another version, or Apache Kafka, may have left them."""
    there = [ConfigRecord(resource_type=4, resource_name="1", name=f"a.{n}", value="v" * 2_000) for n in range(1_100)]
    head = then(HEAD, there)
    assert alter(head, wanted(OWN, ("more", SET, "")))[0][0][0] == Code.INVALID_CONFIG
    head = changed(head, OWN, *((f"a.{index}", DELETE, None) for index in range(50)))
    assert len(head.configs.of(OWN)) == 1_050
    head = changed(head, OWN, ("a.51", SET, ""))
    assert len(head.configs.of(OWN)) == 1_050


def test_a_topic_has_too_few_settings_for_that_bound() -> None:
    assert sum(len(name) + MAX_VALUE for name in TOPIC_SETTINGS) < MOST_CHARACTERS
