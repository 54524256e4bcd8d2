"""A broker that dies and comes back at once, in the simulated world."""

from __future__ import annotations

from highwater.errors import Code, code_of
from highwater.model import NodeId, Uuid
from highwater.wire.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from highwater.wire.messages.broker_registration_response import BrokerRegistrationResponse
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


def test_a_late_registration_of_a_dead_broker_does_not_put_its_successor_out() -> None:
    """The same words from other connections, as they might be left in the network; and from who has no such lock."""
    with Stage(3, voters=1, broker_session_timeout_ms=SESSION_MS) as stage:
        living = stage.truth.brokers.by_id[NodeId(2)]

        async def register(by: str, directory: Uuid) -> Code:
            request = BrokerRegistrationRequest(
                broker_id=2,
                cluster_id=stage.node("n1").home.cluster_id,
                incarnation_id=Uuid(bytes(15) + b"\7"),
                listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9002, security_protocol=0)],
                features=[
                    Feature(name=name, min_supported_version=known.min, max_supported_version=known.max)
                    for name, known in living.features.items()
                ],
                log_dirs=[directory],
            )
            at = stage.member("n1").controller
            answer = await stage.visitor(by).client.ask(at, request, BrokerRegistrationResponse, 5.0)
            return code_of(answer.error_code)

        for name in ("first", "second", "third"):
            assert stage.run(register(name, living.directories[0]), name) is Code.DUPLICATE_BROKER_REGISTRATION
        for _ in range(3):
            assert (
                stage.run(register("clone", Uuid(bytes(15) + b"\x09")), "clone") is Code.DUPLICATE_BROKER_REGISTRATION
            )
        assert stage.truth.brokers.by_id[NodeId(2)] == living
        assert stage.run(register("first", living.directories[0]), "first") is Code.NONE
