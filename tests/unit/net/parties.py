"""A server with a handler that the test answers for, and a peer that speaks raw bytes; in the simulated world."""

from __future__ import annotations

import struct
from asyncio import BaseTransport, BufferedProtocol, Transport
from collections.abc import Callable
from typing import cast

from highwater.model import Endpoint
from highwater.net.api_versions import Features, register_api_versions
from highwater.net.context import RequestContext
from highwater.net.registry import ANY_BYTES, Api, Registry, Role
from highwater.net.server import Limits, ListenerSpec, Server
from highwater.sim import Knobs, Simulation
from highwater.wire.codec import Malformed
from highwater.wire.messages.metadata_request import MetadataRequest
from highwater.wire.messages.produce_request import ProduceRequest

ASK = 3
"""The key of the API whose requests the test answers; its versions 9 and later are flexible."""
FEATURES = Features({"metadata.version": (7, 30), "kraft.version": (0, 1)}, 42, {"metadata.version": 30})


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def header(key: int, version: int, correlation: int, client_id: bytes | None = b"test") -> bytes:
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return struct.pack(">hhi", key, version, correlation) + name


def ask(correlation: int, body: bytes = b"", version: int = 0) -> bytes:
    return framed(header(ASK, version, correlation) + (b"\x00" if version >= 9 else b"") + body)


class Peer(BufferedProtocol):
    def __init__(self) -> None:
        self.transport: Transport
        self.data = bytearray()
        self.lost = False
        self._buffer = bytearray(64 * 1024)

    def connection_made(self, transport: BaseTransport) -> None:
        self.transport = cast(Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self._buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def send(self, *frames: bytes) -> None:
        self.transport.write(b"".join(frames))

    @property
    def frames(self) -> list[bytes]:
        found, at = [], 0
        while at + 4 <= len(self.data):
            size = struct.unpack_from(">i", self.data, at)[0]
            if at + 4 + size > len(self.data):
                break
            found.append(bytes(self.data[at + 4 : at + 4 + size]))
            at += 4 + size
        return found

    @property
    def correlations(self) -> list[int]:
        return [struct.unpack_from(">i", frame)[0] for frame in self.frames]


class Asked(list[RequestContext]):
    """The requests that wait for the test's answer, with their bodies."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []
        self.react: Callable[[RequestContext, memoryview], None] | None = None

    def handle(self, ctx: RequestContext, body: memoryview) -> None:
        self.append(ctx)
        self.bodies.append(bytes(body))
        if self.react is not None:
            self.react(ctx, body)


def raw(body: memoryview, version: int, most: int) -> memoryview:
    if body == b"malformed":
        raise Malformed("as the test asked")
    return body


def registry(asked: Asked, role: Role = Role.BROKER) -> Registry:
    made = Registry(role)
    made.add(Api(ASK, (0, 13), MetadataRequest, decode=raw), asked.handle)
    made.add(Api(0, (3, 13), ProduceRequest, advertised_min=0, decode=raw, most_bytes=ANY_BYTES), asked.handle)
    register_api_versions(made, lambda: FEATURES)
    return made


class Scene:
    """One server node and as many peers as the test dials."""

    def __init__(self, seed: int = 1, limits: Limits | None = None, knobs: Knobs | None = None) -> None:
        self.sim = Simulation(seed, knobs)
        self.world = self.sim.world("server")
        self.clients = self.sim.world("client")
        self.asked = Asked()
        specs = [
            ListenerSpec("PLAINTEXT", Endpoint("server", 9092), registry(self.asked)),
            ListenerSpec("CONTROLLER", Endpoint("server", 9093), registry(self.asked, Role.CONTROLLER)),
        ]
        self.server = Server(self.world, specs, limits)
        self.sim.run(self.world.perform(self.server.start()))

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, *_: object) -> None:
        self.sim.close()

    def dial(self, port: int = 9092) -> Peer:
        peer = Peer()
        self.sim.run(self.clients.perform(self.clients.net.dial(lambda: peer, Endpoint("server", port))))
        return peer

    def wait(self, condition: Callable[[], bool], limit: float = 60.0) -> None:
        self.sim.run(self.sim.until(condition, limit))

    def settle(self) -> None:
        """Long enough for all bytes under way to arrive and be dealt with."""
        self.sim.advance(0.5)
