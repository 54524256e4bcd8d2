"""A controller that becomes active does not take the living broker of its own process for a dead one."""

from __future__ import annotations

from highwater.errors import Code, code_of
from highwater.model import Uuid
from highwater.sim.cluster import CLUSTER_ID
from highwater.wire.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from highwater.wire.messages.broker_registration_response import BrokerRegistrationResponse
from tests.scenarios.metadata import agree, controller, others, raft
from tests.scenarios.stage import Stage


def test_a_second_broker_with_the_id_of_the_new_controllers_own_broker_is_refused() -> None:
    """A node was given the id of another by mistake, and tries to register again and again. The one whose id it has
    lives, sends heartbeats, and becomes the active controller: its broker is still in the way."""
    with Stage(3, voters=3) as stage:
        old = controller(stage)
        stage.until(lambda: agree(stage, *stage.cluster.names))
        stage.pass_time(1)
        stage.kill(old)
        stage.until(lambda: stage.cluster.active_controller() in others(stage, old))
        new = controller(stage)
        node = stage.node(new)
        lifecycle = node.broker.lifecycle
        registered = raft(stage, new).committed.brokers.get(int(new[1:]))
        assert registered.incarnation == lifecycle.incarnation and not registered.fenced, "it lives"
        request = BrokerRegistrationRequest(
            broker_id=registered.id,
            cluster_id=CLUSTER_ID,
            incarnation_id=Uuid(b"other incarnatio"),
            listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9999, security_protocol=0)],
            features=[
                Feature(name=name, min_supported_version=supported.min, max_supported_version=supported.max)
                for name, supported in sorted(lifecycle._features.items())
            ],
            log_dirs=[Uuid(b"another director")],
        )
        at = stage.member(new).controller
        answer = stage.run(stage.client.client.ask(at, request, BrokerRegistrationResponse, 5.0))
        now = raft(stage, new).committed.brokers.get(int(new[1:]))
        assert code_of(answer.error_code) is Code.DUPLICATE_BROKER_REGISTRATION, answer
        assert now.incarnation == lifecycle.incarnation
