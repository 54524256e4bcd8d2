"""The simulated network: machines, the links between them, listeners, and connections as TCP makes them."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator
from random import Random
from ssl import SSLContext

from highwater.model import Endpoint
from highwater.sim.dialling import Dialling
from highwater.sim.knobs import Knobs
from highwater.sim.loop import SimLoop
from highwater.sim.process import Process
from highwater.sim.stream import Link, Stream
from highwater.sim.transport import SimTransport
from highwater.world import Dead

ProtocolFactory = Callable[[], asyncio.BufferedProtocol]
LOOPBACK = "127.0.0.1"
ANY_HOST = ("", "0.0.0.0", "::")
FIRST_FREE_PORT = 32_768


class SimListener:
    def __init__(self, network: Network, process: Process, factory: ProtocolFactory, at: Endpoint) -> None:
        self._network = network
        self.process = process
        self.factory = factory
        self.endpoint = at

    def close(self) -> None:
        self.process.emit("unlisten", str(self.endpoint))
        self._network.listeners.pop(self._network.key(self.process.name, self.endpoint), None)

    def accept(self, transport: SimTransport) -> None:
        """Runs as the listening process, when that process runs: a paused process still gets connections from its
        kernel."""
        transport.start(self.factory())


class Network:
    """Everything between the processes. A machine has the name of its node; an address belongs to the machine that
    listens there."""

    def __init__(self, loop: SimLoop, random: Random, knobs: Knobs) -> None:
        self.loop = loop
        self.knobs = knobs
        self.listeners: dict[Endpoint, SimListener] = {}
        self.dark: set[str] = set()
        """Machines without power."""
        self._random = random
        self._links: dict[tuple[str, str], Link] = {}
        self._bound: dict[Endpoint, str] = {}
        self._machines: set[str] = set()
        self._streams: dict[int, Stream] = {}
        self._pairs: dict[int, tuple[SimTransport, SimTransport]] = {}
        self._diallings: dict[int, Dialling] = {}
        self._serial = 0
        self._free_port = FIRST_FREE_PORT

    # Links and machines

    def link(self, source: str, sink: str) -> Link:
        found = self._links.get((source, sink))
        if found is None:
            found = self._links[source, sink] = Link(self._random, self.knobs.link_delay)
        return found

    def stir(self) -> None:
        """The conditions have changed, so all bytes that are held are tried again."""
        for stream in tuple(self._streams.values()):
            stream.stir()

    def heal(self, a: str | None, b: str | None) -> None:
        """Resets every link between the two names; None means any name."""
        for ends, link in self._links.items():
            if (a is None or a in ends) and (b is None or b in ends):
                link.cut, link.stalled_until, link.delay = False, 0.0, self.knobs.link_delay
        self.stir()

    def reset(self, a: str, b: str) -> None:
        """Breaks every connection between two machines, at both ends at once."""
        for pair in tuple(self._pairs.values()):
            if {a, b} == {pair[0].process.name, pair[1].process.name}:
                for end in pair:
                    end.fail(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def boot(self, machine: str) -> None:
        self._machines.add(machine)
        self.dark.discard(machine)
        self.stir()

    def bury(self, process: Process, power_loss: bool) -> None:
        """The process is gone: its listeners close. Its kernel closes its connections, or is silent if the machine has
        lost power."""
        if power_loss:
            self.dark.add(process.name)
        self.listeners = {key: listener for key, listener in self.listeners.items() if listener.process is not process}
        for dialling in tuple(self._diallings.values()):
            if dialling.process is process:
                dialling.fail(Dead(f"{process.name} crashed"))
        for end in self._ends_of(process):
            if power_loss:
                end.lose_power()
            else:
                end.orphan()

    def _ends_of(self, process: Process) -> Iterator[SimTransport]:
        for pair in tuple(self._pairs.values()):
            yield from (end for end in pair if end.process is process)

    # Addresses

    def key(self, machine: str, at: Endpoint) -> Endpoint:
        """The key of a listener. Machines share the ports of the loopback address; at every other address each has its
        own ports."""
        if at.host in ANY_HOST:
            return Endpoint(f"*{machine}", at.port)
        return Endpoint(LOOPBACK if at.host in ("localhost", "::1") else at.host, at.port)

    def bind(self, process: Process, factory: ProtocolFactory, at: Endpoint) -> SimListener:
        if at.port == 0:
            at = Endpoint(at.host, self.free_port())
        key = self.key(process.name, at)
        if key in self.listeners:
            raise OSError(errno.EADDRINUSE, f"Address already in use: {at}")
        listener = self.listeners[key] = SimListener(self, process, factory, at)
        self._bound[key] = process.name
        return listener

    def free_port(self) -> int:
        self._free_port += 1
        return self._free_port

    def find(self, dialler: str, to: Endpoint) -> tuple[str | None, SimListener | None]:
        """The machine of an address, if there is one, and the listener there."""
        exact = self.key(dialler, to)
        candidates = [exact]
        if exact.host == LOOPBACK:
            candidates.append(Endpoint(f"*{dialler}", to.port))
            candidates.extend(key for key in self._bound if key.port == to.port and key.host.startswith("*"))
        else:
            candidates.append(Endpoint(f"*{exact.host}", to.port))
        for key in candidates:
            if key in self.listeners:
                return self.listeners[key].process.name, self.listeners[key]
        for key in candidates:
            if key in self._bound:
                return self._bound[key], None
        if exact.host == LOOPBACK:
            return dialler, None
        return (exact.host if exact.host in self._machines else None), None

    # Connections

    def track(self, dialling: Dialling) -> None:
        self._serial += 1
        serial = self._serial
        self._diallings[serial] = dialling
        dialling.waiter.add_done_callback(lambda _: self._diallings.pop(serial, None), context=self.loop.root.context())

    def connect(self, process: Process, listener: SimListener, to: Endpoint) -> SimTransport:
        """Makes both ends. The listening end is started, and the connecting end is returned."""
        server = listener.process
        near = Endpoint(LOOPBACK if self.key("", to).host == LOOPBACK else process.name, self.free_port())
        out, into = self._stream(process.name, server.name), self._stream(server.name, process.name)
        here = SimTransport(self.loop, process, self._power_of(process), out, into, near, to)
        there = SimTransport(self.loop, server, self._power_of(server), into, out, to, near)
        out.source, out.sink = into.sink, into.source = here, there
        self._serial += 1
        pair = self._serial
        self._pairs[pair] = (here, there)
        here.on_gone = there.on_gone = lambda: self._forget(pair)
        self.loop.call_soon(listener.accept, there, context=server.context())
        return here

    def _forget(self, pair: int) -> None:
        if pair in self._pairs and all(end.is_gone() for end in self._pairs[pair]):
            del self._pairs[pair]

    def _stream(self, source: str, sink: str) -> Stream:
        self._serial += 1
        serial = self._serial
        link, back = self.link(source, sink), self.link(sink, source)
        stream = Stream(self.loop, self._random, self.knobs, link, back, on_end=lambda: self._end_stream(serial))
        self._streams[serial] = stream
        return stream

    def _end_stream(self, serial: int) -> None:
        self._streams.pop(serial, None)

    def _power_of(self, process: Process) -> Callable[[], bool]:
        return lambda: process.name not in self.dark


class SimNet:
    """Implements Net for one process."""

    room = 1 << 20

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._process = process

    async def listen(self, factory: ProtocolFactory, at: Endpoint, tls: SSLContext | None = None) -> SimListener:
        _refuse_tls(tls)
        self._process.emit("listen", str(at))
        await asyncio.sleep(0)
        self._process.check()
        return self._network.bind(self._process, factory, at)

    async def dial(self, factory: ProtocolFactory, to: Endpoint, tls: SSLContext | None = None) -> SimTransport:
        _refuse_tls(tls)
        self._process.emit("dial", str(to))
        dialling = Dialling(self._network, self._process, factory, to)
        self._network.track(dialling)
        dialling.begin()
        try:
            return await dialling.waiter
        except BaseException:
            dialling.abandon()
            raise


def _refuse_tls(tls: SSLContext | None) -> None:
    if tls is not None:
        raise NotImplementedError("the simulated network carries no TLS: its handshake draws randomness of its own")
