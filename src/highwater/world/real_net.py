"""Sockets of this machine, through the loop's own transports."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from asyncio import AbstractEventLoop, BufferedProtocol, Transport
from collections.abc import Callable
from ssl import SSLContext

from highwater.model import Endpoint
from highwater.world import Dead, Refused, Unreachable


class RealListener:
    def __init__(self, server: asyncio.Server, endpoint: Endpoint) -> None:
        self._server = server
        self.endpoint = endpoint

    def close(self) -> None:
        self._server.close()


class RealNet:
    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._listeners: list[RealListener] = []
        self._dialled: set[Transport] = set()
        self._dead = False

    async def listen(
        self, factory: Callable[[], BufferedProtocol], at: Endpoint, tls: SSLContext | None = None
    ) -> RealListener:
        self._check_alive()
        server = await self._loop.create_server(
            factory, at.host or None, at.port, ssl=tls, reuse_address=True, backlog=1024
        )
        listener = RealListener(server, Endpoint(at.host, server.sockets[0].getsockname()[1]))
        self._listeners.append(listener)
        return listener

    async def dial(
        self, factory: Callable[[], BufferedProtocol], to: Endpoint, tls: SSLContext | None = None
    ) -> Transport:
        """Whoever dials says for how long, by cancelling; by itself the system gives up after minutes."""
        self._check_alive()
        try:
            transport, _ = await self._loop.create_connection(factory, to.host, to.port, ssl=tls)
        except ConnectionRefusedError as failed:
            raise Refused(f"nothing listens at {to}") from failed
        except OSError as failed:
            raise Unreachable(f"no connection to {to}: {failed}") from failed
        raw = transport.get_extra_info("socket")
        if raw is not None:
            with contextlib.suppress(OSError):
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A plain set: uvloop's transports with TLS take no weak references.
        self._dialled = {open_one for open_one in self._dialled if not open_one.is_closing()}
        self._dialled.add(transport)
        return transport

    def _check_alive(self) -> None:
        if self._dead:
            raise Dead

    def crash(self) -> None:
        self._dead = True
        for listener in self._listeners:
            listener.close()
        for transport in self._dialled:
            transport.abort()
