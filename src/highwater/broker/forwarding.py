"""Forwards admin requests from any broker to the active controller, in an Envelope that names the client (KIP-590)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address
from typing import Any, Generic, NamedTuple, TypeVar

from highwater.broker.broker import Broker
from highwater.errors import Code
from highwater.net.context import RequestContext
from highwater.net.header import after_tags
from highwater.net.registry import Api
from highwater.wire.codec import Message
from highwater.wire.framing import CHUNK
from highwater.wire.messages.default_principal_data import DefaultPrincipalData
from highwater.wire.messages.envelope_request import EnvelopeRequest
from highwater.wire.messages.envelope_response import EnvelopeResponse
from highwater.wire.messages.request_header import RequestHeader
from highwater.world import Buffer

FORWARD_SECONDS = 60.0
"""As in Kafka, for all attempts; a single attempt has controller.socket.timeout.ms."""
UNREACHED_SECONDS = 10.0
"""How long a request looks for a controller. An election takes a second or two. If several elections brought none, it
is unknown when there will be one, so the client gets an error and may ask again."""
_PRINCIPAL_VERSION = 0
M = TypeVar("M", bound=Message)


class Asked(NamedTuple, Generic[M]):
    """A request to forward: decoded, and as the bytes that came. To encode it again would double the time and the
    memory."""

    request: M
    body: Buffer


def as_it_came(api: Api) -> Api:
    """A forwarded API on a broker: the bytes of its requests are kept."""

    def decode(body: memoryview, version: int, *most_elements: int) -> Asked[Message]:
        return Asked(api.request.decode(body, version, *most_elements), body)

    def refuse(asked: Asked[Message], code: Code, version: int) -> Message | None:
        return api.refusal(asked.request, code, version)

    return replace(api, decode=decode, refuse=refuse)


def pass_on(api: Api, broker: Broker, ctx: RequestContext, asked: Asked[Message]) -> None:
    forward(api, broker, ctx, asked.body)


def forward(
    api: Api,
    broker: Broker,
    ctx: RequestContext,
    body: Buffer,
    completed: Callable[[Any], Message] | None = None,
) -> None:
    """Forwards the request and returns the controller's response, both unchanged. If there is no response, the refusal
    is made from the bytes that were sent: the decoded request may be large and is not kept.

    If only a part was forwarded, `completed` makes the whole response from the controller's response or from the
    refusal.

    Only a few large requests are forwarded at a time; others wait.
    """
    if len(body) <= CHUNK:
        _send(api, broker, ctx, body, completed, lambda: None)
        return

    def begin() -> None:
        """Runs in the turn of the request that made room, and must not raise into it."""
        with broker.world.failures.boundary("connection", "a request to be passed on", give_up):
            _send(api, broker, ctx, body, completed, place.leave)

    def give_up(failed: Exception) -> None:
        ctx.slot.close_connection()
        place.leave()

    place = ctx.connection.pass_on(len(body), begin)
    place.enter()


def _header(ctx: RequestContext) -> bytes:
    header = RequestHeader(
        request_api_key=ctx.api_key,
        request_api_version=ctx.version,
        correlation_id=ctx.correlation_id,
        client_id=ctx.client_id,
    )
    return header.encode(2 if ctx.flexible_response else 1)


def _envelope(ctx: RequestContext, header: bytes, body: Buffer) -> EnvelopeRequest:
    """The request with the client's principal and address."""
    principal = DefaultPrincipalData(type=ctx.principal.kind, name=ctx.principal.name, token_authenticated=False)
    return EnvelopeRequest(
        request_data=b"".join((header, body)),
        request_principal=_PRINCIPAL_VERSION.to_bytes(2, "big") + principal.encode(_PRINCIPAL_VERSION),
        client_host_address=ip_address(ctx.peer.host).packed,
    )


def _send(
    api: Api,
    broker: Broker,
    ctx: RequestContext,
    body: Buffer,
    completed: Callable[[Any], Message] | None,
    done: Callable[[], None],
) -> None:
    header = _header(ctx)
    envelope = _envelope(ctx, header, body)

    def answered(answer: EnvelopeResponse | None) -> None:
        try:
            if answer is None:
                refuse(Code.REQUEST_TIMED_OUT)
            elif answer.error_code != Code.NONE or answer.response_data is None:
                refuse(Code.UNKNOWN_SERVER_ERROR)
            else:
                whole = bytes(answer.response_data)
                broker.metadata.when_applied(lambda: respond(whole))
        finally:
            done()

    def refuse(code: Code) -> None:
        sent = api.request.decode(memoryview(envelope.request_data)[len(header) :], ctx.version)
        refused = api.refusal(sent, code, ctx.version)
        assert refused is not None, "every forwarded API has a response"
        ctx.respond(refused if completed is None else completed(refused))

    def respond(whole: bytes) -> None:
        try:
            if completed is None:
                ctx.slot.fill([whole])
            else:
                view = memoryview(whole)
                body = view[after_tags(view, 4) if ctx.flexible_response else 4 :]
                ctx.respond(completed(api.response.decode(body, ctx.version)))
        except Exception as failed:  # noqa: BLE001 the boundary of this request
            ctx.failed(failed)

    broker.controller.ask(envelope, EnvelopeResponse, answered, FORWARD_SECONDS, UNREACHED_SECONDS)
