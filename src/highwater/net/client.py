"""The client side: one connection to another node, used through callbacks."""

from __future__ import annotations

import logging
from asyncio import BaseTransport, BufferedProtocol, Task, Transport
from collections import deque
from collections.abc import Callable, Sequence
from enum import StrEnum
from ssl import SSLContext
from struct import Struct
from typing import Any, Final, NamedTuple, TypeVar, cast

from highwater.errors import Code
from highwater.model import Endpoint
from highwater.net.api_versions import API_VERSIONS
from highwater.net.deadlines import Deadline, DeadlineQueue
from highwater.net.header import after_tags
from highwater.wire.codec import Malformed, Message
from highwater.wire.framing import MAX_FRAME, ChunkPool, FrameFault, FrameReader
from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.api_versions_response import ApiVersionsResponse
from highwater.world import Buffer, ConnectionRefused, Unreachable, World

M = TypeVar("M", bound=Message)
_HEADER: Final = Struct(">ihhih")
_CORRELATION: Final = Struct(">i")
_BEFORE_CLIENT_ID: Final = _HEADER.size - 4

log = logging.getLogger(__name__)


class Gone(StrEnum):
    """Why a connection ended."""

    REFUSED = "refused"
    """No process listens there. Two refusals prove that the process is dead."""
    UNREACHABLE = "unreachable"
    """The connection attempt got no answer, which proves nothing."""
    LOST = "lost"
    """It was open, and the peer closed it or it broke. This is a hint that the peer died."""
    TIMED_OUT = "timed out"
    """The connection attempt or a request timed out. Without that response the order of responses is lost."""
    BROKEN = "broken"
    """The peer sent a response that no Kafka node would send."""
    CLOSED = "closed"
    """This node closed it."""


class CallFailed(Exception):
    """The request has no response and will get none. The peer may have carried it out nevertheless."""

    def __init__(self, reason: Gone, peer: Endpoint) -> None:
        super().__init__(f"{peer}: {reason.value}")
        self.reason = reason


class _Call(NamedTuple):
    correlation: int
    flexible: bool
    decode: Callable[[memoryview], Any] | None
    done: Callable[[Any], None]
    deadline: Deadline


class ClientConnection(BufferedProtocol):
    """Opened once and ended once. A caller that wants another connection makes a new object, after its own backoff.

    Every call's `done` is called exactly once, with the response or with CallFailed, and never from within `send`.
    `on_close` is called after the last of them.
    """

    def __init__(
        self,
        world: World,
        to: Endpoint,
        client_id: str,
        deadlines: DeadlineQueue,
        on_close: Callable[[Gone], None],
        *,
        tls: SSLContext | None = None,
        max_frame: int = MAX_FRAME,
        chunks: ChunkPool | None = None,
    ) -> None:
        self._world = world
        self.peer = to
        self._client_id = client_id.encode()
        self._deadlines = deadlines
        self._on_close = on_close
        self._tls = tls
        self._frames = FrameReader(chunks or ChunkPool(), max_frame)
        self._calls: deque[_Call] = deque()
        self._correlation = 0
        self._transport: Transport | None = None
        self._dialling: Task[None] | None = None
        self._dial_deadline: Deadline | None = None
        self.ended: Gone | None = None
        self.versions: dict[int, tuple[int, int]] = {}
        """The versions that the peer advertises, by API key, after negotiation."""

    def open(self, on_open: Callable[[], None], timeout: float, negotiate: bool = True) -> None:
        """Connects, asks for the peer's versions if `negotiate` is set, and calls `on_open`; or else `on_close`, with
        the reason."""
        self._dial_deadline = self._deadlines.add(timeout, self._end, Gone.TIMED_OUT)
        dial = self._dial(on_open, timeout, negotiate)
        self._dialling = self._world.spawn(f"dial {self.peer}", dial, lambda _: self._end(Gone.CLOSED))

    def pick(self, api_key: int, versions: tuple[int, int]) -> int | None:
        """The highest version that both sides support; None if there is none."""
        theirs = self.versions.get(api_key)
        if theirs is None:
            return None
        highest = min(versions[1], theirs[1])
        return highest if highest >= max(versions[0], theirs[0]) else None

    def send(
        self,
        request: Message,
        version: int,
        response: type[M],
        done: Callable[[M | CallFailed], None],
        timeout: float,
    ) -> None:
        self._send(
            request.API_KEY,
            version,
            version >= request.FLEXIBLE,
            [request.encode(version)],
            lambda body: response.decode(body, version),
            done,
            timeout,
        )

    def send_raw(
        self,
        api_key: int,
        version: int,
        flexible: bool,
        body: Sequence[Buffer],
        done: Callable[[memoryview | CallFailed], None],
        timeout: float,
    ) -> None:
        """The hot path: sends an encoded body, and passes a writable view of the response's body to `done`.

        If `done` raises Malformed, the peer counts as broken.
        """
        self._send(api_key, version, flexible, body, None, done, timeout)

    def close(self) -> None:
        self._end(Gone.CLOSED)

    def _send(
        self,
        api_key: int,
        version: int,
        flexible: bool,
        body: Sequence[Buffer],
        decode: Callable[[memoryview], Any] | None,
        done: Callable[[Any], None],
        timeout: float,
    ) -> None:
        if self._transport is None:
            self._world.clock.call_soon(done, CallFailed(self.ended or Gone.LOST, self.peer))
            return
        self._correlation = correlation = (self._correlation + 1) & 0x7FFFFFFF
        client_id = self._client_id
        size = _BEFORE_CLIENT_ID + len(client_id) + flexible + sum(map(len, body))
        header = _HEADER.pack(size, api_key, version, correlation, len(client_id)) + client_id
        deadline = self._deadlines.add(timeout, self._end, Gone.TIMED_OUT)
        flexible_answer = flexible and api_key != API_VERSIONS.key
        self._calls.append(_Call(correlation, flexible_answer, decode, done, deadline))
        self._transport.writelines([header + b"\x00" if flexible else header, *body])

    # --- the transport's side

    def connection_made(self, transport: BaseTransport) -> None:
        if self.ended is None:
            self._transport = cast(Transport, transport)
        else:
            cast(Transport, transport).abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.space()

    def buffer_updated(self, nbytes: int) -> None:
        frames = self._frames
        frames.received(nbytes)
        try:
            while self.ended is None and (frame := frames.next()) is not None:
                self._answer(frame)
        except (FrameFault, Malformed) as fault:
            log.warning("%s sent a broken answer: %s", self.peer, fault)
            self._end(Gone.BROKEN)
        frames.settle()

    def eof_received(self) -> bool:
        self._end(Gone.LOST)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(Gone.LOST)

    # --- calls

    def _answer(self, frame: memoryview) -> None:
        if not self._calls:
            raise Malformed("a response without a request")
        call = self._calls[0]
        if len(frame) < 4 or _CORRELATION.unpack_from(frame)[0] != call.correlation:
            raise Malformed(f"not the answer to request {call.correlation}")
        body = frame[after_tags(frame, 4) if call.flexible else 4 :]
        answer = body if call.decode is None else call.decode(body)
        self._calls.popleft()
        call.deadline.cancel()
        try:
            call.done(answer)
        except Malformed:
            raise
        except Exception as failed:  # noqa: BLE001 the boundary between one answer and the node
            self._world.failures.note("connection", f"an answer of {self.peer}", failed)
            self._end(Gone.CLOSED)

    def _end(self, reason: Gone) -> None:
        if self.ended is not None:
            return
        self.ended = reason
        if self._dial_deadline is not None:
            self._dial_deadline.cancel()
        if self._dialling is not None and self._transport is None:
            self._dialling.cancel()
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        self._frames.clear()
        calls, self._calls = self._calls, deque()
        for call in calls:
            call.deadline.cancel()
            self._world.clock.call_soon(call.done, CallFailed(reason, self.peer))
        self._world.clock.call_soon(self._on_close, reason)

    # --- opening

    async def _dial(self, on_open: Callable[[], None], timeout: float, negotiate: bool) -> None:
        failed: Gone | None = None
        try:
            await self._world.net.dial(lambda: self, self.peer, self._tls)
        except ConnectionRefused:
            failed = Gone.REFUSED
        except Unreachable:
            failed = Gone.UNREACHABLE
        self._dialling = None
        if self._dial_deadline is not None:
            self._dial_deadline.cancel()
        if failed is not None:
            self._end(failed)
        elif self.ended is None:
            if negotiate:
                self._ask_versions(API_VERSIONS.versions[1], on_open, timeout)
            else:
                on_open()

    def _ask_versions(self, version: int, on_open: Callable[[], None], timeout: float) -> None:
        """A peer that does not support `version` answers in version 0 and lists its versions (KIP-511)."""

        def done(body: memoryview | CallFailed) -> None:
            if isinstance(body, CallFailed):
                return  # on_close gets the reason
            refused = body[:2] == Code.UNSUPPORTED_VERSION.to_bytes(2, "big")
            answer = ApiVersionsResponse.decode(body, 0 if refused else version)
            self.versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
            if refused and version > 0:
                common = self.pick(API_VERSIONS.key, API_VERSIONS.versions)
                self._ask_versions(0 if common is None or common == version else common, on_open, timeout)
            elif answer.error_code:
                raise Malformed(f"ApiVersions answered error {answer.error_code}")
            else:
                on_open()

        request = ApiVersionsRequest(client_software_name="highwater", client_software_version="1")
        flexible = version >= ApiVersionsRequest.FLEXIBLE
        self.send_raw(API_VERSIONS.key, version, flexible, [request.encode(version)], done, timeout)
