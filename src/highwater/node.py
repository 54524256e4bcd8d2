"""One node: the only place where broker and controller are joined.

`Node.start` starts the parts in the order of their needs, and `STOPPING` is the order in which they are stopped.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from highwater import config as settings
from highwater.active_controller.active_controller import ActiveController
from highwater.active_controller.metrics import ControllerMetrics
from highwater.apis import broker_registry, controller_registry
from highwater.broker.assembly import assemble
from highwater.broker.lags import GroupLags
from highwater.broker.metrics import BrokerMetrics
from highwater.broker.role import BrokerRole
from highwater.broker.status import aged, as_json, describe, describe_watched, summary
from highwater.config import ConfigError, NodeConfig
from highwater.controller.features import SUPPORTED, bootstrap_records, unsupported_levels
from highwater.log.home import Home, open_home
from highwater.metadata.changes import Changes
from highwater.metadata.cluster import MetadataImage
from highwater.model import SOFTWARE_VERSION, Endpoint, Uuid
from highwater.net.api_versions import Features
from highwater.net.deadlines import DeadlineQueue
from highwater.net.http import HttpServer, NoPage, Page, Query
from highwater.net.metrics import CONTENT_TYPE, Collector, NetMetrics, exposition
from highwater.net.server import Limits, ListenerSpec, Server
from highwater.net.stats import LoopLag
from highwater.quorum import Identity, Leadership, ReplicaKey, Timing, VoterListener, VoterNode
from highwater.raft_node.metrics import QuorumMetrics
from highwater.raft_node.raft_node import Listeners, RaftNode
from highwater.wire.records import APPEND_LIMIT
from highwater.world import World
from highwater.world.closings import Closings

HAND_OVER_SECONDS = 3.0
RESIGN_SECONDS = 1.0
GRACE_SECONDS = 1.0
"""The time for requests that are under way when the listeners close."""
STOPPING = ("loop lag", "membership", "leadership", "http", "listeners", "logs", "controller", "quorum", "lock")
"""The order of stopping. The broker leaves first, while all other parts still work. Then the controller hands over:
other brokers that leave may need it until then. Requests end before the logs that they use are closed."""
NEVER_MS = NO_BOUND = 2**62
KRAFT_LEVEL = 1
_log = logging.getLogger(__name__)


class NotStarted(Exception):
    """The start took too long. The caller of `start` gets this exception."""


class Node:
    """A broker, a controller, or both. The two talk to each other by requests, and are joined only here."""

    def __init__(
        self,
        world: World,
        config: NodeConfig,
        home: Home,
        failed: Callable[[BaseException], None],
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        """Calls `failed` when the node cannot go on, and `progress` again and again while its logs are opened."""
        self.world, self.config, self.home = world, config, home
        self._failed = failed
        self._progress = progress
        self._heard = asyncio.Event()
        """Set whenever the quorum has news."""
        self.deadlines = DeadlineQueue(world.clock)
        self.lag = LoopLag(world.clock)
        self.raft = RaftNode(world, config, home.cluster_id, self.deadlines)
        self.controller: ActiveController | None = None
        self.role: BrokerRole | None = None
        incarnation = Uuid(world.random("incarnation").randbytes(16))
        if config.is_controller:
            self.controller = ActiveController(
                world, config, self.raft, bootstrap_records(), self.deadlines, incarnation if config.is_broker else None
            )
        if config.is_broker:
            features = dict(SUPPORTED)
            broker = assemble(world, config, home, incarnation, features, self.deadlines, self._controller_endpoint)
            self.role = BrokerRole(config, broker)
        self.broker = None if self.role is None else self.role.broker
        self.server = Server(world, list(self._listeners()), _limits(config, world.net.room))
        self.http: HttpServer | None = None
        self.http_endpoint: Endpoint | None = None
        self.closings = Closings(world.failures, STOPPING)
        self.closings.add("lock", home.release)

    @classmethod
    async def open(
        cls,
        world: World,
        config: NodeConfig,
        failed: Callable[[BaseException], None],
        progress: Callable[[], None] = lambda: None,
    ) -> Node:
        """Locks and reads the directory first. Raises ConfigError if that fails, or if the settings do not fit the
        directory."""
        if config.is_controller and config.voters and [voter.id for voter in config.voters] != [config.node_id]:
            raise ConfigError(
                "controller.quorum.voters: a fixed quorum of several voters is not supported; name the voters when "
                "the directory is formatted (--initial-controllers) and set controller.quorum.bootstrap.servers"
            )
        return cls(world, config, await open_home(world, config), failed, progress)

    def _listeners(self) -> Iterator[ListenerSpec]:
        if self.controller is not None:
            controllers = controller_registry(self.raft, self.controller, self._features)
            yield from (
                ListenerSpec(each.name, each.endpoint, controllers) for each in self.config.controller_listeners
            )
        if self.broker is not None:
            brokers = broker_registry(self.broker, self._features)
            yield from (ListenerSpec(each.name, each.endpoint, brokers) for each in self.config.broker_listeners)

    # Starting and stopping

    async def start(self) -> None:
        """Returns when this node does its work: a broker is then unfenced and serves clients."""
        patience = self.config.get(settings.SERVER_MAX_STARTUP_TIME_MS)
        try:
            async with asyncio.timeout(None if patience >= NEVER_MS else patience / 1000) as within:
                await self._start()
        except TimeoutError as failed:
            if not within.expired():
                raise
            raise NotStarted(f"not started within server.max.startup.time.ms={patience}") from failed

    async def _start(self) -> None:
        config, begun = self.config, self.closings.add
        begun("listeners", lambda: self.server.close(grace=GRACE_SECONDS))
        self.server.hold()
        for_controllers = [each.name for each in config.controller_listeners] if config.is_controller else []
        if for_controllers:
            await self.server.start(*for_controllers)
        await self.raft.open(self._identity(), Listeners(self._committed, self._led, self._failed), _timing(config))
        begun("quorum", self.raft.close)
        if self.controller is not None:
            begun("leadership", partial(self._hand_over, self.controller))
            begun("controller", self.controller.close)
            self.server.release(*for_controllers)
        if self.role is not None:
            await self._catch_up()
            begun("membership", partial(self.role.leave, config.get(settings.CONTROLLED_SHUTDOWN_ENABLE)))
            await self.role.open_logs(lambda: self.raft.committed, self.server, self._progress)
            begun("logs", self.role.close)
            await self.role.join(self.server)
        self.server.release()
        self.lag.start()
        begun("loop lag", self.lag.stop)
        await self._serve_http()

    async def _catch_up(self) -> None:
        """Waits until this node has the metadata of the quorum."""
        while not self.raft.is_caught_up:
            self._heard.clear()
            await self._heard.wait()
        unsupported = unsupported_levels(self.raft.committed.features)
        if unsupported:
            raise ConfigError(f"{self.home.directory}: {'; '.join(unsupported)}")

    def _identity(self) -> Identity:
        """The identity of this replica of the metadata log, with its bound addresses."""
        config, bound = self.config, self.server.endpoints
        listeners = []
        for each in config.advertised_controller_listeners if config.is_controller else ():
            at = bound.get(each.name, each.endpoint)
            listeners.append(VoterListener(each.name, each.endpoint.host or at.host, each.endpoint.port or at.port))
        voter = VoterNode(ReplicaKey(config.node_id, self.home.directory_id), tuple(listeners))
        bootstrap = config.bootstrap_controllers or tuple(voter.endpoint for voter in config.voters)
        return Identity(self.home.cluster_id, voter, config.controller_listener_names[0], bootstrap)

    async def stop(self) -> None:
        """A controlled shutdown: leaves the cluster, answers open requests, closes the logs and marks them clean. A
        node that is still starting ends what it has begun; if its logs were open, it marks them, too."""
        await self.closings.close()

    async def _hand_over(self, controller: ActiveController) -> None:
        """Hands the leadership over. If a whole cluster stops, its controller is needed until the last broker has
        left."""
        try:
            async with asyncio.timeout(HAND_OVER_SECONDS):
                while controller.brokers_leaving:
                    await asyncio.sleep(0.01)
        except TimeoutError:
            _log.warning("brokers are still leaving while their controller stops")
        await self.raft.leave(RESIGN_SECONDS)

    # Callbacks of the quorum

    def _controller_endpoint(self) -> Endpoint | None:
        leader = self.raft.leader_id
        return None if leader is None else self.raft.endpoint_of(leader, self.config.controller_listener_names[0])

    def _committed(self, image: MetadataImage, changes: Changes) -> None:
        if self.controller is not None:
            self.controller.committed(image)
        self._heard.set()
        if self.role is not None:
            self.role.committed(image, changes)

    def _led(self, leadership: Leadership) -> None:
        self._heard.set()
        if self.controller is not None:
            self.controller.leadership_changed(leadership)
        if self.role is not None and leadership.leader_id is not None:
            self.role.controller_moved()

    def _features(self) -> Features:
        supported = {name: (levels.min, levels.max) for name, levels in SUPPORTED.items()}
        image = self.raft.committed
        return Features(supported, image.offset, {**image.features.levels, "kraft.version": KRAFT_LEVEL})

    # Status and metrics

    async def _serve_http(self) -> None:
        listener = self.config.get(settings.HIGHWATER_HTTP_LISTENER)
        if listener is None:
            return
        parts: list[Collector] = [QuorumMetrics(self.raft)]
        if self.controller is not None:
            parts.append(ControllerMetrics(self.raft, self.controller))
        parts.append(NetMetrics(self.server, self.lag))
        if self.broker is not None:
            parts += [BrokerMetrics(self.broker), GroupLags(self.broker)]
        pages = {"/status": self._status_page, "/metrics": lambda query: Page(CONTENT_TYPE, exposition(parts))}
        self.http = HttpServer(self.world, pages, (each.endpoint.host for each in self.config.advertised_listeners))
        host, _, port = listener.rpartition(":")
        self.http_endpoint = await self.http.start(Endpoint(host, int(port)))
        self.closings.add("http", self.http.close)
        _log.info("/status and /metrics are served at http://%s", self.http_endpoint)

    def status(self) -> dict[str, Any]:
        """The status of this node. `as_json` adds its partitions."""
        quorum = self.raft.quorum
        fields: dict[str, Any] = {
            "node": self.config.node_id,
            "version": SOFTWARE_VERSION,
            "time_ms": self.world.clock.wall_ms(),
            "quorum": {
                "role": quorum.role.value,
                "leader": quorum.leader_id,
                "epoch": quorum.epoch,
                "high_watermark": quorum.high_watermark,
                "log_end": self.raft.log_end,
                "voters": list(quorum.voters.ids),
                "is_voter": quorum.voters.is_voter(ReplicaKey(self.config.node_id, self.home.directory_id)),
            },
        }
        if self.controller is not None:
            fields["decisions"] = aged(self.controller.changes, self.world.clock.monotonic())
        if self.broker is not None:
            lifecycle = self.broker.lifecycle
            fields |= describe(self.broker, lifecycle.epoch, lifecycle.state.value, quorum.leader_id)
        return fields

    def _status_page(self, query: Query) -> Page:
        """`?summary` counts the partitions, `?topic=T` also lists those of one topic, and `?topic=T&partition=P` has
        one of them alone, with its last fetches."""
        if "partition" in query:
            return Page("application/json", (json.dumps(self._one_partition(query)).encode(),))
        if "summary" not in query and "topic" not in query:
            return Page("application/json", as_json(self.status(), self.broker))
        counted = {} if self.broker is None else {"summary": summary(self.broker)}
        if "topic" in query:
            return Page("application/json", as_json(self.status() | counted, self.broker, query["topic"]))
        return Page("application/json", (json.dumps(self.status() | counted).encode(),))

    def _one_partition(self, query: Query) -> dict[str, Any]:
        topic, index = query.get("topic", ""), query.get("partition", "")
        if not topic or not (index.isascii() and index.isdecimal()):
            raise NoPage(400, "ask for ?topic=NAME&partition=NUMBER")
        found = None if self.broker is None else describe_watched(self.broker, topic, int(index))
        if found is None:
            raise NoPage(404, f"node {self.config.node_id} has no replica of {topic}-{index}")
        return {"node": self.config.node_id, **found}


def _timing(config: NodeConfig) -> Timing:
    return Timing(
        election_timeout=config.get(settings.CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS) / 1000,
        fetch_timeout=config.get(settings.CONTROLLER_QUORUM_FETCH_TIMEOUT_MS) / 1000,
        election_backoff_max=config.get(settings.CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS) / 1000,
        request_timeout=config.get(settings.CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS) / 1000,
        retry_backoff=config.get(settings.CONTROLLER_QUORUM_RETRY_BACKOFF_MS) / 1000,
    )


def _limits(config: NodeConfig, room: int) -> Limits:
    queued = config.get(settings.QUEUED_MAX_REQUEST_BYTES)
    connections = config.get(settings.MAX_CONNECTIONS)
    idle = config.get(settings.CONNECTIONS_MAX_IDLE_MS)
    if connections > room:
        _log.warning("max.connections=%d is taken as %d: the limit of open files allows no more", connections, room)
    return Limits(
        max_frame=config.get(settings.SOCKET_REQUEST_MAX_BYTES),
        queued_bytes=queued - min(APPEND_LIMIT, queued // 2) if queued > 0 else NO_BOUND,  # for what is inflated
        slots=config.get(settings.QUEUED_MAX_REQUESTS),
        connections=min(connections, room),
        connections_per_ip=config.get(settings.MAX_CONNECTIONS_PER_IP),
        connections_per_ip_overrides=config.max_connections_per_ip_overrides,
        idle_seconds=idle / 1000 if idle >= 0 else math.inf,
    )
