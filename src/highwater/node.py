"""One node: the only place where the parts are joined, started in their order and stopped in the reverse one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from pathlib import PurePath
from typing import Any

from highwater import config as settings
from highwater.broker.apis import broker_registry
from highwater.broker.broker import Broker
from highwater.broker.controller_channel import ControllerChannel
from highwater.broker.directories import ReplicaDirectories
from highwater.broker.groups import GroupCoordinator
from highwater.broker.isr_changes import IsrChanges
from highwater.broker.lags import GroupLags
from highwater.broker.lifecycle import Lifecycle, Standing
from highwater.broker.metrics import BrokerMetrics
from highwater.broker.producer_ids import ProducerIds
from highwater.broker.publisher import Publisher
from highwater.broker.status import aged, as_json, describe
from highwater.broker.upkeep import Upkeep
from highwater.config import ConfigError, NodeConfig
from highwater.controller.features import SUPPORTED, bootstrap_records, unsupported_levels
from highwater.log import names
from highwater.log.log import Log
from highwater.log.store import LogStore
from highwater.metadata.changes import Changes
from highwater.metadata.cluster import MetadataImage, difference
from highwater.model import Endpoint, Uuid
from highwater.net.api_versions import Features, register_api_versions
from highwater.net.deadlines import DeadlineQueue
from highwater.net.http import HttpServer, Page
from highwater.net.metrics import CONTENT_TYPE, Collector, NetMetrics, exposition
from highwater.net.server import Limits, ListenerSpec, Server
from highwater.net.stats import LoopLag
from highwater.partition.fetch_session import FetchSessions
from highwater.partition.fetcher import Limits as FetchLimits
from highwater.partition.fetchers import Fetchers
from highwater.partition.hosted import Hosted
from highwater.partition.in_sync import InSync
from highwater.quorum import Identity, Leadership, Listener, ReplicaKey, Timing, VoterNode
from highwater.raft_node.active import ActiveController
from highwater.raft_node.apis import controller_registry
from highwater.raft_node.meta_properties import MetaProperties, read_meta_properties
from highwater.raft_node.metadata_log import metadata_log_config
from highwater.raft_node.metrics import QuorumMetrics
from highwater.raft_node.raft_node import Listeners, RaftNode
from highwater.world import Disk, Step, World
from highwater.world.jobs import finished

SHUTDOWN_SECONDS = 10.0
HAND_OVER_SECONDS = 3.0
RESIGN_SECONDS = 1.0
ABANDONED_SECONDS = 1.5
HELD_AFTER_SECONDS = 0.5
"""A recovery that lasts longer is answered for: ApiVersions at once, all else when it is over."""
NEVER_MS = NO_BOUND = 2**62
KRAFT_LEVEL = 1
_log = logging.getLogger(__name__)


def _read_meta(disk: Disk, directory: PurePath) -> Generator[Step, None, MetaProperties | None]:
    yield Step()
    return read_meta_properties(disk, directory)


class NotStarted(Exception):
    """It took too long; whoever started the node is told so."""


class Node:
    """A broker, a controller, or both; they are strangers that meet on the wire and here."""

    def __init__(self, world: World, config: NodeConfig, failed: Callable[[BaseException], None]) -> None:
        if len(config.log_dirs) != 1:
            raise ConfigError("log.dirs: one directory is supported")
        if config.is_controller and config.voters and [voter.id for voter in config.voters] != [config.node_id]:
            raise ConfigError(
                "controller.quorum.voters: a fixed quorum of several voters is not supported; name the voters when "
                "the directory is formatted (--initial-controllers) and set controller.quorum.bootstrap.servers"
            )
        self.world, self.config = world, config
        self._failed = failed
        self.directory = PurePath(config.log_dirs[0])
        self.deadlines = DeadlineQueue(world.clock)
        self.lag = LoopLag(world.clock)
        self._release_lock: Callable[[], None] | None = None
        self._progress = asyncio.Event()
        self._publisher: Publisher | None = None
        self._publishing: asyncio.Task[None] | None = None
        self.controller: ActiveController | None = None
        self.broker: Broker | None = None
        self.http: HttpServer | None = None
        self.http_endpoint: Endpoint | None = None
        self.recovers: Callable[[], None] = lambda: None  # told again and again while the logs are opened

    async def start(self) -> None:
        """Returns when this node does what its roles say: a broker then is unfenced and serves clients."""
        patience = self.config.get(settings.SERVER_MAX_STARTUP_TIME_MS)
        try:
            async with asyncio.timeout(None if patience >= NEVER_MS else patience / 1000) as within:
                await self._start()
        except TimeoutError as failed:
            if not within.expired():
                raise
            raise NotStarted(f"not started within server.max.startup.time.ms={patience}") from failed

    async def _start(self) -> None:
        if self.world.disk.stat(self.directory) is None:
            raise ConfigError(f"{self.directory} does not exist: run 'highwater storage format' first")
        self._release_lock = self.world.disk.lock(self.directory / names.LOCK)
        meta = await finished(self.world, _read_meta, self.directory)
        if meta is None:
            raise ConfigError(f"{self.directory} is not formatted: run 'highwater storage format' first")
        if meta.node_id != self.config.node_id:
            raise ConfigError(f"{self.directory} belongs to node {meta.node_id}, this is {self.config.node_id}")
        self.cluster_id = meta.cluster_id
        if meta.directory_id is None:
            raise ConfigError(f"{self.directory / names.META_PROPERTIES}: directory.id was not found.")
        self.directory_id = meta.directory_id
        self._make()
        self.server.hold()
        if self.config.is_controller:
            await self.server.start(*(each.name for each in self.config.controller_listeners))
        self.raft.identity = self._identity()
        await self.raft.open(Listeners(self._committed, self._led, self._failed), _timing(self.config))
        if self.config.is_controller:
            self.server.release(*(each.name for each in self.config.controller_listeners))
        if self.broker is not None:
            await self._serve(self.broker)
        self.server.release()
        self.lag.start()
        await self._serve_http()

    # Making the parts

    def _make(self) -> None:
        config, world = self.config, self.world
        self.raft = RaftNode(world, config, self._identity(), metadata_log_config(config), self.deadlines)
        specs: list[ListenerSpec] = []
        if config.is_controller:
            self.controller = ActiveController(world, config, self.raft, bootstrap_records(), self.deadlines)
            controllers = controller_registry(self.controller)
            register_api_versions(controllers, self._features)
            specs += [ListenerSpec(each.name, each.endpoint, controllers) for each in config.controller_listeners]
        if config.is_broker:
            self.broker = self._make_broker()
            brokers = broker_registry(self.broker)
            register_api_versions(brokers, self._features)
            specs += [ListenerSpec(each.name, each.endpoint, brokers) for each in config.broker_listeners]
        self.server = Server(world, specs, _limits(config, world.net.room))

    def _identity(self) -> Identity:
        """This replica of the metadata log, with the addresses that it is really reached at once they are known."""
        config = self.config
        listeners = []
        bound = self.server.endpoints if hasattr(self, "server") else {}
        for each in config.advertised_controller_listeners if config.is_controller else ():
            at = bound.get(each.name, each.endpoint)
            listeners.append(Listener(each.name, each.endpoint.host or at.host, each.endpoint.port or at.port))
        voter = VoterNode(ReplicaKey(config.node_id, self.directory_id), tuple(listeners))
        bootstrap = config.bootstrap_controllers or tuple(voter.endpoint for voter in config.voters)
        return Identity(self.cluster_id, voter, config.controller_listener_names[0], bootstrap)

    def _make_broker(self) -> Broker:
        config, world = self.config, self.world
        client_id = f"broker-{config.node_id}"
        self._channel = ControllerChannel(world, config, client_id, self.deadlines, self._controller_endpoint)
        heartbeats = ControllerChannel(
            world, config, f"{client_id}-heartbeat", self.deadlines, self._controller_endpoint
        )
        self.lifecycle = Lifecycle(
            world,
            config,
            self.cluster_id,
            Uuid(world.random("incarnation").randbytes(16)),
            self.directory_id,
            dict(SUPPORTED),
            heartbeats,
            lambda: broker.image.offset,
        )
        changes = IsrChanges(world, config.node_id, self._channel, self._broker_epoch)
        broker = Broker(
            world,
            config,
            self.cluster_id,
            Hosted(),
            LogStore(
                world,
                self.directory,
                lambda topic: broker.log_config(topic),
                self._log_troubled,
                config.get(settings.NUM_RECOVERY_THREADS_PER_DATA_DIR),
            ),
            FetchSessions(
                config.get(settings.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS), world.random("fetch-sessions")
            ),
            self.deadlines,
            self._channel,
            ProducerIds(config.node_id, self._channel, self._broker_epoch, world.clock.monotonic),
            InSync(
                world.clock.monotonic,
                lambda: broker.config.get(settings.REPLICA_LAG_TIME_MAX_MS) / 1000,
                changes.ask,
            ),
            Fetchers(
                world,
                self.deadlines,
                config.node_id,
                self._applied_epoch,
                lambda: _fetch_limits(broker.config),
                lambda leader: broker.doubts.cast(leader),
                lambda: broker.store,
            ),
            MetadataImage(self.cluster_id),
            GroupCoordinator(world, config, self.deadlines, lambda: broker.image),
        )
        self.upkeep = Upkeep(broker)
        return broker

    # A broker's way into the cluster

    async def _serve(self, broker: Broker) -> None:
        """Catch up with the metadata, open the logs, register, be unfenced, and let the clients in.

        Clients are refused while the logs are opened: they go elsewhere at once, and that nothing listens here proves
        to the controller that our last life is over. A recovery that takes longer is told by a held listener.
        """
        while not self.raft.is_caught_up:
            self._progress.clear()
            await self._progress.wait()
        image = self.raft.committed
        unsupported = unsupported_levels(image.features)
        if unsupported:
            raise ConfigError(f"{self.directory}: {'; '.join(unsupported)}")
        directories = ReplicaDirectories(
            self.world, broker.node_id, self.directory_id, self._channel, self._broker_epoch
        )
        publisher = Publisher(broker, self.lifecycle.incarnation, directories, self._applied)
        names = [each.name for each in self.config.broker_listeners]
        listening: list[asyncio.Task[None]] = []
        patience = self.world.clock.call_later(
            HELD_AFTER_SECONDS, lambda: listening.append(self.world.spawn("listeners", self.server.start(*names)))
        )
        await publisher.begin(image, self.recovers)
        patience.cancel()
        self._publisher = publisher
        publisher.offer(self.raft.committed, difference(image, self.raft.committed))
        self._publishing = self.world.spawn("publisher", publisher.run())
        await (listening[0] if listening else self.server.start(*names))
        previous = broker.store.found.broker_epoch
        await self.lifecycle.register(self.config.advertised_listeners, self.server.endpoints, previous)
        broker.producer_ids.prefetch()
        await self.lifecycle.reached(Standing.ACTIVE)
        while not broker.image.brokers.is_active(broker.node_id):
            # What the controller decided when it unfenced us is still to be applied: by that we lead.
            self._progress.clear()
            await self._progress.wait()
        self.upkeep.start()
        broker.cleaner.start()

    async def _serve_http(self) -> None:
        listener = self.config.get(settings.HIGHWATER_HTTP_LISTENER)
        if listener is None:
            return
        parts: list[Collector] = [QuorumMetrics(self.raft, self.controller), NetMetrics(self.server, self.lag)]
        if self.broker is not None:
            parts += [BrokerMetrics(self.broker), GroupLags(self.broker)]
        pages = {"/status": self._status_page, "/metrics": lambda: Page(CONTENT_TYPE, exposition(parts))}
        self.http = HttpServer(self.world, pages, (each.endpoint.host for each in self.config.advertised_listeners))
        host, _, port = listener.rpartition(":")
        self.http_endpoint = await self.http.start(Endpoint(host, int(port)))
        _log.info("/status and /metrics are served at http://%s", self.http_endpoint)

    def status(self) -> dict[str, Any]:
        """What this node knows of itself; of its partitions `as_json` tells."""
        quorum = self.raft.quorum
        told: dict[str, Any] = {
            "node": self.config.node_id,
            "quorum": {
                "role": quorum.role.value,
                "leader": quorum.leader_id,
                "epoch": quorum.epoch,
                "high_watermark": quorum.high_watermark,
                "log_end": self.raft.log.written_end,
                "voters": list(quorum.voters.ids),
            },
        }
        if self.controller is not None:
            told["decisions"] = aged(self.controller.changes, self.world.clock.monotonic())
        if self.broker is not None:
            standing = self.lifecycle.standing.value
            told |= describe(self.broker, self.lifecycle.epoch, standing, quorum.leader_id)
        return told

    def _status_page(self) -> Page:
        return Page("application/json", as_json(self.status(), self.broker))

    # What the parts tell each other

    def _controller_endpoint(self) -> Endpoint | None:
        leader = self.raft.leader_id
        return None if leader is None else self.raft.endpoint_of(leader, self.config.controller_listener_names[0])

    def _broker_epoch(self) -> int:
        return self.lifecycle.epoch

    def _applied_epoch(self) -> int:
        """Of our registration once it is applied, else -1: by then our last incarnation is out of every ISR."""
        assert self.broker is not None
        known = self.broker.image.brokers.get(self.config.node_id)
        return known.epoch if known is not None and known.incarnation == self.lifecycle.incarnation else -1

    def _committed(self, image: MetadataImage, changes: Changes) -> None:
        if self.controller is not None:
            self.controller.committed(image)
        self._progress.set()
        if self._publisher is not None:
            self._publisher.offer(image, changes)

    def _led(self, leadership: Leadership) -> None:
        self._progress.set()
        if self.controller is not None:
            self.controller.leadership_changed(leadership)
        if self.broker is not None and leadership.leader_id is not None:
            self._channel.controller_moved()
            self.lifecycle.controller_moved()

    def _applied(self) -> None:
        self._progress.set()
        if self._publisher is not None:
            self.lifecycle.nudge()

    def _log_troubled(self, log: Log) -> None:
        assert self.broker is not None
        partition = self.broker.hosted.get(log.partition)
        if partition is None or partition.log is not log:
            return
        if log.offline is not None:
            self.broker.groups.removed(partition)
            partition.failed()
        if self._publisher is not None:
            self._publisher.troubled(partition)

    def _features(self) -> Features:
        supported = {name: (levels.min, levels.max) for name, levels in SUPPORTED.items()}
        image = self.raft.committed
        return Features(supported, image.offset, {**image.features.levels, "kraft.version": KRAFT_LEVEL})

    # Stopping

    def _is_abandoned(self) -> bool:
        """No controller has answered for a while: there is nobody left to agree to the shutdown."""
        return self.world.clock.monotonic() - self.lifecycle.answered_at > ABANDONED_SECONDS

    async def stop(self) -> None:
        """A controlled shutdown: leave the cluster, finish what was asked, close the logs, mark it clean."""
        if self.broker is not None:
            await self._leave(self.broker, self.config.get(settings.CONTROLLED_SHUTDOWN_ENABLE))
        if self.controller is not None:
            await self._hand_over(self.controller)
        if self.http is not None:
            self.http.close()
        await self.server.close(grace=1.0)
        if self.broker is not None:
            self._channel.close()
            await self.broker.store.close(self.lifecycle.epoch)
        if self.controller is not None:
            self.controller.close()
        await self.raft.close()
        self.lag.stop()
        if self._release_lock is not None:
            self._release_lock()

    async def _hand_over(self, controller: ActiveController) -> None:
        """A cluster that stops as a whole needs its controller until the last broker has left."""
        try:
            async with asyncio.timeout(HAND_OVER_SECONDS):
                while controller.brokers_leaving:
                    await asyncio.sleep(0.01)
        except TimeoutError:
            _log.warning("brokers are still leaving while their controller stops")
        await self.raft.leave(RESIGN_SECONDS)

    async def _leave(self, broker: Broker, controlled: bool) -> None:
        """Ask the controller for a shutdown: it moves leaderships away and takes the broker out."""
        if controlled:
            await self._ask_to_leave()
        broker.groups.stop()
        self.upkeep.stop()
        await broker.cleaner.close()
        self.lifecycle.stop()
        if self._publishing is not None:
            self._publishing.cancel()
        broker.fetchers.close()

    async def _ask_to_leave(self) -> None:
        self.lifecycle.leave()
        try:
            async with asyncio.timeout(SHUTDOWN_SECONDS):
                while self.lifecycle.standing is not Standing.GONE and not self._is_abandoned():
                    await asyncio.sleep(0.01)
        except TimeoutError:
            _log.warning("the controller did not agree to the shutdown in time")


def _timing(config: NodeConfig) -> Timing:
    return Timing(
        election_timeout=config.get(settings.CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS) / 1000,
        fetch_timeout=config.get(settings.CONTROLLER_QUORUM_FETCH_TIMEOUT_MS) / 1000,
        election_backoff_max=config.get(settings.CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS) / 1000,
        request_timeout=config.get(settings.CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS) / 1000,
        retry_backoff=config.get(settings.CONTROLLER_QUORUM_RETRY_BACKOFF_MS) / 1000,
    )


def _fetch_limits(config: NodeConfig) -> FetchLimits:
    return FetchLimits(
        wait_ms=config.get(settings.REPLICA_FETCH_WAIT_MAX_MS),
        min_bytes=config.get(settings.REPLICA_FETCH_MIN_BYTES),
        partition_bytes=config.get(settings.REPLICA_FETCH_MAX_BYTES),
        response_bytes=config.get(settings.REPLICA_FETCH_RESPONSE_MAX_BYTES),
        backoff=config.get(settings.REPLICA_FETCH_BACKOFF_MS) / 1000,
        timeout=config.get(settings.REPLICA_SOCKET_TIMEOUT_MS) / 1000,
    )


def _limits(config: NodeConfig, room: int) -> Limits:
    queued = config.get(settings.QUEUED_MAX_REQUEST_BYTES)
    connections = config.get(settings.MAX_CONNECTIONS)
    if connections > room:
        _log.warning("max.connections=%d is taken as %d: the limit of open files allows no more", connections, room)
    return Limits(
        max_frame=config.get(settings.SOCKET_REQUEST_MAX_BYTES),
        queued_bytes=queued if queued > 0 else NO_BOUND,
        slots=config.get(settings.QUEUED_MAX_REQUESTS),
        connections=min(connections, room),
        connections_per_ip=config.get(settings.MAX_CONNECTIONS_PER_IP),
        connections_per_ip_overrides=config.max_connections_per_ip_overrides,
        idle_seconds=config.get(settings.CONNECTIONS_MAX_IDLE_MS) / 1000,
    )
