"""The network of a node whose links to its peers can be cut and slowed down, on the side that opens the connection."""

from __future__ import annotations

import asyncio
import weakref
from asyncio import BufferedProtocol, Transport
from collections.abc import Callable, Mapping
from ssl import SSLContext
from typing import NamedTuple

from highwater.faults.tap import Tap
from highwater.model import Endpoint, NodeId
from highwater.world import Clock, ListeningSocket, Net, Unreachable

CONNECT_SECONDS = 10.0


class Condition(NamedTuple):
    """The condition of the link to one peer, as this node sees it."""

    outgoing_held: bool = False
    incoming_held: bool = False
    delay: float = 0.0
    """Seconds of extra delay, each way."""


CLEAR = Condition()


class Link:
    def __init__(self) -> None:
        self.condition = CLEAR
        self.taps: weakref.WeakSet[Tap] = weakref.WeakSet()
        self.passable = asyncio.Event()
        self.passable.set()

    def change(self, condition: Condition) -> None:
        self.condition = condition
        for tap in list(self.taps):
            tap.change(*condition)
        if condition.outgoing_held or condition.incoming_held:
            self.passable.clear()
        else:
            self.passable.set()


class FaultyNet:
    """Peers are recognised by the address on which they listen. Connections to other addresses, and incoming
    connections, are not changed.

    As with a real cut, bytes are not lost and connections are not refused: they wait for the link to heal. A connection
    attempt waits for as long as it may take.
    """

    def __init__(self, net: Net, clock: Clock, peers: Mapping[Endpoint, NodeId]) -> None:
        self._net = net
        self._clock = clock
        self._peers = dict(peers)
        self._links = {node: Link() for node in sorted(set(self._peers.values()))}

    @property
    def room(self) -> int:
        return self._net.room

    def change(self, peer: NodeId, condition: Condition) -> None:
        self._links[peer].change(condition)

    async def listen(
        self, factory: Callable[[], BufferedProtocol], at: Endpoint, tls: SSLContext | None = None
    ) -> ListeningSocket:
        return await self._net.listen(factory, at, tls)

    async def dial(
        self, factory: Callable[[], BufferedProtocol], to: Endpoint, tls: SSLContext | None = None
    ) -> Transport:
        node = self._peers.get(to)
        if node is None:
            return await self._net.dial(factory, to, tls)
        link = self._links[node]
        await self._handshake(link, to)
        tap = Tap(self._clock, factory(), *link.condition)
        link.taps.add(tap)
        await self._net.dial(lambda: tap, to, tls)
        return tap.transport

    async def _handshake(self, link: Link, to: Endpoint) -> None:
        """Takes one round trip, in both directions."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await link.passable.wait()
                if link.condition.delay:
                    await asyncio.sleep(2 * link.condition.delay)
                    await link.passable.wait()
        except TimeoutError:
            raise Unreachable(f"no connection to {to}: the link is cut") from None
