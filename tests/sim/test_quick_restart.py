"""A broker that dies and comes back at once, in the simulated world."""

from __future__ import annotations

from highwater.errors import Code, code_of
from highwater.model import NodeId, Uuid
from highwater.wire.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from highwater.wire.messages.broker_registration_response import BrokerRegistrationResponse
from tests.scenarios.mishaps import registration
from tests.scenarios.stage import Stage

SESSION_MS = 60_000


def test_a_broker_that_lost_its_power_is_back_long_before_its_session_is_over() -> None:
    """Its connections were not closed, and its address is taken again: only its directory shows that it died."""
    with Stage(3, voters=1, watched=True, broker_session_timeout_ms=SESSION_MS) as stage:
        stage.create(replicas=(2, 3))
        stage.send(b"m1")
        began, epoch = stage.now, stage.truth.brokers.by_id[NodeId(2)].epoch
        stage.cut_power("n2")
        stage.start("n2")
        assert stage.now - began < 1.0
        assert stage.truth.brokers.by_id[NodeId(2)].epoch > epoch
        stage.until(lambda: set(stage.image().isr) == {2, 3})
        stage.send(b"m2")
        assert stage.read() == [b"m1", b"m2"]


def register(stage: Stage, by: str, directory: Uuid | None = None) -> Code:
    """Another incarnation of broker 2 registers, with the same directory if no other is given."""
    living = stage.truth.brokers.by_id[NodeId(2)]
    request = BrokerRegistrationRequest(
        broker_id=2,
        cluster_id=stage.node("n1").home.cluster_id,
        incarnation_id=Uuid(bytes(15) + b"\7"),
        listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9002, security_protocol=0)],
        features=[
            Feature(name=name, min_supported_version=known.min, max_supported_version=known.max)
            for name, known in living.features.items()
        ],
        log_dirs=[living.directories[0] if directory is None else directory],
    )
    at = stage.member("n1").controller
    answer = stage.run(stage.visitor(by).client.ask(at, request, BrokerRegistrationResponse, 5.0), by)
    return code_of(answer.error_code)


def test_a_late_registration_of_a_dead_broker_does_not_put_its_successor_out() -> None:
    """The same words from other connections, as they might be left in the network; and from who has no such lock."""
    with Stage(3, voters=1, broker_session_timeout_ms=SESSION_MS) as stage:
        living = stage.truth.brokers.by_id[NodeId(2)]
        for name in ("first", "second", "third"):
            assert register(stage, name) is Code.DUPLICATE_BROKER_REGISTRATION
        for _ in range(3):
            assert register(stage, "clone", Uuid(bytes(15) + b"\x09")) is Code.DUPLICATE_BROKER_REGISTRATION
        assert stage.truth.brokers.by_id[NodeId(2)] == living
        assert register(stage, "first") is Code.NONE


def test_a_late_registration_of_a_dead_broker_does_not_replace_its_successor_before_the_first_heartbeat() -> None:
    """It comes between the registration of the successor and its first heartbeat, which is on the way."""
    with Stage(3, voters=1, broker_session_timeout_ms=SESSION_MS) as stage:
        dead = stage.truth.brokers.by_id[NodeId(2)]
        stage.cut_power("n2")
        stage.start("n2", waits=False)
        stage.until(lambda: registration(stage, 2).incarnation != dead.incarnation)
        stage.cut("n2", "n1", one_way=True)
        assert register(stage, "late") is Code.DUPLICATE_BROKER_REGISTRATION
        stage.heal()
        stage.until(lambda: stage.serves("n2"))
