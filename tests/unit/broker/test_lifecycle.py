"""A controlled shutdown lasts until the controller agrees to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from highwater.broker.controller_channel import ControllerChannel
from highwater.broker.lifecycle import Lifecycle, LifecycleState
from highwater.config import NodeConfig
from highwater.model import Uuid
from highwater.sim import Simulation
from highwater.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from highwater.wire.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from tests.unit.broker.living import PROPERTIES


class Channel:
    """Keeps the heartbeats, which the test answers."""

    def __init__(self) -> None:
        self.beats: list[BrokerHeartbeatRequest] = []
        self.answer: Callable[[BrokerHeartbeatResponse], None] = lambda answer: None

    def ask(self, request: Any, response: Any, done: Callable[[Any], None], seconds: float) -> None:
        self.beats.append(request)
        self.answer = done


def test_a_broker_that_leaves_serves_on_until_the_controller_lets_it_go() -> None:
    """Until then it may lead partitions whose next leader is not elected yet."""
    with Simulation(1) as sim:
        world, channel = sim.world("n1"), Channel()
        config, some_id = NodeConfig.parse(PROPERTIES), Uuid(bytes(range(16)))
        lifecycle = Lifecycle(
            world, config, "cluster", some_id, some_id, {}, cast(ControllerChannel, channel), lambda: 0
        )
        lifecycle.state, lifecycle.epoch = LifecycleState.ACTIVE, 7
        sim.advance(5.0)
        world.call(lifecycle.leave)
        assert lifecycle.answered_at == world.clock.monotonic()
        for beats in (1, 2, 3):
            assert (len(channel.beats), channel.beats[-1].want_shut_down) == (beats, True)
            world.call(channel.answer, BrokerHeartbeatResponse(is_fenced=False, should_shut_down=False))
            assert lifecycle.state is LifecycleState.LEAVING
            sim.advance(0.1)
        world.call(channel.answer, BrokerHeartbeatResponse(should_shut_down=True))
        assert lifecycle.state is LifecycleState.GONE
