"""A broker is fenced before its session is over only by a proof that it is dead, in the simulated world."""

from __future__ import annotations

from asyncio import BaseTransport, BufferedProtocol

import pytest

from highwater.metadata.brokers import BrokerRegistration
from highwater.model import Endpoint, NodeId
from tests.scenarios.stage import Stage

SESSION_MS = 60_000
"""Longer than any of these stories: a broker that is fenced here is fenced by proof."""
TWO_LISTENERS = {
    "listeners": "EXTERNAL://127.0.0.1:700{id},PLAINTEXT://127.0.0.1:900{id},CONTROLLER://127.0.0.1:950{id}",
    "advertised_listeners": "EXTERNAL://localhost:29092,PLAINTEXT://127.0.0.1:900{id}",
    "listener_security_protocol_map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT",
}
"""As a container has them: the first is mapped to a port of its host, where nobody inside finds it."""


def registration(stage: Stage, broker: int) -> BrokerRegistration:
    return stage.truth.brokers.by_id[NodeId(broker)]


def is_fenced(stage: Stage, broker: int) -> bool:
    return registration(stage, broker).fenced


def lose_connections(stage: Stage, one: str, other: str) -> None:
    """Both live, and every connection between them breaks."""
    stage.sim.reset(one, other)


def others(name: str) -> list[str]:
    return [each for each in ("n1", "n2", "n3") if each != name]


def test_a_live_broker_whose_first_listener_is_for_other_machines_is_not_fenced_when_its_connection_breaks() -> None:
    with Stage(3, voters=3, broker_session_timeout_ms=SESSION_MS, **TWO_LISTENERS) as stage:
        controller = stage.cluster.active_controller()
        assert controller is not None
        victim = others(controller)[0]
        lose_connections(stage, controller, victim)
        stage.holds_for(1.0, lambda: not is_fenced(stage, int(victim[1:])))


def test_a_new_controller_proves_no_broker_dead_by_a_listener_for_other_machines() -> None:
    with Stage(3, voters=3, broker_session_timeout_ms=SESSION_MS, **TWO_LISTENERS) as stage:
        stage.create(replicas=(1, 2, 3))
        old = stage.cluster.active_controller()
        assert old is not None
        living = [int(name[1:]) for name in others(old)]
        stage.kill(old)
        stage.until(lambda: is_fenced(stage, int(old[1:])))
        stage.holds_for(1.0, lambda: not any(is_fenced(stage, broker) for broker in living))


def test_a_dead_broker_of_two_listeners_is_fenced_long_before_its_session_is_over() -> None:
    with Stage(3, voters=3, broker_session_timeout_ms=SESSION_MS, **TWO_LISTENERS) as stage:
        controller = stage.cluster.active_controller()
        assert controller is not None
        victim = others(controller)[0]
        stage.kill(victim)
        stage.until(lambda: is_fenced(stage, int(victim[1:])), seconds=1.0)


def test_where_a_stranger_took_the_port_of_a_dead_broker_its_session_decides() -> None:
    with Stage(3, voters=1, broker_session_timeout_ms=9000) as stage:
        stage.kill("n2")
        stranger = stage.visitor("stranger").world

        class Silent(BufferedProtocol):
            def connection_made(self, transport: BaseTransport) -> None:
                pass

            def get_buffer(self, sizehint: int) -> memoryview:
                return memoryview(bytearray(1024))

        stage.run(stranger.net.listen(Silent, Endpoint("127.0.0.1", 9002)), "stranger")
        stage.holds_for(8.0, lambda: not is_fenced(stage, 2), "a port that somebody has proves nothing")
        stage.until(lambda: is_fenced(stage, 2), seconds=3.0)
        assert stage.said("n1", "no heartbeat for")


@pytest.mark.parametrize("after_ms", [0, 1, 2, 4, 6, 8, 20, 100])
def test_a_broker_that_starts_again_while_it_is_probed_serves_and_is_not_fenced_for_its_last_life(
    after_ms: int,
) -> None:
    with Stage(3, voters=1, broker_session_timeout_ms=SESSION_MS) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"m1")
        before = registration(stage, 2).epoch
        stage.kill("n2")
        stage.pass_time(after_ms / 1000)
        stage.start("n2")
        assert registration(stage, 2).epoch > before
        stage.holds_for(2.0, lambda: not is_fenced(stage, 2), "its new life did not refuse anybody")
        stage.send(b"m2")
        assert stage.read() == [b"m1", b"m2"]
