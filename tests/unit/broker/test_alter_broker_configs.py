"""Settings of a broker are changed and shown through that broker alone."""

from __future__ import annotations

from highwater.errors import Code
from highwater.metadata.configs import ResourceType
from highwater.metadata.records import encode
from highwater.model import TopicPartition
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from highwater.wire.messages.describe_configs_response import DescribeConfigsResponse
from highwater.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from highwater.wire.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from tests.unit.broker.living import Living


def alter(living: Living, *resources: tuple[ResourceType, str]) -> list[tuple[str, int, str | None]]:
    retention = [AlterableConfig(name="retention.ms", value="60000")]
    of_brokers = [AlterableConfig(name="log.retention.ms", value="60000")]
    asked = [
        AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=of_brokers if kind == ResourceType.BROKER else retention
        )
        for kind, name in resources
    ]
    request = IncrementalAlterConfigsRequest(resources=asked)
    answer = living.ask(request, IncrementalAlterConfigsResponse, 1)
    return [(each.resource_name, each.error_code, each.error_message) for each in answer.responses]


def test_a_broker_takes_changes_of_itself_and_of_all_brokers() -> None:
    with Living().start() as living:
        assert alter(living, (ResourceType.BROKER, "1"), (ResourceType.BROKER, "")) == [
            ("1", Code.NONE, None),
            ("", Code.NONE, None),
        ]


def test_changes_of_another_broker_are_refused_and_the_rest_of_the_request_is_done_in_its_order() -> None:
    with Living().start() as living:
        living.create_topic("t")
        answers = alter(living, (ResourceType.BROKER, "2"), (ResourceType.TOPIC, "t"), (ResourceType.BROKER, "one"))
        assert answers == [
            ("2", Code.INVALID_REQUEST, "Unexpected broker id, expected 1, but received 2"),
            ("t", Code.NONE, None),
            ("one", Code.INVALID_REQUEST, "Node id must be an integer, but it is: one"),
        ]
        assert [code for _, code, _ in alter(living, (ResourceType.BROKER, "2"))] == [Code.INVALID_REQUEST]


def test_settings_of_another_broker_are_not_shown() -> None:
    with Living().start() as living:
        names = ("1", "2", "one", "")
        asked = [DescribeConfigsResource(resource_type=ResourceType.BROKER, resource_name=name) for name in names]
        answer = living.ask(DescribeConfigsRequest(resources=asked), DescribeConfigsResponse, 4)
        outcomes = {each.resource_name: (each.error_code, each.error_message) for each in answer.results}
        assert outcomes["1"] == outcomes[""] == (Code.NONE, None)
        wrong = "Unexpected broker id, expected 1 or empty string, but received 2"
        assert outcomes["2"] == (Code.INVALID_REQUEST, wrong)
        assert outcomes["one"] == (Code.INVALID_REQUEST, "Broker id must be an integer, but it is: one")


def test_a_topics_setting_that_cannot_be_read_counts_as_not_set() -> None:
    """A directory that another release wrote may have one: the node must not end at each start because of it."""
    with Living(log_retention_ms="70000").start() as living:
        living.create_topic("t")
        node = living.node
        unreadable = [
            ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="t", name=name, value=value)
            for name, value in (("retention.ms", "soon"), ("segment.bytes", "2000000"))
        ]
        living.world.call(node.raft.append, unreadable, [encode(each) for each in unreadable], node.raft.epoch)
        log = node.broker.store.logs[TopicPartition("t", 0)]
        living.sim.run(living.sim.until(lambda: log.config.segment_bytes == 2_000_000))
        assert log.config.retention_ms == 70_000
        living.sim.advance(5)
        assert not living.failed
