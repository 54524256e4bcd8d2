"""The only controller has no room for its decisions: clients get the reason, and soon."""

from __future__ import annotations

import errno
from typing import Any

from highwater.errors import Code
from highwater.wire.codec import Message
from highwater.wire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from highwater.wire.messages.create_partitions_response import CreatePartitionsResponse
from highwater.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from highwater.wire.messages.delete_topics_response import DeleteTopicsResponse
from highwater.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from highwater.wire.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from tests.unit.broker.living import NODE, Living

METADATA_LOG = "*/__cluster_metadata-0/*.log"
LONGER = AlterableConfig(name="retention.ms", config_operation=0, value="1")
CHANGES: dict[str, tuple[Message, type[Message], int]] = {
    "CreateTopics": (
        CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)]),
        CreateTopicsResponse,
        7,
    ),
    "CreatePartitions": (
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2, assignments=None)]),
        CreatePartitionsResponse,
        3,
    ),
    "IncrementalAlterConfigs": (
        IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=2, resource_name="t", configs=[LONGER])]
        ),
        IncrementalAlterConfigsResponse,
        1,
    ),
    "DeleteTopics": (DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), DeleteTopicsResponse, 6),
}


def rows(answer: Any) -> list[Any]:
    return next(getattr(answer, name) for name in ("topics", "results", "responses") if hasattr(answer, name))


def test_changes_that_cannot_be_written_are_refused_with_the_reason_and_at_once() -> None:
    with Living().start() as living:
        living.create_topic("t")
        living.sim.storage(NODE).fail("append", METADATA_LOG, errno.ENOSPC, times=None)
        asked = living.sim.now
        for name, (request, response, version) in CHANGES.items():
            (row,) = rows(living.ask(request, response, version))
            assert row.error_code == Code.KAFKA_STORAGE_ERROR, name
            assert "the controller cannot write to its metadata log: " in row.error_message, name
            assert "No space left on device" in row.error_message, name
        assert living.sim.now - asked < 2
        living.sim.storage(NODE).mend()
        for name, (request, response, version) in CHANGES.items():
            (row,) = rows(living.ask(request, response, version))
            assert row.error_code == Code.NONE, name
