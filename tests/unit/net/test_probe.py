"""What proves that a process is dead, on the sockets of this machine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from highwater.model import Endpoint
from highwater.net.deadlines import DeadlineQueue
from highwater.net.probe import Probe
from highwater.world.real import RealWorld, new_event_loop


def verdict_on(at: Endpoint) -> bool:
    loop = new_event_loop()
    try:
        return loop.run_until_complete(_ask(loop, at))
    finally:
        loop.close()


async def _ask(loop: asyncio.AbstractEventLoop, at: Endpoint) -> bool:
    failures: list[object] = []
    world = RealWorld(loop, lambda name, error: failures.append((name, error)))
    outcome: asyncio.Future[bool] = loop.create_future()
    Probe(world, at, DeadlineQueue(world.clock), outcome.set_result)
    async with asyncio.timeout(120):
        verdict = await outcome
    assert not failures
    return verdict


@contextmanager
def listening(backlog: int) -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as server:
        yield server


def test_a_port_without_a_listener_is_proof() -> None:
    with listening(1) as server:
        at = Endpoint(*server.getsockname())
    assert verdict_on(at)


def test_a_full_accept_backlog_proves_nothing() -> None:
    """Its owner is too busy to accept, or stopped: the kernel answers nobody who comes then."""
    with listening(0) as server, ExitStack() as callers:
        at = Endpoint(*server.getsockname())
        for _ in range(16):
            caller = callers.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(at)
        assert not verdict_on(at)


def test_a_port_that_another_process_has_proves_nothing() -> None:
    with listening(128) as server:
        assert not verdict_on(Endpoint(*server.getsockname()))
