"""Envelope (58): a request that a broker passes on, with the client who made it (KIP-590)."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

from highwater.errors import Code
from highwater.model import Endpoint
from highwater.net.context import Part, Principal, RequestContext
from highwater.net.registry import Api, Registry
from highwater.wire.codec import FlexibleReader, Malformed, Reader
from highwater.wire.messages.default_principal_data import DefaultPrincipalData
from highwater.wire.messages.envelope_request import EnvelopeRequest
from highwater.wire.messages.envelope_response import EnvelopeResponse
from highwater.wire.messages.request_header import RequestHeader
from highwater.world import FileSlice

API = Api(58, (0, 0), EnvelopeRequest)


class _Inner:
    """The slot of the request inside: its answer goes into the envelope's."""

    def __init__(self, outer: RequestContext) -> None:
        self._outer = outer

    def fill(self, parts: Sequence[Part]) -> None:
        whole = b"".join(bytes(part) for part in parts if not isinstance(part, FileSlice))
        self._outer.respond(EnvelopeResponse(response_data=whole))

    def skip(self) -> None:
        self.refuse(Code.INVALID_REQUEST)

    def close_connection(self) -> None:
        self.refuse(Code.INVALID_REQUEST)

    def mute(self) -> None:
        """Other requests of the same broker need not wait."""

    def refuse(self, code: Code) -> None:
        self._outer.respond(EnvelopeResponse(error_code=code))


def handle(is_active: bool, registry: Registry, ctx: RequestContext, request: EnvelopeRequest) -> None:
    slot = _Inner(ctx)
    if not ctx.authorize("ClusterAction", "Cluster", "kafka-cluster"):
        slot.refuse(Code.CLUSTER_AUTHORIZATION_FAILED)
        return
    if not is_active:
        slot.refuse(Code.NOT_CONTROLLER)
        return
    data = memoryview(request.request_data)
    if len(data) < 4:
        raise Malformed("an envelope without a request")
    key, version = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")
    found = registry.find(key)
    if found is None or not found.api.versions[0] <= version <= found.api.versions[1] or key == API.key:
        slot.refuse(Code.INVALID_REQUEST)
        return
    flexible = version >= found.api.request.FLEXIBLE
    reader = FlexibleReader(data) if flexible else Reader(data)
    header = RequestHeader.read(reader, 2 if flexible else 1)
    inner = RequestContext(
        key,
        version,
        header.correlation_id,
        header.client_id,
        ctx.listener,
        _principal(request),
        Endpoint(str(ip_address(bytes(request.client_host_address))), 0),
        ctx.received,
        slot,
        ctx.authorizer,
        flexible,
    )
    found.handle(inner, found.decode(data[reader.pos :], version))


def _principal(request: EnvelopeRequest) -> Principal:
    if request.request_principal is None:
        return Principal("User", "ANONYMOUS")
    data = memoryview(request.request_principal)
    principal = DefaultPrincipalData.decode(data[2:], int.from_bytes(data[:2], "big"))
    return Principal(principal.type, principal.name)
