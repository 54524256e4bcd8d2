"""A broker that asks the controller to take it."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.active_controller import k62_broker_registration
from highwater.broker.lifecycle import NotRegistered
from highwater.controller.decision import Decision
from highwater.errors import Code
from highwater.wire.messages.broker_registration_response import BrokerRegistrationResponse
from tests.unit.broker.living import Living


@pytest.mark.parametrize(
    "code",
    [
        Code.INCONSISTENT_CLUSTER_ID,
        Code.INVALID_REGISTRATION,
        Code.UNSUPPORTED_VERSION,
        Code.CLUSTER_AUTHORIZATION_FAILED,
        Code.BROKER_ID_NOT_REGISTERED,
    ],
)
def test_a_broker_that_the_controller_refuses_for_good_ends_and_says_why(
    monkeypatch: pytest.MonkeyPatch, code: Code
) -> None:
    def refused(*args: Any) -> Any:
        return Decision(BrokerRegistrationResponse(error_code=code))

    monkeypatch.setattr(k62_broker_registration, "register_broker", refused)
    with Living() as living:
        began = living.sim.now
        with pytest.raises(NotRegistered, match=f"refuses this broker: {code.name}"):
            living.start()
        assert living.sim.now - began < 5


def test_a_broker_that_is_not_registered_soon_logs_why(caplog: pytest.LogCaptureFixture) -> None:
    with Living(initial_broker_registration_timeout_ms="8000") as living:
        living.node.raft.endpoint_of = lambda *_: None  # type: ignore[method-assign]
        with pytest.raises(NotRegistered):
            living.start()
    assert sum("this broker is not registered yet: no controller is known" in line for line in caplog.messages) == 1


def test_a_broker_logs_the_error_of_its_registration_once_and_not_with_each_attempt(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*args: Any) -> Any:
        return Decision(BrokerRegistrationResponse(error_code=Code.KAFKA_STORAGE_ERROR))

    monkeypatch.setattr(k62_broker_registration, "register_broker", refused)
    with (
        Living(initial_broker_registration_timeout_ms="8000") as living,
        pytest.raises(NotRegistered, match="KAFKA_STORAGE_ERROR"),
    ):
        living.start()
    assert sum("did not register this broker: KAFKA_STORAGE_ERROR" in line for line in caplog.messages) == 1


def test_a_node_that_opens_its_logs_says_that_it_goes_on() -> None:
    """Otherwise a caller that waits for it would give it up while it recovers."""
    with Living() as living:
        living.start().create_topic("orders", 3)
        living.stop()
        progressed: list[bool] = []
        living.progress = lambda: progressed.append(True)
        living.reborn().start()
        assert len(progressed) >= 3
