"""What a handler is given with a request: who asks, through which listener, and how to answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, cast

from highwater.model import Endpoint
from highwater.net.line import Line
from highwater.net.room import Place
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
    """The place of one answer in its connection's order. Exactly one of these is called, once."""

    def fill(self, parts: Sequence[Part]) -> None:
        """The whole response body and header, without the size prefix."""
        ...

    def skip(self) -> None:
        """No answer (Produce with acks=0)."""
        ...

    def close_connection(self) -> None:
        """The peer broke the protocol, or asked with acks=0 for what failed. Earlier requests are answered first."""
        ...

    def mute(self) -> None:
        """Take no further request from this connection until this one is answered: it is worked on off the loop."""
        ...

    def unmute(self) -> None:
        """It is not answered yet, but all that had to come before further requests is done."""
        ...

    def linger(self, give_way: Callable[[], None]) -> None:
        """It is answered a little later for the peer's own good. `give_way` is called, to have it answered, as soon as
        anything else on this connection would wait for it: another of its requests is answered."""
        ...


class Connected(Protocol):
    """The connection that a request came on: the same object for all its requests."""

    principal: Principal
    since: float
    """When it was made, by the monotonic clock."""
    line: Line

    @property
    def ending(self) -> bool:
        """The peer sends no more, and may be gone: as `Line.end` says, nobody waits from here on."""
        ...

    @property
    def until(self) -> float:
        """By the monotonic clock: when the request that is handled now gives way."""
        ...

    def find(self, key: int) -> Registered | None:
        """What its listener answers this API with now."""
        ...

    def carry_out(self, ctx: RequestContext, work: Work) -> None:
        """Do the rest of what one of its requests asks for, by turns with other requests."""
        ...

    def pass_on(self, size: int, begin: Callable[[], None]) -> Place:
        """A place for a large request that is passed on; it is given up where the connection ends before it is had."""
        ...

    def open(self, size: int, begin: Callable[[], None]) -> Place:
        """The same for one that is taken out of an envelope."""
        ...

    def failed(self, ctx: RequestContext, failed: Exception) -> None:
        """One of its requests met a mistake: it is closed once all earlier ones are answered."""
        ...

    def on_close(self, fn: Callable[[], None]) -> None:
        """Call `fn` once the peer has closed or the connection broke: a hint, no proof, that the peer died."""
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
        """The response header: v1 (with its empty tag section) where the response is flexible, else v0."""
        correlation = self.correlation_id.to_bytes(4, "big", signed=True)
        return correlation + b"\x00" if self.flexible_response else correlation

    def respond(self, response: Message) -> None:
        self.slot.fill([self.header(), response.encode(self.version)])

    def written(self, element: S) -> S:
        """An element of the answer, encoded now: where there are many, their encoding takes as long as their making."""
        writer = FlexibleWriter() if self.flexible_response else Writer()
        element.write(writer, self.version)
        return cast(S, Written(writer.buffer))

    def carry_out(self, work: Work) -> None:
        """For an answer that is made later than its handler returned."""
        self.connection.carry_out(self, work)

    def failed(self, failed: Exception) -> None:
        """What was done for it after its handler returned met a mistake: as if the handler had."""
        self.connection.failed(self, failed)

    def respond_parts(self, body: Sequence[Part]) -> None:
        """The hot path: a body already encoded, file slices and all."""
        self.slot.fill([self.header(), *body])
