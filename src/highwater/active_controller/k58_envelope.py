"""Envelope (58): a client's request that a broker forwards, with the client's principal and address (KIP-590)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from ipaddress import ip_address
from typing import Any, Final

from highwater.active_controller.active_controller import ActiveController
from highwater.errors import Code, KafkaError
from highwater.model import Endpoint
from highwater.net.context import ANONYMOUS, Part, Principal, RequestContext
from highwater.net.registry import ELEMENTS_AT_ONCE, MOST_BYTES, Api, Registered, decode_at_length
from highwater.net.room import RoomPlace
from highwater.net.stats import CloseReason
from highwater.net.turns import Pause, Work, elsewhere
from highwater.wire.codec import FlexibleReader, Malformed, Reader, TooMany
from highwater.wire.framing import CHUNK
from highwater.wire.messages.default_principal_data import DefaultPrincipalData
from highwater.wire.messages.envelope_request import EnvelopeRequest
from highwater.wire.messages.envelope_response import EnvelopeResponse
from highwater.wire.messages.request_header import RequestHeader
from highwater.world import FileSlice

_WRAPPING: Final = 128 << 10
"""More bytes than a principal, an address and two headers with their client ids take."""
API = Api(58, (0, 0), EnvelopeRequest, most_bytes=MOST_BYTES + _WRAPPING)
log = logging.getLogger(__name__)


class _Inner:
    """The slot of the inner request: its response goes into the envelope's response."""

    parts = None
    """A slot of a connection holds its response here. This one passes it on to the envelope at once."""

    def __init__(self, outer: RequestContext) -> None:
        self._outer = outer
        self.place: RoomPlace | None = None
        """The room that a large request takes; it is left when the request is answered."""

    def fail(self, reason: CloseReason) -> None:
        self.refuse(Code.UNKNOWN_SERVER_ERROR)

    def fill(self, parts: Sequence[Part]) -> None:
        whole = b"".join(bytes(part) for part in parts if not isinstance(part, FileSlice))
        self._answer(EnvelopeResponse(response_data=whole))

    def skip(self) -> None:
        self.refuse(Code.INVALID_REQUEST)

    def close_connection(self) -> None:
        self.refuse(Code.INVALID_REQUEST)

    def mute(self) -> None:
        """Nothing to do: other requests of the same broker need not wait."""

    def unmute(self) -> None:
        """Nothing to do: other requests did not wait."""

    def linger(self, give_way: Callable[[], None]) -> None:
        """Nothing to do: no request waits behind this one."""

    def refuse(self, code: Code) -> None:
        self._answer(EnvelopeResponse(error_code=code))

    def _answer(self, answer: EnvelopeResponse) -> None:
        try:
            self._outer.respond(answer)
        finally:
            self.leave()

    def leave(self) -> None:
        if self.place is not None:
            self.place.leave()


class _InnerContext(RequestContext):
    """The context of the inner request. Later work for it, such as building its response, may be cut short, too."""

    __slots__ = ()
    slot: _Inner

    def carry_out(self, work: Work) -> None:
        super().carry_out(_to_its_end(work, self.slot))

    def sent_elsewhere(self) -> bool:
        self.slot.refuse(Code.NOT_CONTROLLER)
        return True


def handle(controller: ActiveController, ctx: RequestContext, request: EnvelopeRequest) -> Work | None:
    """Only a few large envelopes are opened at a time: their content is in memory several times until it is decided.
    Further large ones wait. Requests behind them on the same connection, such as heartbeats, do not."""
    slot = _Inner(ctx)
    work = _to_its_end(_opening(controller, ctx, request, slot), slot)
    if len(request.request_data) <= CHUNK:
        return work
    slot.place = ctx.connection.open(len(request.request_data), lambda: ctx.carry_out(work))
    slot.place.enter()
    return None


def _to_its_end(work: Work, slot: _Inner) -> Work:
    """Leaves the room of a large request even if the work is cut short by an exception or a closed connection: then no
    response would do so."""
    with ExitStack() as cut_short:
        cut_short.callback(slot.leave)
        yield from work
        cut_short.pop_all()


def _opening(controller: ActiveController, ctx: RequestContext, request: EnvelopeRequest, slot: _Inner) -> Work:
    if not ctx.authorize("ClusterAction", "Cluster", "kafka-cluster"):
        slot.refuse(Code.CLUSTER_AUTHORIZATION_FAILED)
        return
    if not controller.is_active:
        slot.refuse(Code.NOT_CONTROLLER)
        return
    try:
        found, inner, body = _opened(ctx, request, slot)
        inside = yield from _decoded(controller, found, body, inner.version)
    except KafkaError as refused:
        slot.refuse(refused.code)
        return
    except Malformed as fault:
        log.debug("%s sent a malformed envelope: %s", ctx.peer, fault)
        slot.refuse(Code.INVALID_REQUEST)
        return
    name = f"{found.api.request.__name__} v{inner.version} in an envelope"
    failures = controller.world.failures
    with failures.boundary("connection", name, lambda _: slot.refuse(Code.UNKNOWN_SERVER_ERROR)):
        work = found.handle(inner, inside)
        if work is not None:
            yield from work


def _opened(
    ctx: RequestContext, request: EnvelopeRequest, slot: _Inner
) -> tuple[Registered, RequestContext, memoryview]:
    """The inner request: its API, its context with the client's principal, and its body. Raises KafkaError or
    Malformed. Only APIs that brokers forward may be inside."""
    data = memoryview(request.request_data)
    if len(data) < 4:
        raise Malformed("an envelope without a request")
    key, version = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")
    found = ctx.connection.find(key)
    if found is None or not found.api.forwarded or not found.lowest <= version <= found.highest:
        raise KafkaError(Code.INVALID_REQUEST, f"API {key} version {version} is not passed on")
    if len(data) > found.most_bytes:
        raise KafkaError(Code.INVALID_REQUEST, f"API {key} has {found.most_bytes} bytes at most, not {len(data)}")
    flexible = version >= found.flexible
    reader = FlexibleReader(data) if flexible else Reader(data)
    header = RequestHeader.read(reader, 2 if flexible else 1)
    inner = _InnerContext(
        key,
        version,
        header.correlation_id,
        header.client_id,
        ctx.listener,
        _principal(request),
        Endpoint(_host(request), 0),
        ctx.received,
        slot,
        ctx.authorizer,
        flexible,
        ctx.connection,
    )
    return found, inner, data[reader.pos :]


def _decoded(
    controller: ActiveController, found: Registered, body: memoryview, version: int
) -> Generator[Pause, None, Any]:
    """Decodes the inner request; off the event loop if it has many elements, as for a request without an envelope."""
    try:
        return found.decode(body, version, ELEMENTS_AT_ONCE)
    except TooMany:
        whole = memoryview(bytes(body))
        inside = yield from elsewhere(controller.world, decode_at_length, found, whole, version)
    if isinstance(inside, Exception):
        raise inside
    return inside


def _host(request: EnvelopeRequest) -> str:
    packed = bytes(request.client_host_address)
    if len(packed) not in (4, 16):
        raise KafkaError(Code.INVALID_REQUEST, f"an address of {len(packed)} bytes")
    return str(ip_address(packed))


def _principal(request: EnvelopeRequest) -> Principal:
    if request.request_principal is None:
        return ANONYMOUS
    data = memoryview(request.request_principal)
    version = int.from_bytes(data[:2], "big", signed=True)
    lowest, highest = DefaultPrincipalData.VERSIONS
    try:
        if len(data) < 2 or not lowest <= version <= highest:
            raise Malformed(f"a principal of version {version}")
        principal = DefaultPrincipalData.decode(data[2:], version)
    except Malformed as fault:
        raise KafkaError(Code.PRINCIPAL_DESERIALIZATION_FAILURE, str(fault)) from fault
    return Principal(principal.type, principal.name)
