"""Links that are cut or slow, seen from both ends of one connection over real sockets."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from asyncio import BaseTransport, BufferedProtocol, Transport
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from highwater.cluster.links import Links
from highwater.faults import CLEAR, Condition, FaultyNet
from highwater.faults import net as faulty_net
from highwater.model import Endpoint, NodeId
from highwater.world import Unreachable
from highwater.world.real import RealWorld, new_event_loop
from tests.waiting import until

PEER = NodeId(2)
OUT = Condition(outgoing_held=True)
IN = Condition(incoming_held=True)
BOTH = Condition(outgoing_held=True, incoming_held=True)


class End(BufferedProtocol):
    """One end of a connection, with a buffer small enough that everything comes in pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray(7)
        self.received = b""
        self.ended = False
        self.eof = False
        self.transport: Transport

    def connection_made(self, transport: BaseTransport) -> None:
        self.transport = cast(Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]

    def eof_received(self) -> bool:
        self.eof = True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True


class Pair:
    """A listener, the faulty network of one who dials it, and both ends once they have met."""

    def __init__(self, world: RealWorld, net: FaultyNet, at: Endpoint, accepted: list[End]) -> None:
        self.net = net
        self.at = at
        self._accepted = accepted
        self.near = End()

    @property
    def far(self) -> End:
        return self._accepted[-1]

    async def dial(self) -> None:
        met = len(self._accepted)
        await self.net.dial(lambda: self.near, self.at)
        await until(lambda: len(self._accepted) > met)

    def be(self, condition: Condition) -> None:
        self.net.change(PEER, condition)


async def turns() -> None:
    """Long enough for loopback bytes to arrive, if nothing holds them: another connection is used up meanwhile."""
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    for _ in range(5):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        assert await reader.read() == b""
        writer.close()
    server.close()
    await server.wait_closed()


def play(scene: Callable[[Pair], Coroutine[Any, Any, None]], known: bool = True) -> None:
    async def whole() -> None:
        world = RealWorld(asyncio.get_running_loop(), lambda name, failed: None)
        accepted: list[End] = []

        def accept() -> End:
            accepted.append(End())
            return accepted[-1]

        listener = await world.net.listen(accept, Endpoint("127.0.0.1", 0))
        peer = listener.endpoint if known else Endpoint("127.0.0.1", 1)
        try:
            await scene(Pair(world, FaultyNet(world.net, world.clock, {peer: PEER}), listener.endpoint, accepted))
        finally:
            world.crash()
            await asyncio.sleep(0)
            world.close()

    loop = new_event_loop()
    try:
        loop.run_until_complete(whole())
    finally:
        loop.close()


def test_a_clear_link_passes_everything_both_ways() -> None:
    async def scene(pair: Pair) -> None:
        await pair.dial()
        pair.near.transport.writelines([b"there ", b"and more than seven bytes"])
        pair.far.transport.write(b"back, in several pieces")
        await until(lambda: pair.far.received == b"there and more than seven bytes")
        await until(lambda: pair.near.received == b"back, in several pieces")
        pair.near.transport.abort()
        await until(lambda: pair.far.ended and pair.near.ended)

    play(scene)


def test_bytes_over_a_cut_wait_for_it_to_heal_in_their_order() -> None:
    async def scene(pair: Pair) -> None:
        await pair.dial()
        pair.be(BOTH)
        pair.near.transport.write(b"one ")
        pair.near.transport.write(b"two")
        pair.far.transport.write(b"three")
        await turns()
        assert (pair.near.received, pair.far.received) == (b"", b"")
        pair.be(CLEAR)
        pair.near.transport.write(b" three")
        await until(lambda: pair.far.received == b"one two three" and pair.near.received == b"three")

    play(scene)


@pytest.mark.parametrize("held", [OUT, IN], ids=["outgoing", "incoming"])
def test_a_cut_of_one_direction_leaves_the_other_alone(held: Condition) -> None:
    async def scene(pair: Pair) -> None:
        await pair.dial()
        pair.be(held)
        pair.near.transport.write(b"out")
        pair.far.transport.write(b"in")
        passing, waiting = (pair.near, pair.far) if held is OUT else (pair.far, pair.near)
        await until(lambda: passing.received)
        await turns()
        assert waiting.received == b""
        pair.be(CLEAR)
        await until(lambda: waiting.received)

    play(scene)


def test_the_peer_does_not_learn_of_a_close_over_a_cut_but_the_owner_does() -> None:
    async def scene(pair: Pair) -> None:
        await pair.dial()
        pair.be(BOTH)
        pair.near.transport.abort()
        await until(lambda: pair.near.ended)
        await turns()
        assert not pair.far.ended and not pair.far.eof
        pair.be(CLEAR)
        await until(lambda: pair.far.ended)

    play(scene)


def test_the_owner_does_not_learn_of_a_peer_that_closes_over_a_cut() -> None:
    async def scene(pair: Pair) -> None:
        await pair.dial()
        pair.be(BOTH)
        pair.far.transport.write(b"last words")
        pair.far.transport.close()
        await until(lambda: pair.far.ended)
        await turns()
        assert not pair.near.ended and not pair.near.eof
        pair.be(CLEAR)
        await until(lambda: pair.near.ended)
        assert pair.near.received == b"last words"

    play(scene)


def test_the_owner_does_not_learn_of_a_reset_over_a_cut() -> None:
    async def scene(pair: Pair) -> None:
        await pair.dial()
        pair.be(BOTH)
        at_once = struct.pack("ii", 1, 0)
        pair.far.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        pair.far.transport.abort()
        await until(lambda: pair.far.ended)
        await turns()
        assert not pair.near.ended
        pair.be(CLEAR)
        await until(lambda: pair.near.ended)
        assert not pair.near.eof

    play(scene)


def test_a_cut_is_held_at_both_ends_and_a_one_way_cut_in_its_direction() -> None:
    links = Links()
    links.cut(NodeId(1), PEER, one_way=False)
    assert links.between(NodeId(1), PEER) == links.between(PEER, NodeId(1)) == BOTH
    links.heal()
    links.cut(NodeId(1), PEER, one_way=True)
    assert (links.between(NodeId(1), PEER), links.between(PEER, NodeId(1))) == (OUT, IN)
    links.slow(PEER, NodeId(3), 0.5)
    assert links.between(NodeId(3), PEER) == Condition(delay=0.5)
    links.heal()
    assert links.between(NodeId(3), PEER) == links.between(NodeId(1), PEER) == CLEAR


@pytest.mark.parametrize("held", [OUT, IN, BOTH], ids=["outgoing", "incoming", "both"])
def test_a_dial_over_a_cut_waits_for_it_to_heal(held: Condition) -> None:
    async def scene(pair: Pair) -> None:
        pair.be(held)
        dialling = asyncio.ensure_future(pair.dial())
        await turns()
        assert not dialling.done()
        pair.be(CLEAR)
        await dialling
        assert not pair.near.ended

    play(scene)


def test_a_dial_over_a_cut_that_does_not_heal_finds_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faulty_net, "CONNECT_SECONDS", 0.02)

    async def scene(pair: Pair) -> None:
        pair.be(BOTH)
        with pytest.raises(Unreachable):
            await pair.dial()

    play(scene)


def test_a_slow_link_delays_each_way_and_keeps_the_order() -> None:
    async def scene(pair: Pair) -> None:
        await pair.dial()
        pair.be(Condition(delay=0.1))
        begun = time.monotonic()
        pair.near.transport.write(b"a")
        pair.near.transport.write(b"b")
        await until(lambda: pair.far.received == b"ab")
        there = time.monotonic() - begun
        pair.far.transport.write(b"c")
        await until(lambda: pair.near.received == b"c")
        assert there >= 0.1
        assert time.monotonic() - begun >= 0.2

    play(scene)


def test_delayed_bytes_arrive_at_once_when_the_link_heals() -> None:
    async def scene(pair: Pair) -> None:
        await pair.dial()
        pair.be(Condition(delay=3600))
        pair.near.transport.write(b"a")
        await turns()
        assert pair.far.received == b""
        pair.be(CLEAR)
        pair.near.transport.write(b"b")
        await until(lambda: pair.far.received == b"ab")

    play(scene)


def test_a_connection_to_a_node_that_is_no_peer_is_not_changed() -> None:
    async def scene(pair: Pair) -> None:
        pair.be(BOTH)
        await pair.dial()
        pair.near.transport.write(b"out")
        await until(lambda: pair.far.received == b"out")

    play(scene, known=False)
