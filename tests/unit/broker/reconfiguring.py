"""A node whose settings are changed while it runs, and a topic that is written to over the wire."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.errors import Code
from highwater.log.log import Log
from highwater.metadata.configs import ResourceType
from highwater.model import TopicPartition
from highwater.wire import records
from highwater.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from highwater.wire.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from tests.unit.broker.living import Living
from tests.unit.broker.test_divergence import produce

TOPIC = "t"
LARGE = 300_000


def alter(living: Living, name: str, value: str) -> None:
    """Of the topic, or of all brokers where it is a setting of theirs."""
    of_topic = not name.startswith("log.")
    asked = AlterConfigsResource(
        resource_type=ResourceType.TOPIC if of_topic else ResourceType.BROKER,
        resource_name=TOPIC if of_topic else "",
        configs=[AlterableConfig(name=name, value=value)],
    )
    answer = living.ask(IncrementalAlterConfigsRequest(resources=[asked]), IncrementalAlterConfigsResponse, 1)
    assert [(each.error_code, each.error_message) for each in answer.responses] == [(Code.NONE, None)]


def log_of(living: Living) -> Log:
    return living.node.broker.store.logs[TopicPartition(TOPIC, 0)]


def write(living: Living, keys: Sequence[bytes], *, size: int = LARGE, at_ms: int | None = None) -> None:
    """A batch for each; four of the usual size are more than a segment."""
    now = living.world.clock.wall_ms() if at_ms is None else at_ms
    for key in keys:
        assert produce(living, records.build([(now, key, bytes(size), ())])).error_code == Code.NONE
