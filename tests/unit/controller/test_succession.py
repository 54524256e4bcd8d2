"""Which broker takes the place of one whose session is not over yet."""

from __future__ import annotations

from highwater.controller.death import Liveness, Succession
from highwater.controller.decision import Decision
from highwater.controller.registration import register_broker
from highwater.errors import Code
from highwater.model import NodeId
from highwater.wire.messages.broker_registration_response import BrokerRegistrationResponse
from tests.unit.controller.clusters import cluster, directory, incarnation, node_config
from tests.unit.controller.test_brokers import request

HEAD = cluster(1)
"""Broker 1 in its first life."""


def register(
    succession: Succession, connection: str, life: int, *, directory_number: int = 0, at: float = 101.0
) -> Decision[BrokerRegistrationResponse]:
    """The broker's next incarnation asks on this connection, amid the first one's session, and is answered."""
    decided = asked_for(succession, connection, life, directory_number=directory_number, at=at)
    if code(decided) == Code.DUPLICATE_BROKER_REGISTRATION:
        succession.refused(connection, incarnation(1, life), HEAD.brokers.by_id[NodeId(1)], 100.5)
    return decided


def asked_for(
    succession: Succession, connection: str, life: int, *, directory_number: int = 0, at: float = 101.0
) -> Decision[BrokerRegistrationResponse]:
    """The same, not answered yet."""
    liveness = Liveness(9.0)
    liveness.activate(HEAD.brokers, now=100.0)
    asked = request(life=life, log_dirs=[directory(1, directory_number)])
    return register_broker(
        HEAD,
        asked,
        4,
        node_config(),
        liveness,
        101.0,
        HEAD.offset + 1,
        1,
        lambda existing: succession.outlives(connection, incarnation(1, life), existing, at),
    )


def code(decision: Decision[BrokerRegistrationResponse]) -> int:
    return decision.response.error_code


def test_a_registration_after_its_refusal_proves_that_the_other_incarnation_is_dead() -> None:
    succession = Succession()
    assert code(register(succession, "c", 2)) == Code.DUPLICATE_BROKER_REGISTRATION
    taken = register(succession, "c", 2)
    assert code(taken) == Code.NONE
    assert taken.response.broker_epoch == HEAD.offset + 1


def test_a_late_registration_request_of_a_dead_broker_takes_no_place() -> None:
    succession = Succession()
    assert code(register(succession, "c", 2)) == Code.DUPLICATE_BROKER_REGISTRATION
    assert code(register(succession, "another", 2)) == Code.DUPLICATE_BROKER_REGISTRATION
    succession.closed("c")
    assert code(register(succession, "c", 2)) == Code.DUPLICATE_BROKER_REGISTRATION


def test_a_registration_before_its_refusal_proves_nothing() -> None:
    succession = Succession()
    for _ in range(3):
        assert code(asked_for(succession, "c", 2)) == Code.DUPLICATE_BROKER_REGISTRATION


def test_a_request_that_arrived_before_the_refusal_was_sent_proves_nothing() -> None:
    succession = Succession()
    assert code(register(succession, "c", 2, at=100.4)) == Code.DUPLICATE_BROKER_REGISTRATION
    assert code(register(succession, "c", 2, at=100.5)) == Code.DUPLICATE_BROKER_REGISTRATION
    assert code(register(succession, "c", 2, at=100.6)) == Code.NONE


def test_a_refusal_of_another_incarnation_on_the_same_connection_proves_nothing() -> None:
    succession = Succession()
    assert code(register(succession, "c", 2)) == Code.DUPLICATE_BROKER_REGISTRATION
    assert code(register(succession, "c", 3)) == Code.DUPLICATE_BROKER_REGISTRATION


def test_a_broker_with_another_directory_waits_for_the_session_however_often_it_asks() -> None:
    succession = Succession()
    for _ in range(3):
        assert code(register(succession, "c", 2, directory_number=5)) == Code.DUPLICATE_BROKER_REGISTRATION


def test_a_refusal_is_remembered_until_its_connection_closes() -> None:
    succession = Succession()
    register(succession, "c", 2)
    assert (succession.has_refused("c"), succession.has_refused("d")) == (True, False)
    succession.closed("c")
    assert not succession.has_refused("c")
