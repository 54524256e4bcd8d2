"""Throttled replication (KIP-73), at either end: the rate is kept, and members of the ISR are never held back."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.errors import Code
from highwater.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from highwater.wire.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from tests.scenarios.stage import Stage
from tests.scenarios.test_b_reassignment import reassign

BROKER, TOPIC = 4, 2
SET, DELETE = 0, 1
RATE = 20_000
WINDOW_SECONDS = 11
"""Kafka judges a rate over so many samples of a second each."""
CHUNK = 10_000
"""The bytes that one fetch brings."""
RECORDS = 60


def alter(stage: Stage, kind: int, name: str, setting: str, value: str | None) -> None:
    config = AlterableConfig(name=setting, value=value, config_operation=DELETE if value is None else SET)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    to = f"n{name}" if kind == BROKER else "n1"
    answer = stage.run(stage.client.ask(to, request, IncrementalAlterConfigsResponse))
    assert [(row.error_code, row.error_message) for row in answer.responses] == [(Code.NONE, None)]


def throttle(stage: Stage, end: str, broker: int, rate: int | None, listed: str = "*") -> None:
    """`end` is leader or follower."""
    alter(stage, TOPIC, "orders", f"{end}.replication.throttled.replicas", listed)
    alter(stage, BROKER, str(broker), f"{end}.replication.throttled.rate", None if rate is None else str(rate))


def filled() -> Stage:
    return Stage(4, replica_fetch_max_bytes=CHUNK, replica_fetch_response_max_bytes=CHUNK)


def fill(stage: Stage) -> None:
    stage.create(replicas=(2, 3))
    for _ in range(RECORDS):
        stage.send(bytes(CHUNK - 500))
    stage.until(lambda: stage.log("n3").log_end == RECORDS)


@pytest.mark.parametrize(
    ("end", "broker", "listed"), [("leader", 2, "0:2"), ("follower", 4, "7:1,0:4"), ("follower", 4, "*")]
)
def test_a_new_replica_takes_no_more_than_the_throttle_permits(end: str, broker: int, listed: str) -> None:
    with filled() as stage:
        fill(stage)
        throttle(stage, end, broker, RATE, listed)
        assert reassign(stage, (2, 3, 4), via="n1") is Code.NONE
        stage.until(lambda: stage.has("n4"))
        seen = [(stage.now, stage.log("n4").size)]
        while 4 not in stage.image().isr:
            stage.pass_time(0.2)
            seen.append((stage.now, stage.log("n4").size))
            assert stage.now - seen[0][0] < 120
        for at, size in seen:
            before = max((size for moment, size in seen if moment <= at - WINDOW_SECONDS), default=0)
            assert size - before <= RATE * WINDOW_SECONDS * 1.2, f"{size - before} bytes in a window"
        total = seen[-1][1]
        assert seen[-1][0] - seen[0][0] <= total / RATE * 1.2, "the rate is used"


@pytest.mark.parametrize(("end", "broker", "listed"), [("leader", 2, "0:3,1:2"), ("follower", 4, "0:2")])
def test_replicas_that_are_not_listed_are_not_throttled(end: str, broker: int, listed: str) -> None:
    with filled() as stage:
        fill(stage)
        throttle(stage, end, broker, 1, listed)
        assert reassign(stage, (2, 3, 4), via="n1") is Code.NONE
        stage.until(lambda: 4 in stage.image().isr, seconds=5)


@pytest.mark.parametrize(("end", "broker"), [("leader", 2), ("follower", 3)])
def test_a_member_of_the_isr_is_never_held_back(end: str, broker: int) -> None:
    with filled() as stage:
        fill(stage)
        throttle(stage, end, broker, 1)
        begun = stage.now
        for _ in range(10):
            stage.send(bytes(CHUNK - 500))
        assert stage.now - begun < 1
        assert set(stage.image().isr) == {2, 3}


@pytest.mark.parametrize(("end", "broker"), [("leader", 2), ("follower", 4)])
def test_a_move_goes_on_when_its_throttle_is_removed(end: str, broker: int) -> None:
    with filled() as stage:
        fill(stage)
        throttle(stage, end, broker, 1)
        assert reassign(stage, (2, 3, 4), via="n1") is Code.NONE
        stage.until(lambda: stage.has("n4") and stage.log("n4").log_end > 0)
        stage.holds_for(5, lambda: stage.log("n4").log_end < 5, "it is held back")
        alter(stage, BROKER, str(broker), f"{end}.replication.throttled.rate", None)
        stage.until(lambda: 4 in stage.image().isr, seconds=5)


@pytest.mark.parametrize(
    ("end", "broker", "setting"),
    [("leader", 2, "replica_fetch_wait_max_ms"), ("follower", 4, "replica_fetch_backoff_ms")],
)
def test_the_whole_rate_is_used_whatever_the_fetch_wait_of_followers_is(end: str, broker: int, setting: str) -> None:
    """A fetch may wait for 8 s at the leader, or 8 s after an error: that is for longer than the burst lasts."""
    waits: dict[str, Any] = {"replica_socket_timeout_ms": 30_000, "replica_lag_time_max_ms": 30_000, setting: 8000}
    with Stage(4, replica_fetch_max_bytes=CHUNK, replica_fetch_response_max_bytes=CHUNK, **waits) as stage:
        fill(stage)
        throttle(stage, end, broker, RATE)
        assert reassign(stage, (2, 3, 4), via="n1") is Code.NONE
        began = stage.now
        stage.until(lambda: 4 in stage.image().isr, seconds=300)
        assert stage.now - began <= stage.log("n4").size / RATE * 1.2
