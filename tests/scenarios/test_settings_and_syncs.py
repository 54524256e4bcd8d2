"""flush.messages: set while records are under way, and with a disk that fails."""

from __future__ import annotations

import errno

from highwater.errors import Code
from highwater.metadata.configs import ResourceType
from highwater.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from highwater.wire.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from tests.scenarios.stage import ORDERS, Stage


def set_flush_messages(stage: Stage) -> None:
    config = AlterableConfig(name="flush.messages", value="1")
    resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=ORDERS.topic, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    operator = stage.visitor("operator").client
    stage.run(operator.ask_any(request, IncrementalAlterConfigsResponse, 5.0), by="operator")


def test_a_record_that_was_written_before_each_was_to_be_synced_is_synced_and_committed() -> None:
    """Only what is synced counts from then on, and no other append may ever come."""
    with Stage(3, replica_lag_time_max_ms=20_000, replica_socket_timeout_ms=20_000) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"v0")
        stage.until(lambda: stage.log("n3").high_watermark == 1)
        stage.cut("n2", "n3")
        sent = stage.begin(stage.visitor("writer").send(b"v1", seconds=300), by="writer")
        stage.until(lambda: stage.log("n2").log_end == 2)
        set_flush_messages(stage)
        stage.until(lambda: stage.log("n2").flush_each_append)
        stage.heal()
        stage.until(lambda: sent.done)
        assert stage.log("n2").high_watermark == stage.log("n2").durable_end == 2


def test_a_leader_syncs_what_it_has_when_only_that_counts() -> None:
    """n3 followed while nothing had to be synced; it leads when everything must be."""
    with Stage(3, replica_lag_time_max_ms=20_000, replica_socket_timeout_ms=20_000) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"v0")
        stage.until(lambda: stage.log("n3").high_watermark == 1)
        stage.log("n3").durability.durable_end = 0
        stage.isolate("n3")
        set_flush_messages(stage)
        stage.kill("n2")
        stage.heal()
        stage.until(lambda: stage.leads("n3"))
        stage.until(lambda: stage.log("n3").durable_end == 1)


def test_in_flush_mode_a_record_with_acks_1_is_not_acknowledged_if_its_sync_fails() -> None:
    with Stage(1, expects_failures=True) as stage:
        stage.create(replicas=(1,), flush_messages=1)
        stage.send(b"kept")
        fault = stage.storage("n1").fail("sync", f"/data/{ORDERS}/*.log", errno.EIO)
        answer = stage.run(stage.client.produce("n1", b"lost", acks=1))
        assert fault.struck and answer.code is Code.KAFKA_STORAGE_ERROR
