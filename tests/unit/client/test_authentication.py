"""SASL on a connection: when it is done again, and what ends it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from highwater.client import AuthenticationFailed, Client, Connection, Disconnected, Security
from highwater.client.authentication import MOST_ROUNDS
from highwater.client.batch_sender import BatchSender
from highwater.errors import Code
from highwater.model import TopicPartition
from highwater.wire.codec import Message
from highwater.wire.messages.metadata_request import MetadataRequest
from highwater.wire.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from highwater.wire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from highwater.wire.messages.sasl_authenticate_response import SaslAuthenticateResponse
from highwater.wire.messages.sasl_handshake_request import SaslHandshakeRequest
from highwater.wire.messages.sasl_handshake_response import SaslHandshakeResponse
from tests.secured import jaas
from tests.unit.client.fake_broker import FakeBroker

PARTITION = TopicPartition("orders", 0)


def login(mechanism: str = "PLAIN") -> Security:
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas(mechanism)}
    return Security.of(settings)


class Guarded(FakeBroker):
    """Lets everybody in for `lifetime_ms`, and answers Metadata with the number of the question."""

    def __init__(self, lifetime_ms: int = 0) -> None:
        super().__init__()
        self.lifetime_ms = lifetime_ms
        self.answer(SaslHandshakeRequest, lambda request, version: SaslHandshakeResponse())
        self.answer(SaslAuthenticateRequest, self._authenticate)
        self.answer(MetadataRequest, self._metadata)

    def _authenticate(self, request: SaslAuthenticateRequest, version: int) -> Message:
        return SaslAuthenticateResponse(session_lifetime_ms=self.lifetime_ms)

    def _metadata(self, request: MetadataRequest, version: int) -> Message:
        led = MetadataResponsePartition(partition_index=0, leader_id=1)
        return MetadataResponse(
            cluster_id=str(len(self.requests(MetadataRequest))),
            brokers=[MetadataResponseBroker(node_id=1, host=self.endpoint.host, port=self.endpoint.port)],
            topics=[MetadataResponseTopic(name=PARTITION.topic, partitions=[led])],
        )

    def kinds(self) -> list[type[Message]]:
        return [type(request) for request, _ in self.seen]


@pytest.fixture
def broker() -> Iterator[Guarded]:
    with Guarded() as broker:
        yield broker


def connect(broker: FakeBroker, security: Security | None = None) -> Connection:
    return Connection(broker.endpoint, access=(security or login()).access())


def test_a_session_without_an_end_is_never_renewed(broker: Guarded) -> None:
    connection = connect(broker)
    for _ in range(3):
        connection.request(MetadataRequest(), MetadataResponse)
    assert broker.kinds() == [SaslHandshakeRequest, SaslAuthenticateRequest, *[MetadataRequest] * 3]
    connection.close()


def test_a_session_is_renewed_within_its_last_part(broker: Guarded) -> None:
    broker.lifetime_ms = 3_600_000
    connection = connect(broker)
    left = connection._renew_at - time.monotonic()
    assert 0.8 * 3600 < left <= 0.95 * 3600
    connection.close()


def test_answers_that_are_under_way_wait_while_a_session_is_renewed(broker: Guarded) -> None:
    """As a producer has it, whose batches are in flight."""
    connection = connect(broker)
    version = connection.version(MetadataRequest)
    tickets = [connection.send(MetadataRequest(), version) for _ in range(2)]
    connection._renew_at = 0.0
    tickets.append(connection.send(MetadataRequest(), version))
    connection._renew_at = 0.0
    tickets.append(connection.send(MetadataRequest(), version))
    assert [connection.receive(ticket, MetadataResponse).cluster_id for ticket in tickets] == ["1", "2", "3", "4"]
    assert connection.sessions == 3
    renewal = [SaslHandshakeRequest, SaslAuthenticateRequest]
    assert broker.kinds() == [
        *[*renewal, MetadataRequest, MetadataRequest],
        *[*renewal, MetadataRequest],
        *[*renewal, MetadataRequest],
    ]
    connection.close()


def test_a_password_that_is_revoked_ends_the_connection_with_its_next_session(broker: Guarded) -> None:
    connection = connect(broker)
    broker.answer(
        SaslAuthenticateRequest,
        lambda request, version: SaslAuthenticateResponse(
            error_code=Code.SASL_AUTHENTICATION_FAILED, error_message="revoked"
        ),
    )
    connection._renew_at = 0.0
    with pytest.raises(AuthenticationFailed, match=f"{broker.endpoint} refused user alice with PLAIN: revoked; check"):
        connection.request(MetadataRequest(), MetadataResponse)
    assert not connection.is_open


def test_a_server_that_closes_amid_a_login_is_only_away(broker: Guarded) -> None:
    broker.answer(SaslAuthenticateRequest, lambda request, version: None)
    with pytest.raises(Disconnected):
        connect(broker)


def test_a_server_that_never_comes_to_an_end_is_given_up(broker: Guarded) -> None:
    broker.answer(
        SaslAuthenticateRequest,
        lambda request, version: SaslAuthenticateResponse(auth_bytes=b'{"status":"again"}'),
    )
    with pytest.raises(AuthenticationFailed, match="does not come to an end"):
        connect(broker, login("OAUTHBEARER"))
    assert len(broker.requests(SaslAuthenticateRequest)) == MOST_ROUNDS


def test_a_server_that_cannot_prove_itself_is_not_trusted(broker: Guarded) -> None:
    """It lets everybody in, as one does that wants to hear what clients have to say."""
    with pytest.raises(AuthenticationFailed, match=f"{broker.endpoint} is not trusted: its first SCRAM message"):
        connect(broker, login("SCRAM-SHA-512"))


def test_a_sender_does_not_try_again_what_was_refused(broker: Guarded) -> None:
    with Client(str(broker.endpoint), security=login()) as client:
        client.refresh([PARTITION.topic])
        broker.answer(
            SaslAuthenticateRequest,
            lambda request, version: SaslAuthenticateResponse(error_code=Code.SASL_AUTHENTICATION_FAILED),
        )
        before = len(broker.requests(SaslAuthenticateRequest))
        with BatchSender(client, idempotent=False) as sender, pytest.raises(AuthenticationFailed):
            sender.add(PARTITION, [(0, None, b"x", [])])
        assert len(broker.requests(SaslAuthenticateRequest)) == before + 1
