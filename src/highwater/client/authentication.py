"""SASL on a connection (KIP-43, KIP-152): client and server agree on a mechanism, and then exchange its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.client.failures import AuthenticationFailed
from highwater.client.sasl.exchange import Exchange, LoginRefused
from highwater.client.sasl.login import OAUTHBEARER, Login
from highwater.client.sasl.oauthbearer import OAuthBearerExchange
from highwater.errors import Code, KafkaError, code_of
from highwater.wire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from highwater.wire.messages.sasl_authenticate_response import SaslAuthenticateResponse
from highwater.wire.messages.sasl_handshake_request import SaslHandshakeRequest
from highwater.wire.messages.sasl_handshake_response import SaslHandshakeResponse

if TYPE_CHECKING:
    from highwater.client.connection import Connection

MOST_ROUNDS = 8
"""No mechanism needs more than three messages. A server that asks without end must not keep a client waiting for
ever."""


def authenticate(connection: Connection, login: Login) -> float | None:
    """Authenticates this client. Returns the seconds after which it must do so again (KIP-368), or None: never. Raises
    AuthenticationFailed."""
    _agree(connection, login)
    exchange = login.exchange()
    message: bytes | None = exchange.first()
    lifetime = 0
    for _ in range(MOST_ROUNDS):
        if message is None:
            return lifetime / 1000 if lifetime > 0 else None
        answer = connection.request(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
        if answer.error_code != Code.NONE:
            raise _refusal(connection, login, exchange, answer)
        lifetime = answer.session_lifetime_ms
        try:
            message = exchange.answer(bytes(answer.auth_bytes))
        except LoginRefused as refusal:
            raise AuthenticationFailed(f"{connection.endpoint} is not trusted: {refusal}") from refusal
    raise AuthenticationFailed(f"{connection.endpoint} does not come to an end with {login.mechanism}")


def wanted_mechanisms(connection: Connection) -> list[str]:
    """The mechanisms of a listener that asks for authentication; none if it does not ask."""
    answer = connection.request(SaslHandshakeRequest(mechanism=""), SaslHandshakeResponse)
    return list(answer.mechanisms) if answer.error_code == Code.UNSUPPORTED_SASL_MECHANISM else []


def _agree(connection: Connection, login: Login) -> None:
    endpoint = connection.endpoint
    unasked = AuthenticationFailed(
        f"{endpoint} asks nobody to authenticate: set security.protocol to PLAINTEXT or SSL, or connect to the port of "
        "a SASL listener"
    )
    if not connection.offers(SaslHandshakeRequest) or not connection.offers(SaslAuthenticateRequest):
        raise unasked
    answer = connection.request(SaslHandshakeRequest(mechanism=login.mechanism), SaslHandshakeResponse)
    match answer.error_code:
        case Code.NONE:
            return
        case Code.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(answer.mechanisms) or "none"
            raise AuthenticationFailed(
                f"{endpoint} does not offer {login.mechanism}: set sasl.mechanism to what it offers ({offered})"
            )
        case Code.ILLEGAL_SASL_STATE:
            raise unasked
        case other:
            raise KafkaError(code_of(other), f"{endpoint} refused SaslHandshake: {code_of(other).description}")


def _refusal(
    connection: Connection, login: Login, exchange: Exchange, answer: SaslAuthenticateResponse
) -> AuthenticationFailed:
    said = (answer.error_message or code_of(answer.error_code).description).strip().rstrip(".")
    if isinstance(exchange, OAuthBearerExchange) and exchange.reason:
        said = f"{said} ({exchange.reason})"
    what = "the token and its claims" if login.mechanism == OAUTHBEARER else "username and password"
    return AuthenticationFailed(
        f"{connection.endpoint} refused {login.who} with {login.mechanism}: {said}; check {what} of sasl.jaas.config"
    )
