"""Runs the console on a socket until a signal ends it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp


def serve(application: ASGIApp, on: socket.socket, is_over: Callable[[], bool]) -> None:
    """There is no access log: an address may hold a token. `is_over` is asked every tenth of a second."""
    settings = uvicorn.Config(
        application,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ws="none",
        http="h11",
        loop="asyncio",
        lifespan="on",
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=64 << 10,
        limit_concurrency=512,
    )
    _Server(settings, is_over).run(sockets=[on])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, is_over: Callable[[], bool]) -> None:
        super().__init__(config)
        self._is_over = is_over

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The console keeps nothing that would have to be written, and a stream that is open would hold it up."""
        os._exit(0)

    async def on_tick(self, counter: int) -> bool:
        return self._is_over() or await super().on_tick(counter)
