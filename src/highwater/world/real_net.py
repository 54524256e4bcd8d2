"""Sockets of this machine, through the transports of the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import encodings.idna  # noqa: F401  # for names of hosts: else the loop would import it when it first dials
import socket
from asyncio import AbstractEventLoop, BaseTransport, BufferedProtocol, Transport
from collections.abc import Callable
from ssl import SSLContext
from typing import cast

from highwater.model import Endpoint
from highwater.world import ConnectionRefused, Dead, Unreachable


class RealListener:
    def __init__(self, server: asyncio.Server, endpoint: Endpoint) -> None:
        self._server = server
        self.endpoint = endpoint

    def close(self) -> None:
        self._server.close()


class RealNet:
    def __init__(self, loop: AbstractEventLoop, room: int) -> None:
        self._loop = loop
        self.room = room
        self._listeners: list[RealListener] = []
        self._transports: set[Transport] = set()
        self._sweep_at = 64
        self._dead = False

    async def listen(
        self, factory: Callable[[], BufferedProtocol], at: Endpoint, tls: SSLContext | None = None
    ) -> RealListener:
        self._check_alive()
        server = await self._loop.create_server(
            lambda: self._tracked(factory()), at.host or None, at.port, ssl=tls, reuse_address=True, backlog=1024
        )
        host = at.host or await self._own_name()
        listener = RealListener(server, Endpoint(host, server.sockets[0].getsockname()[1]))
        self._listeners.append(listener)
        return listener

    async def _own_name(self) -> str:
        """For a listener on every interface: others dial what it advertises, and nobody can dial an empty host."""
        name = socket.gethostname()
        try:
            await self._loop.getaddrinfo(name, None)
        except OSError:
            return "localhost"
        return name

    async def dial(
        self, factory: Callable[[], BufferedProtocol], to: Endpoint, tls: SSLContext | None = None
    ) -> Transport:
        """The caller limits the time by cancelling. By itself the system gives up only after minutes."""
        self._check_alive()
        try:
            transport, _ = await self._loop.create_connection(factory, to.host, to.port, ssl=tls)
        except ConnectionRefusedError as failed:
            raise ConnectionRefused(f"nothing listens at {to}") from failed
        except OSError as failed:
            raise Unreachable(f"no connection to {to}: {failed}") from failed
        raw = transport.get_extra_info("socket")
        if raw is not None:
            with contextlib.suppress(OSError):
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._track(transport)
        return transport

    def _tracked(self, protocol: BufferedProtocol) -> BufferedProtocol:
        """Notes the transport of an accepted connection, because a crash closes those, too."""

        def connection_made(transport: BaseTransport) -> None:
            del protocol.connection_made
            if self._dead:
                cast(Transport, transport).abort()
                return
            self._track(cast(Transport, transport))
            protocol.connection_made(transport)

        protocol.connection_made = connection_made  # type: ignore[method-assign]
        return protocol

    def _track(self, transport: Transport) -> None:
        """A plain set that is swept as it grows: uvloop's TLS transports take no weak references."""
        if len(self._transports) >= self._sweep_at:
            self._transports = {open_one for open_one in self._transports if not open_one.is_closing()}
            self._sweep_at = max(64, 2 * len(self._transports))
        self._transports.add(transport)

    def _check_alive(self) -> None:
        if self._dead:
            raise Dead

    def crash(self) -> None:
        self._dead = True
        for listener in self._listeners:
            listener.close()
        for transport in list(self._transports):
            transport.abort()
