"""A minimal HTTP server for browsers, curl and Prometheus: GET, one response, close.

A page is made in parts, with a turn of the loop between two. So a page of a thousand partitions does not delay
producers and consumers. Each connection takes a file descriptor, so there are only a few, and none lasts long.
"""

from __future__ import annotations

import logging
from asyncio import BaseTransport, BufferedProtocol, Transport
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import ip_address
from typing import NamedTuple, cast
from urllib.parse import parse_qsl

from highwater.model import Endpoint
from highwater.world import ListeningSocket, Timer, World

MAX_REQUEST = 8192
MAX_CONNECTIONS = 32
ASK_SECONDS = 10.0
"""The time for a whole request to arrive."""
MAX_UNSENT = 256 * 1024
TAKE_SECONDS = 30.0
"""The time for the peer to read what was written."""
_log = logging.getLogger(__name__)


Wait = Callable[[Callable[[], None]], None]
"""Something that a page waits for. It is called with a function, and calls that function once when the page can go
on."""
Part = bytes | Wait


class Page(NamedTuple):
    content_type: str
    parts: Iterable[Part]


Query = Mapping[str, str]
"""The parameters behind the `?` of an address, decoded. A parameter without a value is empty, and the last of several
counts."""
Routes = Mapping[str, Callable[[Query], Page]]
"""Path -> a function that makes the page. It raises NoPage for a query that it cannot answer."""


class NoPage(Exception):
    """The answer to a query that has no page: an HTTP status, and a line that says why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class HttpServer:
    """Read-only. The Host header must be an address, localhost or one of `names`. So a foreign web page whose name was
    pointed to this address (DNS rebinding) gets nothing."""

    def __init__(self, world: World, routes: Routes, names: Iterable[str] = ()) -> None:
        self._world = world
        self.failures = world.failures
        self._routes = routes
        self._listener: ListeningSocket | None = None
        self._names = {"localhost", *names}
        self._connections: dict[_Request, None] = {}
        """Open connections, the oldest first."""
        self._due: deque[tuple[Callable[[Iterator[Part]], None], Iterator[Part]]] = deque()
        """Pages that can go on."""

    async def start(self, at: Endpoint) -> Endpoint:
        self._names.add(at.host)
        self._listener = await self._world.net.listen(lambda: _Request(self), at)
        return self._listener.endpoint

    def answer(self, request: bytes) -> Iterator[Part]:
        """The parts of the response. An exception of the page is raised while they are taken."""
        yield from self._chosen(request)

    def _chosen(self, request: bytes) -> Iterator[Part]:
        head, *lines = request.decode("latin-1").split("\r\n")
        words = head.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _response(400, _text("not an HTTP request"))
        if words[0] not in ("GET", "HEAD"):
            return _response(405, _text("only GET is answered"))
        host = next((line[5:].strip() for line in lines if line.lower().startswith("host:")), "localhost")
        if not self._is_ours(host):
            return _response(403, _text("this host name is not ours"))
        path, _, query = words[1].partition("?")
        route = self._routes.get(path)
        if route is None:
            return _response(404, _text(f"not here; try {' '.join(sorted(self._routes))}"))
        try:
            page = route(dict(parse_qsl(query, keep_blank_values=True)))
        except NoPage as none:
            return _response(none.status, _text(str(none)))
        return _response(200, page if words[0] == "GET" else Page(page.content_type, ()))

    def admit(self, request: _Request) -> None:
        """Beyond MAX_CONNECTIONS one is closed: the oldest without a request, or the new one if all have one."""
        self._connections[request] = None
        if len(self._connections) > MAX_CONNECTIONS:
            next((each for each in self._connections if not each.is_answered), request).abort()

    def forget(self, request: _Request) -> None:
        self._connections.pop(request, None)

    def later(self, seconds: float, then: Callable[[], None]) -> Timer:
        return self._world.clock.call_later(seconds, then)

    def soon(self, then: Callable[[Iterator[Part]], None], parts: Iterator[Part]) -> None:
        """In a turn of the loop for itself: otherwise a turn would have a part of each of many pages."""
        self._due.append((then, parts))
        if len(self._due) == 1:
            self._world.clock.call_soon(self._next)

    def _next(self) -> None:
        then, parts = self._due[0]
        try:
            then(parts)
        finally:
            self._due.popleft()
            if self._due:
                self._world.clock.call_soon(self._next)

    def _is_ours(self, host: str) -> bool:
        """`host` is a Host header: a name or an address, perhaps with a port."""
        name, colon, port = host.rpartition(":")
        if not colon or not port.isdigit():
            name = host
        if name in self._names:
            return True
        try:
            ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for request in list(self._connections):
            request.abort()


_REASONS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed"}


def _text(line: str) -> Page:
    return Page("text/plain", (f"{line}\n".encode(),))


def _response(status: int, page: Page) -> Iterator[Part]:
    """The end of the connection ends the response: the length of a page is not known before it is made."""
    yield (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {page.content_type}\r\n"
        f"Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    ).encode("ascii")
    yield from page.parts


class _Request(BufferedProtocol):
    """One connection with one request. A request of more than a few kilobytes is refused."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._buffer = bytearray(MAX_REQUEST)
        self._got = 0
        self.is_answered = False
        self._transport: Transport | None = None
        self._deadline: Timer | None = None
        self._rest: Iterator[Part] | None = None
        """The rest of the response, for when the peer has read what was sent."""
        self._paused = False

    def connection_made(self, transport: BaseTransport) -> None:
        self._transport = cast(Transport, transport)
        self._transport.set_write_buffer_limits(high=MAX_UNSENT)
        self._deadline = self._server.later(ASK_SECONDS, self.abort)
        self._server.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_longer()
        self._rest = None
        self._server.forget(self)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _wait_no_longer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def pause_writing(self) -> None:
        self._paused = True
        self._wait_no_longer()
        self._deadline = self._server.later(TAKE_SECONDS, self.abort)

    def resume_writing(self) -> None:
        self._paused = False
        assert self._transport is not None
        if self._transport.is_closing():
            return  # the deadline for the whole response still applies to the rest
        self._wait_no_longer()
        rest, self._rest = self._rest, None
        if rest is not None:
            self._server.soon(self._send, rest)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._got :]

    def buffer_updated(self, nbytes: int) -> None:
        if self.is_answered:
            return  # further bytes are ignored: there is only one request
        self._got += nbytes
        assert self._transport is not None
        end = self._buffer.find(b"\r\n\r\n", 0, self._got)
        if end < 0 and self._got < MAX_REQUEST:
            return
        if end < 0:
            self._transport.close()
        else:
            self.is_answered = True
            self._wait_no_longer()
            asked = bytes(self._buffer[:end])
            self._got = 0
            self._server.soon(self._send, self._server.answer(asked))

    def _send(self, parts: Iterator[Part]) -> None:
        assert self._transport is not None
        if self._transport.is_closing():
            return
        if self._paused:
            self._rest = parts
            return
        try:
            part = next(parts, None)
        except Exception as failed:  # noqa: BLE001 the boundary between one page and the node
            self._server.failures.note("connection", "a page of /status or /metrics", failed)
            self._transport.abort()  # half of a page must not look like the whole
            return
        if part is None:
            self._wait_no_longer()
            self._deadline = self._server.later(TAKE_SECONDS, self.abort)
            self._transport.close()
        elif callable(part):
            part(lambda: self._server.soon(self._send, parts))
        else:
            self._transport.write(part)
            self._server.soon(self._send, parts)

    def eof_received(self) -> bool:
        """A client that has sent its request and half-closed the connection still waits for the response."""
        return self.is_answered
