"""Requests of clients that a broker passes on to the controller, while controllers change or cannot write."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from highwater.broker.forwarding import UNREACHED_SECONDS
from highwater.errors import Code, code_of
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.configs import ResourceType, topic_resource
from highwater.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from highwater.wire.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from tests.scenarios.mishaps import controller
from tests.scenarios.stage import ORDERS, Pending, Stage

METADATA = "/data/__cluster_metadata-0/*.log"


def create(stage: Stage, via: str) -> Pending[Code]:
    topic = CreatableTopic(name="late", num_partitions=1, replication_factor=1)

    async def ask() -> Code:
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        answer = await stage.client.ask(via, request, CreateTopicsResponse)
        return code_of(answer.topics[0].error_code)

    return stage.begin(ask())


def set_retention(stage: Stage, via: str) -> Pending[Code]:
    setting = AlterableConfig(name="retention.ms", config_operation=0, value="60000")
    resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=ORDERS.topic, configs=[setting])

    async def ask() -> Code:
        request = IncrementalAlterConfigsRequest(resources=[resource])
        answer = await stage.client.ask(via, request, IncrementalAlterConfigsResponse)
        return code_of(answer.responses[0].error_code)

    return stage.begin(ask())


def has_topic(image: MetadataImage) -> bool:
    return "late" in image.topics.by_name


def has_retention(image: MetadataImage) -> bool:
    return "retention.ms" in image.configs.of(topic_resource(ORDERS.topic))


@pytest.mark.parametrize(("change", "is_made"), [(create, has_topic), (set_retention, has_retention)])
def test_a_request_that_its_controller_could_not_decide_is_passed_on_to_the_next_one(
    change: Callable[[Stage, str], Pending[Code]], is_made: Callable[[MetadataImage], bool]
) -> None:
    """The controller takes the request, and loses its majority before the decision is committed. Must hold: the client
    does not learn of it. The broker passes the request on to the next controller, as Kafka's brokers do."""
    with Stage(4, voters=3) as stage:
        stage.create(replicas=(4,))
        old = stage.cluster.active_controller()
        assert old is not None
        others = [name for name in ("n1", "n2", "n3") if name != old]
        for other in others:
            stage.cut(old, other)
        asked = change(stage, "n4")
        stage.until(lambda: is_made(controller(stage, old).head))
        stage.until(lambda: asked.done)
        assert asked.result is Code.NONE
        assert stage.cluster.active_controller() in others
        assert is_made(stage.truth)


def test_a_request_that_no_voter_has_room_for_is_refused_after_a_while() -> None:
    """All disks are full. Each controller sends the request to the next one, which may have room. In Kafka such
    controllers end, and the answer is the same."""
    with Stage(4, voters=3) as stage:
        for name in ("n1", "n2", "n3"):
            stage.storage(name).fail("append", METADATA, errno.ENOSPC, times=None)
        began = stage.now
        asked = create(stage, via="n4")
        stage.until(lambda: asked.done)
        assert asked.result is Code.REQUEST_TIMED_OUT
        assert stage.now - began < UNREACHED_SECONDS + 1
        for name in ("n1", "n2", "n3"):
            stage.storage(name).mend()
        asked = create(stage, via="n4")
        stage.until(lambda: asked.done)
        assert asked.result is Code.NONE
