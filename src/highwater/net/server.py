"""The server side: named listeners, limits for all connections, and the sweep of idle ones."""

from __future__ import annotations

from asyncio import Event
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from ssl import SSLContext

from highwater.model import Endpoint
from highwater.net.budget import Budget
from highwater.net.connection import Connection
from highwater.net.context import Authorize, allow_all
from highwater.net.registry import Registry, Role
from highwater.net.stats import CloseReason, NetStats
from highwater.net.turns import Turns
from highwater.wire.framing import CHUNK, MAX_FRAME, ChunkPool
from highwater.world import ListeningSocket, Timer, World

SHORTEST_SWEEP_SECONDS = 0.05
"""The shortest time between two looks for idle connections, however short the time is that makes them idle."""
STALL_SECONDS = 4.0
"""How long a large frame may stop arriving while other connections wait for its memory."""
FAVOURED_SECONDS = 8.0
"""How long one large frame may go beyond the limit before it is another one's turn."""
STARVED_SECONDS = 8.0
"""How long a frame may wait for more memory while all frames keep too much. Otherwise peers that never finish their
frames would stall one after the other."""
UNREAD_SECONDS = 1.0
"""How long a peer may read nothing while other connections wait for the memory of its responses."""


@dataclass(frozen=True, slots=True)
class Limits:
    max_frame: int = MAX_FRAME
    """socket.request.max.bytes"""
    queued_bytes: int = 128 * 1024 * 1024
    """queued.max.request.bytes without the memory for one batch that is decompressed: the bytes of requests that arrive
    or are not answered yet, over all connections, and of unread responses without file slices. Responses may take at
    most half of it, and always an eighth."""
    connections: int = 10_000
    """max.connections"""
    reserved_connections: int = 100
    """Further connections for controller listeners, so that clients cannot lock out the quorum."""
    connections_per_ip: int = 5_000
    """max.connections.per.ip"""
    connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    idle_seconds: float = 600.0
    """connections.max.idle.ms; infinite if no connection is closed for it"""
    slots: int = 512
    """The most unanswered requests of one connection."""
    slot_bytes: int = 16 * 1024 * 1024
    """The most bytes of unanswered requests of one connection."""


@dataclass(frozen=True, slots=True)
class ListenerSpec:
    name: str
    at: Endpoint
    registry: Registry
    tls: SSLContext | None = None


class Listening:
    """One open listener."""

    def __init__(self, spec: ListenerSpec) -> None:
        self.name = spec.name
        self.at = spec.at
        self.registry = spec.registry
        self.tls = spec.tls
        self.held = False
        self.waiting: dict[Connection, None] = {}
        self.socket: ListeningSocket | None = None


class Server:
    def __init__(
        self,
        world: World,
        listeners: Sequence[ListenerSpec],
        limits: Limits | None = None,
        authorizer: Authorize = allow_all,
        stats: NetStats | None = None,
    ) -> None:
        self.world = world
        self.limits = limits or Limits()
        self.authorizer = authorizer
        self.stats = stats or NetStats()
        self.chunks = ChunkPool()
        self.turns = Turns(world.clock)
        self.budget = Budget(self.limits.queued_bytes, self.limits.slot_bytes, CHUNK, world.clock.monotonic)
        self.budget.on_crowded = self._relieve
        self._listening = {spec.name: Listening(spec) for spec in listeners}
        self._connections: dict[Connection, None] = {}
        self._per_ip: dict[str, int] = {}
        self._sweeper: Timer | None = None
        self._closing = False
        self._empty = Event()

    async def start(self, *names: str) -> None:
        """Opens these listeners (all, if none is named). Until then their ports refuse connections."""
        try:
            for name in names or self._listening:
                listening = self._listening[name]
                listening.socket = await self.world.net.listen(
                    partial(Connection, self, listening), listening.at, listening.tls
                )
        except OSError:
            self._stop_listening()
            raise
        if self._sweeper is None:
            self._sweeper = self.world.clock.call_later(self._sweep_interval, self._sweep)

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """The bound addresses, by listener name."""
        return {name: one.socket.endpoint for name, one in self._listening.items() if one.socket is not None}

    @property
    def registries(self) -> list[Registry]:
        """The registries of all listeners, each once."""
        return list({id(one.registry): one.registry for one in self._listening.values()}.values())

    def hold(self, *names: str) -> None:
        """Until `release`, these listeners (all, if none is named) answer only ApiVersions. Other requests wait."""
        for name in names or self._listening:
            self._listening[name].held = True

    def release(self, *names: str) -> None:
        for name in names or self._listening:
            listening = self._listening[name]
            listening.held = False
            waiting, listening.waiting = listening.waiting, {}
            for connection in waiting:
                self.world.clock.call_soon(connection.take)

    async def close(self, grace: float = 5.0) -> None:
        """Accepts no connection, answers open requests, and closes. After `grace` seconds the rest is dropped."""
        self._closing = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._stop_listening()
        for connection in list(self._connections):
            connection.finish(CloseReason.SHUTDOWN)
        if self._connections:
            self._empty.clear()
            timer = self.world.clock.call_later(grace, self._drop_all)
            await self._empty.wait()
            timer.cancel()

    def admit(self, connection: Connection, listening: Listening) -> bool:
        """Called once for each new connection. `forget` follows for each one, admitted or not."""
        limits = self.limits
        ip = connection.peer.host
        same_ip = self._per_ip.get(ip, 0) + 1
        self._per_ip[ip] = same_ip
        self._connections[connection] = None
        self.stats.accepted += 1
        self.stats.connections += 1
        room = limits.connections
        if listening.registry.role is Role.CONTROLLER:
            room += limits.reserved_connections
        return (
            not self._closing
            and len(self._connections) <= room
            and same_ip <= limits.connections_per_ip_overrides.get(ip, limits.connections_per_ip)
        )

    def forget(self, connection: Connection, listening: Listening, reason: CloseReason) -> None:
        del self._connections[connection]
        listening.waiting.pop(connection, None)
        ip = connection.peer.host
        self._per_ip[ip] -= 1
        if not self._per_ip[ip]:
            del self._per_ip[ip]
        self.stats.connections -= 1
        self.stats.closed[reason] += 1
        if not self._connections:
            self._empty.set()

    def _stop_listening(self) -> None:
        for listening in self._listening.values():
            if listening.socket is not None:
                listening.socket.close()

    @property
    def _sweep_interval(self) -> float:
        return min(max(self.limits.idle_seconds / 10, SHORTEST_SWEEP_SECONDS), STALL_SECONDS / 2)

    def _sweep(self) -> None:
        now = self.world.clock.monotonic()
        idle_since = now - self.limits.idle_seconds
        stalled_since = now - STALL_SECONDS
        crowded = self.budget.has_waiting
        if crowded:
            self.budget.let_another_go_on(now - FAVOURED_SECONDS)
        for connection in list(self._connections):
            with self.world.failures.boundary("connection", "the sweep of idle connections"):
                if connection.last_active <= idle_since and not connection.owes:
                    connection.abort(CloseReason.IDLE)
                elif crowded and connection.stalls(stalled_since):
                    connection.abort(CloseReason.STALLED)
        if crowded and not any(each.held for each in self._listening.values()):
            self._unclog(now - STARVED_SECONDS)
        self._sweeper = self.world.clock.call_later(self._sweep_interval, self._sweep)

    def _unclog(self, before: float) -> None:
        """Frames that wait for more memory keep most of it. Closes the connections that have waited longest: most peers
        that mean to finish their frames came later, and go on then."""
        kept = self.budget.receiving
        starved = [each for each in self._connections if each.starved and each.last_active <= before]
        for connection in sorted(starved, key=lambda each: each.last_active):
            if 2 * kept <= self.budget.limit:
                break
            kept -= connection.starved
            connection.abort(CloseReason.STALLED)

    def _relieve(self) -> None:
        """Unread responses take all memory that they may. Closes the connections with the most unread bytes whose peers
        have read nothing for a while."""
        budget, before = self.budget, self.world.clock.monotonic() - UNREAD_SECONDS
        deaf = [each for each in self._connections if each.unread_since is not None and each.unread_since <= before]
        for connection in sorted(deaf, key=lambda each: each.unread, reverse=True):
            if budget.unread <= budget.answers // 2:
                break
            connection.abort(CloseReason.UNREAD)
        budget.crowded = budget.unread > budget.answers
        if budget.crowded and not self._closing:
            self.world.clock.call_later(UNREAD_SECONDS / 4, self._relieve)

    def _drop_all(self) -> None:
        for connection in list(self._connections):
            connection.abort(CloseReason.SHUTDOWN)
