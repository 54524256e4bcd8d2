"""The context of a request for its handler: the client, the listener, and the way to respond."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, cast

from highwater.model import Endpoint
from highwater.net.line import Line
from highwater.net.room import RoomPlace
from highwater.net.turns import Work
from highwater.wire.codec import FlexibleWriter, Message, Struct, Writer, Written
from highwater.world import Buffer, FileSlice

if TYPE_CHECKING:
    from highwater.net.registry import Registered

Part = Buffer | FileSlice
S = TypeVar("S", bound=Struct)


class Principal(NamedTuple):
    kind: str
    name: str


ANONYMOUS = Principal("User", "ANONYMOUS")

Authorize = Callable[[Principal, Endpoint, str, str, str], bool]
"""(principal, peer, operation, resource type, resource name) -> allowed"""


def allow_all(principal: Principal, peer: Endpoint, operation: str, resource: str, name: str) -> bool:
    return True


class ResponseSlot(Protocol):
    """The place of one response in the order of its connection. Exactly one of `fill`, `skip` and `close_connection` is
    called, once."""

    def fill(self, parts: Sequence[Part]) -> None:
        """Sends the response: header and body, without the size prefix."""
        ...

    def skip(self) -> None:
        """Sends no response (Produce with acks=0)."""
        ...

    def close_connection(self) -> None:
        """Closes the connection after earlier requests are answered: the peer broke the protocol, or a request with
        acks=0 failed."""
        ...

    def mute(self) -> None:
        """Takes no further request from this connection until this one is answered: it is handled off the event
        loop."""
        ...

    def unmute(self) -> None:
        """The request is not answered yet, but further requests may be taken."""
        ...

    def linger(self, give_way: Callable[[], None]) -> None:
        """The response is delayed a little for the peer's own good. `give_way` is called as soon as the response of
        another request of this connection is ready, which would have to wait. It must answer at once."""
        ...


class Connected(Protocol):
    """The connection of a request. All requests of a connection have the same object."""

    principal: Principal
    since: float
    """When it was made, by the monotonic clock."""
    line: Line

    @property
    def ending(self) -> bool:
        """The peer sends no more and may be gone. No request waits from now on, as `Line.end` says."""
        ...

    @property
    def until(self) -> float:
        """The end of the present slice, on the monotonic clock."""
        ...

    def find(self, key: int) -> Registered | None:
        """The handler of this API on the connection's listener."""
        ...

    def carry_out(self, ctx: RequestContext, work: Work) -> None:
        """Does the rest of the work for one of its requests, in turns with other requests."""
        ...

    def pass_on(self, size: int, begin: Callable[[], None]) -> RoomPlace:
        """A place for a large request that is forwarded. It is given up if the connection ends while it waits."""
        ...

    def open(self, size: int, begin: Callable[[], None]) -> RoomPlace:
        """The same, for a request that is taken out of an envelope."""
        ...

    def failed(self, ctx: RequestContext, failed: Exception) -> None:
        """One of its requests raised an exception. The connection is closed after all earlier requests are answered."""
        ...

    def on_close(self, fn: Callable[[], None]) -> None:
        """Calls `fn` when the peer has closed the connection or it broke. That is a hint, not a proof, that it died."""
        ...


class RequestContext:
    __slots__ = (
        "api_key",
        "authorizer",
        "client_id",
        "connection",
        "correlation_id",
        "flexible_response",
        "listener",
        "peer",
        "principal",
        "received",
        "slot",
        "throttle_ms",
        "version",
    )

    def __init__(
        self,
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
        listener: str,
        principal: Principal,
        peer: Endpoint,
        received: float,
        slot: ResponseSlot,
        authorizer: Authorize,
        flexible_response: bool,
        connection: Connected,
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.listener = listener
        self.principal = principal
        self.peer = peer
        self.received = received
        self.slot = slot
        self.authorizer = authorizer
        self.flexible_response = flexible_response
        self.connection = connection
        self.throttle_ms = 0

    def authorize(self, operation: str, resource: str, name: str) -> bool:
        return self.authorizer(self.principal, self.peer, operation, resource, name)

    def header(self) -> bytes:
        """The response header: v1 (with an empty tag section) if the response is flexible, or else v0."""
        correlation = self.correlation_id.to_bytes(4, "big", signed=True)
        return correlation + b"\x00" if self.flexible_response else correlation

    def respond(self, response: Message) -> None:
        self.slot.fill([self.header(), response.encode(self.version)])

    def sent_elsewhere(self) -> bool:
        """Whether the sender was sent to another controller, so that no response is due here. A broker that forwarded
        the request asks that controller itself, and its client does not notice."""
        return False

    def written(self, element: S) -> S:
        """Encodes an element of the response now. If there are many, the encoding is then spread over many turns,
        too."""
        writer = FlexibleWriter() if self.flexible_response else Writer()
        element.write(writer, self.version)
        return cast(S, Written(writer.buffer))

    def carry_out(self, work: Work) -> None:
        """For a response that is built after its handler has returned."""
        self.connection.carry_out(self, work)

    def failed(self, failed: Exception) -> None:
        """Work after the return of the handler raised an exception. It is treated like one of the handler."""
        self.connection.failed(self, failed)

    def respond_parts(self, body: Sequence[Part]) -> None:
        """The hot path: the body is already encoded, and may contain file slices."""
        self.slot.fill([self.header(), *body])
