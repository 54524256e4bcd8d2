"""No setting that anybody can write ends a node: what a broker cannot use it leaves out, and says so."""

from __future__ import annotations

import logging

import pytest

from highwater.config import LOG_RETENTION_MS, LOG_ROLL_MS
from highwater.errors import Code, code_of
from highwater.metadata.configs import ResourceType
from highwater.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from highwater.wire.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from tests.scenarios.stage import ORDERS, Stage

REASON = "log.roll.ms must be greater than or equal to 1"


def asked(broker: str, **settings: str) -> IncrementalAlterConfigsRequest:
    configs = [AlterableConfig(name=name.replace("_", "."), value=value) for name, value in settings.items()]
    resource = AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name=broker, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource])


def outcome(answer: IncrementalAlterConfigsResponse) -> tuple[Code, str | None]:
    (each,) = answer.responses
    return code_of(each.error_code), each.error_message


def through_broker(stage: Stage, node: str, request: IncrementalAlterConfigsRequest) -> tuple[Code, str | None]:
    return outcome(stage.run(stage.client.ask(node, request, IncrementalAlterConfigsResponse)))


def through_controller(stage: Stage, request: IncrementalAlterConfigsRequest) -> tuple[Code, str | None]:
    """On the controller's own listener, where nobody knows what the brokers were started with (KIP-919)."""
    client, at = stage.client.client, stage.cluster.members["n1"].controller
    return outcome(stage.run(client.ask(at, request, IncrementalAlterConfigsResponse, 20.0)))


def test_a_broker_refuses_settings_that_do_not_suit_it() -> None:
    with Stage() as stage:
        for broker in ("2", ""):
            assert through_broker(stage, "n2", asked(broker, log_roll_ms="0")) == (Code.INVALID_CONFIG, REASON)
        assert through_broker(stage, "n2", asked("2", log_roll_ms="5000")) == (Code.NONE, None)
        stage.until(lambda: stage.node("n2").broker.metadata.config.get(LOG_ROLL_MS) == 5000)


def test_a_broker_goes_on_with_the_settings_it_has_where_new_ones_do_not_suit_it() -> None:
    with Stage() as stage:
        stage.create(ORDERS, replicas=(2, 3))
        assert through_controller(stage, asked("2", log_retention_ms="70000")) == (Code.NONE, None)
        config = lambda: stage.node("n2").broker.metadata.config  # noqa: E731
        stage.until(lambda: config().get(LOG_RETENTION_MS) == 70_000)
        assert through_controller(stage, asked("2", log_roll_ms="0", log_retention_ms="80000")) == (Code.NONE, None)
        stage.until(lambda: stage.said("n2", REASON, logging.ERROR))
        stage.send(b"one")
        assert (config().get(LOG_RETENTION_MS), config().get(LOG_ROLL_MS)) == (80_000, None), "one does not suit it"
        assert through_controller(stage, asked("", log_retention_ms="90000")) == (Code.NONE, None)
        stage.until(lambda: config().dynamic_default)
        stage.send(b"two")

        stage.kill("n2")
        stage.start("n2")
        assert (config().get(LOG_RETENTION_MS), config().get(LOG_ROLL_MS)) == (80_000, None)
        stage.until(lambda: stage.leader() is not None)
        stage.send(b"three")
        assert stage.read() == [b"one", b"two", b"three"]
        assert through_controller(stage, asked("2", log_roll_ms="9000")) == (Code.NONE, None)
        stage.until(lambda: config().get(LOG_RETENTION_MS) == 80_000 and config().get(LOG_ROLL_MS) == 9000)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_setting_that_does_not_suit_a_broker_keeps_no_bound_from_it_that_others_count_on(restarts: bool) -> None:
    """The controller goes by the bound of the cluster: who leaves an ISR below it is in the ELR. A leader that goes by
    another one would commit alone what a member of the ELR, elected cleanly, does not have."""
    with Stage(4, log_cleaner_threads="{id}") as stage:
        stage.create(ORDERS, replicas=(2, 3))
        stage.send(b"one")
        buffer = asked("", log_cleaner_dedupe_buffer_size="1500000")
        assert through_broker(stage, "n1", buffer) == (Code.NONE, None), "it suits one cleaner thread, and n2 has two"
        assert through_broker(stage, "n1", asked("", min_insync_replicas="2")) == (Code.NONE, None)
        if restarts:
            stage.kill("n2")
            stage.start("n2")
            stage.until(lambda: stage.leader() is not None)
        stage.until(lambda: all(stage.log(name).config.min_insync_replicas == 2 for name in ("n2", "n3")))
        assert stage.said("n2", "cleaner thread", logging.ERROR)
