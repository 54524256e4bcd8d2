"""Just enough HTTP to be looked at by a browser, curl or Prometheus: GET, one answer, close."""

from __future__ import annotations

import logging
from asyncio import BaseTransport, BufferedProtocol, Transport
from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

from highwater.model import Endpoint
from highwater.world import Listener, World

MAX_REQUEST = 8192
_log = logging.getLogger(__name__)


class Page(NamedTuple):
    content_type: str
    body: bytes


Routes = Mapping[str, Callable[[], Page]]
"""Path -> what to answer, made when it is asked for."""


class HttpServer:
    """Read-only. It answers requests whose Host header names a loopback address or its own (against DNS rebinding)."""

    def __init__(self, world: World, routes: Routes) -> None:
        self._world = world
        self._routes = routes
        self._listener: Listener | None = None
        self.hosts: set[str] = {"localhost", "127.0.0.1", "[::1]"}

    async def start(self, at: Endpoint) -> Endpoint:
        self.hosts.add(at.host)
        self._listener = await self._world.net.listen(lambda: _Request(self), at)
        return self._listener.endpoint

    def answer(self, request: bytes) -> bytes:
        head, *lines = request.decode("latin-1").split("\r\n")
        words = head.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _response(400, Page("text/plain", b"not an HTTP request\n"))
        if words[0] not in ("GET", "HEAD"):
            return _response(405, Page("text/plain", b"only GET is answered\n"))
        host = next((line[5:].strip() for line in lines if line.lower().startswith("host:")), "localhost")
        if host.rpartition(":")[0] not in self.hosts and host not in self.hosts:
            return _response(403, Page("text/plain", b"this host name is not ours\n"))
        route = self._routes.get(words[1].partition("?")[0])
        if route is None:
            known = " ".join(sorted(self._routes))
            return _response(404, Page("text/plain", f"not here; try {known}\n".encode()))
        response = _response(200, route())
        return response if words[0] == "GET" else response[: response.index(b"\r\n\r\n") + 4]

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()


_REASONS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed"}


def _response(status: int, page: Page) -> bytes:
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + page.body


class _Request(BufferedProtocol):
    """One connection, one request; a request larger than a few kilobytes is no request of ours."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._buffer = bytearray(MAX_REQUEST)
        self._got = 0
        self._transport: Transport | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        self._transport = cast(Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._got :]

    def buffer_updated(self, nbytes: int) -> None:
        self._got += nbytes
        assert self._transport is not None
        end = self._buffer.find(b"\r\n\r\n", 0, self._got)
        if end < 0 and self._got < MAX_REQUEST:
            return
        if end >= 0:
            try:
                self._transport.write(self._server.answer(bytes(self._buffer[:end])))
            except Exception:  # noqa: BLE001 the boundary between one look and the node
                _log.exception("a page could not be made")
        self._transport.close()

    def eof_received(self) -> bool:
        return False
