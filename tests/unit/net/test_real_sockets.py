"""The same server on the sockets of this machine."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import struct
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path, PurePath
from typing import Any

import pytest

from highwater.model import Endpoint
from highwater.net.client import CallFailed, ClientConnection, Gone
from highwater.net.context import RequestContext
from highwater.net.deadlines import DeadlineQueue
from highwater.net.server import Limits, ListenerSpec, Server
from highwater.net.stats import CloseReason
from highwater.wire.framing import MAX_FRAME
from highwater.world import FileSlice
from highwater.world.real import RealWorld, new_event_loop
from tests.unit.net.parties import ASK, Asked, Peer, ask, framed, header, registry
from tests.waiting import until

LOOPS = [new_event_loop, asyncio.SelectorEventLoop]


class Here:
    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits | None) -> None:
        self.loop = loop
        self.failures: list[object] = []
        self.world = RealWorld(loop, lambda name, error: self.failures.append((name, error)))
        self.asked = Asked()
        self.peers: list[Peer] = []
        spec = ListenerSpec("PLAINTEXT", Endpoint("127.0.0.1", 0), registry(self.asked))
        self.server = Server(self.world, [spec], limits)

    @property
    def at(self) -> Endpoint:
        return self.server.endpoints["PLAINTEXT"]

    async def dial(self) -> Peer:
        peer = Peer()
        await self.world.net.dial(lambda: peer, self.at)
        self.peers.append(peer)
        return peer

    async def hang_up(self) -> None:
        """A transport that is left to the collector is an error in whichever test that runs in."""
        for peer in self.peers:
            peer.transport.abort()
        await until(lambda: all(peer.lost for peer in self.peers))


def here(
    scenario: Callable[[Here], Coroutine[Any, Any, None]],
    make_loop: Callable[[], asyncio.AbstractEventLoop] = new_event_loop,
    limits: Limits | None = None,
) -> None:
    loop = make_loop()
    place = Here(loop, limits)

    async def play() -> None:
        await place.server.start()
        try:
            await scenario(place)
        finally:
            await place.server.close(grace=0.1)
            await place.hang_up()

    try:
        loop.run_until_complete(play())
    finally:
        place.world.close()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
    assert place.failures == []


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("make_loop", LOOPS)
def test_ten_thousand_pipelined_requests_are_answered_in_order(make_loop: Any) -> None:
    async def scenario(place: Here) -> None:
        waiting: list[RequestContext] = []

        def react(ctx: RequestContext, body: memoryview) -> None:
            waiting.append(ctx)
            if len(waiting) == 1:
                place.world.clock.call_soon(answer_backwards)

        def answer_backwards() -> None:
            for ctx in reversed(waiting):
                ctx.respond_parts([b"ok"])
            waiting.clear()

        place.asked.react = react
        peer = await place.dial()
        peer.send(*(ask(n, version=9) for n in range(10_000)))
        await until(lambda: len(peer.data) == 10_000 * 11)
        assert peer.correlations == list(range(10_000))

    here(scenario, make_loop)


@pytest.mark.parametrize("make_loop", LOOPS)
def test_large_requests_and_file_answers_pass_unharmed(make_loop: Any, tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "segment").write_bytes(content)

    async def scenario(place: Here) -> None:
        file = place.world.disk.open(PurePath(tmp_path / "segment"))
        place.asked.react = lambda ctx, body: ctx.respond_parts(
            [FileSlice(file, 1000, 2_500_000, lambda: True), bytes(body[-5:])]
        )
        peer = await place.dial()
        peer.send(ask(1, content), ask(2, content[:100_000]))
        await until(lambda: len(peer.frames) == 2)
        for frame, end in zip(peer.frames, (content[-5:], content[99_995:100_000]), strict=True):
            assert frame[4:] == content[1000:2_501_000] + end
        assert place.asked.bodies[0] == content

    here(scenario, make_loop)


@pytest.mark.parametrize("make_loop", LOOPS)
def test_a_peer_that_sends_without_pause_does_not_keep_the_others_from_their_turn(make_loop: Any) -> None:
    request, count = ask(1, bytes(128 * 1024)), 48

    async def scenario(place: Here) -> None:
        turn = sent = 0
        handled: Counter[int] = Counter()

        def next_turn() -> None:
            nonlocal turn
            turn += 1
            if handled.total() < count:
                place.world.clock.call_soon(next_turn)

        def react(ctx: RequestContext, body: memoryview) -> None:
            handled[turn] += 1
            while sent < min(handled.total() + 1, count):
                pass  # the next request is there before this one is answered
            ctx.respond_parts([b"ok"])

        def send_all() -> None:
            nonlocal sent
            for _ in range(count):
                peer.sendall(request)
                sent += 1

        place.asked.react = react
        next_turn()
        with socket.create_connection(place.at) as peer:
            await place.loop.run_in_executor(None, send_all)
            await until(lambda: handled.total() == count)
        assert max(handled.values()) <= 10

    here(scenario, make_loop)


def in_a_process_of_its_own(measure: Callable[..., int], *args: object) -> int:
    """Where nobody else takes memory, and no descriptor is in use."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, *args).result()


def growth_by_stalled_giants() -> int:
    growth = 0

    async def scenario(place: Here) -> None:
        nonlocal growth
        place.asked.react = lambda ctx, body: ctx.respond_parts([b"ok"])
        before = resident()
        sockets = []
        for _ in range(400):
            peer = socket.create_connection(place.at)
            peer.sendall(struct.pack(">i", MAX_FRAME) + bytes(100))
            sockets.append(peer)
            await asyncio.sleep(0)
        await until(lambda: place.server.stats.connections == 400)
        await until(lambda: place.server.stats.bytes_in == 400 * 104)
        growth = resident() - before
        peer = await place.dial()
        peer.send(ask(5))
        await until(lambda: peer.correlations == [5])
        for one in sockets:
            one.close()

    here(scenario)
    return growth


@pytest.mark.slow
def test_hundreds_of_stalled_giants_cost_little_and_others_are_served() -> None:
    assert in_a_process_of_its_own(growth_by_stalled_giants) < 20_000_000


def growth_by_consumers_that_stop_reading(segment: Path) -> int:
    growth = 0

    async def scenario(place: Here) -> None:
        nonlocal growth
        file = place.world.disk.open(PurePath(segment))
        place.asked.react = lambda ctx, body: ctx.respond_parts([FileSlice(file, 0, 20_000_000, lambda: True)])
        before = resident()
        peers = [await place.dial() for _ in range(100)]
        for peer in peers:
            peer.transport.pause_reading()
            peer.send(*(ask(n) for n in range(10)))
        connections = place.server._connections
        await until(lambda: all(each.unread_since is not None for each in connections))
        for _ in range(1000):  # a server that reads on would do so now
            await asyncio.sleep(0)
        growth = resident() - before
        peers[0].transport.resume_reading()
        await until(lambda: len(peers[0].data) == 10 * 20_000_008)
        for peer in peers:
            peer.transport.abort()

    here(scenario)
    return growth


@pytest.mark.slow
def test_a_hundred_consumers_that_stop_reading_cost_a_bounded_buffer_each(tmp_path: Path) -> None:
    (tmp_path / "segment").write_bytes(bytes(20_000_000))
    assert in_a_process_of_its_own(growth_by_consumers_that_stop_reading, tmp_path / "segment") < 150_000_000


@pytest.mark.parametrize("make_loop", LOOPS)
def test_limits_faults_and_half_closes_behave_as_in_the_simulation(make_loop: Any) -> None:
    async def scenario(place: Here) -> None:
        first, second = await place.dial(), await place.dial()
        third = await place.dial()
        await until(lambda: third.lost)
        first.send(b"GET / HTTP/1.1\r\n\r\n")
        await until(lambda: first.lost)
        second.send(ask(1), ask(2))
        second.transport.write_eof()
        await until(lambda: len(place.asked) == 2)
        place.asked[1].respond_parts([b""])
        place.asked[0].respond_parts([b""])
        await until(lambda: second.lost)
        assert second.correlations == [1, 2]
        closed = place.server.stats.closed
        assert (closed[CloseReason.LIMIT], closed[CloseReason.FRAME], closed[CloseReason.PEER]) == (1, 1, 1)

    here(scenario, make_loop, Limits(connections=2))


@pytest.mark.parametrize("make_loop", LOOPS)
def test_a_hold_and_a_graceful_close(make_loop: Any) -> None:
    async def scenario(place: Here) -> None:
        place.server.hold()
        peer = await place.dial()
        peer.send(framed(header(18, 0, 1)), ask(2))
        await until(lambda: peer.correlations == [1])
        place.server.release()
        await until(lambda: len(place.asked) == 1)
        closing = place.loop.create_task(place.server.close(grace=60.0))
        await asyncio.sleep(0)
        place.asked[0].respond_parts([b"last"])
        await closing
        await until(lambda: peer.lost)
        assert peer.correlations == [1, 2]

    here(scenario, make_loop)


@pytest.mark.parametrize("make_loop", LOOPS)
def test_a_client_connection_calls_times_out_and_is_refused(make_loop: Any) -> None:
    async def scenario(place: Here) -> None:
        events: list[object] = []
        answers: list[object] = []
        deadlines = DeadlineQueue(place.world.clock)
        place.asked.react = lambda ctx, body: ctx.respond_parts([bytes(body)]) if body != b"never" else None

        def dial(to: Endpoint) -> ClientConnection:
            connection = ClientConnection(place.world, to, "me", deadlines, events.append)
            connection.open(lambda: events.append("open"), timeout=60.0)
            return connection

        def took(answer: memoryview | CallFailed) -> None:
            answers.append(answer.reason if isinstance(answer, CallFailed) else bytes(answer))

        connection = dial(place.at)
        await until(lambda: events == ["open"])
        assert connection.pick(ASK, (0, 9)) == 9
        big = os.urandom(1_000_000)
        connection.send_raw(ASK, 9, True, [b"x", big], took, 60.0)
        await until(lambda: len(answers) == 1)
        connection.send_raw(ASK, 9, True, [b"never"], took, 0.05)
        await until(lambda: len(events) == 2)
        assert answers == [b"x" + big, Gone.TIMED_OUT]
        assert events == ["open", Gone.TIMED_OUT]
        await until(lambda: len(place.asked) == 2)
        place.asked[-1].slot.skip()
        with socket.socket() as deaf:
            deaf.bind(("127.0.0.1", 0))  # nobody else gets the port meanwhile, and nobody listens at it
            dial(Endpoint("127.0.0.1", deaf.getsockname()[1]))
            await until(lambda: len(events) == 3)
        assert events[2] is Gone.REFUSED

    here(scenario, make_loop)
