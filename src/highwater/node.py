"""One node: the only place where the parts are joined, started in their order and stopped in the reverse one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import PurePath

from highwater import config as settings
from highwater.broker.apis import broker_registry
from highwater.broker.broker import Broker
from highwater.broker.controller_channel import ControllerChannel
from highwater.broker.lifecycle import Lifecycle, Standing
from highwater.broker.producer_ids import ProducerIds
from highwater.broker.publisher import Publisher
from highwater.broker.upkeep import Upkeep
from highwater.config import ConfigError, LogConfig, NodeConfig
from highwater.controller.features import SUPPORTED, bootstrap_records, unsupported_levels
from highwater.errors import Code
from highwater.log import names
from highwater.log.log import Log
from highwater.log.store import LogStore
from highwater.metadata.changes import Changes
from highwater.metadata.cluster import MetadataImage
from highwater.model import Endpoint, Uuid
from highwater.net.api_versions import Features, register_api_versions
from highwater.net.deadlines import DeadlineQueue
from highwater.net.server import Limits, ListenerSpec, Server
from highwater.net.stats import LoopLag
from highwater.partition.fetch_session import FetchSessions
from highwater.partition.hosted import Hosted
from highwater.quorum import Identity, Leadership, Listener, ReplicaKey, Timing, VoterNode
from highwater.raft_node.active import ActiveController
from highwater.raft_node.apis import controller_registry
from highwater.raft_node.meta_properties import MetaProperties, read_meta_properties
from highwater.raft_node.raft_node import Listeners, RaftNode
from highwater.world import Disk, Step, World
from highwater.world.jobs import finished

SHUTDOWN_SECONDS = 10.0
NEVER_MS = 2**62
NO_BOUND = 2**62
KRAFT_LEVEL = 1
_log = logging.getLogger(__name__)


def _read_meta(disk: Disk, directory: PurePath) -> Generator[Step, None, MetaProperties | None]:
    yield Step()
    return read_meta_properties(disk, directory)


class NotStarted(Exception):
    """It took too long; whoever started the node is told so."""


class Node:
    """Broker and controller in one process; they meet on the wire and here."""

    def __init__(self, world: World, config: NodeConfig, failed: Callable[[BaseException], None]) -> None:
        self.world = world
        self.config = config
        self._failed = failed
        self.directory = PurePath(config.log_dirs[0])
        self.deadlines = DeadlineQueue(world.clock)
        self.lag = LoopLag(world.clock)
        self._release_lock: Callable[[], None] | None = None
        self._caught_up = asyncio.Event()
        self._publishing: asyncio.Task[None] | None = None
        self._publisher: Publisher | None = None
        self._check_supported()

    def _check_supported(self) -> None:
        config = self.config
        if not (config.is_broker and config.is_controller):
            raise ConfigError("process.roles: this version runs broker,controller in one process only")
        if len(config.log_dirs) != 1:
            raise ConfigError("log.dirs: one directory is supported")
        if config.voters and [voter.id for voter in config.voters] != [config.node_id]:
            raise ConfigError("controller.quorum.voters: a quorum of one voter, this node, is supported")

    async def start(self) -> None:
        """Returns when clients are served and the controller counts this broker in."""
        patience = self.config.get(settings.SERVER_MAX_STARTUP_TIME_MS)
        try:
            async with asyncio.timeout(None if patience >= NEVER_MS else patience / 1000) as within:
                await self._start()
        except TimeoutError as failed:
            if not within.expired():
                raise
            raise NotStarted(f"not started within server.max.startup.time.ms={patience}") from failed

    async def _start(self) -> None:
        self._release_lock = self.world.disk.lock(self.directory / names.LOCK)
        meta = await finished(self.world, _read_meta, self.directory)
        if meta is None:
            raise ConfigError(f"{self.directory} is not formatted: run 'highwater storage format' first")
        if meta.node_id != self.config.node_id:
            raise ConfigError(f"{self.directory} belongs to node {meta.node_id}, this is {self.config.node_id}")
        self.cluster_id = meta.cluster_id
        directory_id = meta.directory_id or Uuid(bytes(16))
        await self._join(directory_id)
        await self._serve(directory_id)
        self.lag.start()

    async def _join(self, directory_id: Uuid) -> None:
        """Open the listeners, held, and take part in the quorum."""
        config, world = self.config, self.world
        own = config.controller_listeners[0]
        voter = VoterNode(ReplicaKey(config.node_id, directory_id), ())
        identity = Identity(self.cluster_id, voter, own.name, ())
        self.raft = RaftNode(world, config, identity, _metadata_log_config(config))
        self.controller = ActiveController(world, config, self.raft, bootstrap_records())
        controllers = controller_registry(self.controller)
        self._make_broker()
        brokers = broker_registry(self.broker)
        for registry in (controllers, brokers):
            register_api_versions(registry, self._features)
        specs = [ListenerSpec(each.name, each.endpoint, controllers) for each in config.controller_listeners]
        specs += [ListenerSpec(each.name, each.endpoint, brokers) for each in config.broker_listeners]
        self.server = Server(world, specs, _limits(config))
        self.server.hold(*(each.name for each in config.broker_listeners))
        await self.server.start()
        bound = self.server.endpoints
        at = bound[own.name]
        advertised = Listener(own.name, own.endpoint.host or at.host, own.endpoint.port or at.port)
        self.raft.identity = replace(identity, node=replace(voter, listeners=(advertised,)))
        told = Listeners(self._committed, self._led, self._fail)
        await self.raft.open(told, _timing(config))

    def _make_broker(self) -> None:
        config, world = self.config, self.world
        client_id = f"broker-{config.node_id}"
        find, deadlines = self._controller_endpoint, self.deadlines
        channel = ControllerChannel(world, config, client_id, deadlines, find)
        self._heartbeats = ControllerChannel(world, config, f"{client_id}-heartbeat", deadlines, find)
        self._channel = channel
        producer_ids = ProducerIds(config.node_id, channel, lambda: self.lifecycle.epoch)
        at_a_time = config.get(settings.NUM_RECOVERY_THREADS_PER_DATA_DIR)
        store = LogStore(
            world, self.directory, lambda topic: self.broker.log_config(topic), self._log_offline, at_a_time
        )
        slots = config.get(settings.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS)
        self.broker = Broker(
            world,
            config,
            self.cluster_id,
            Hosted(),
            store,
            FetchSessions(slots, world.random("fetch-sessions")),
            self.deadlines,
            channel,
            producer_ids,
            MetadataImage(self.cluster_id),
        )
        self.upkeep = Upkeep(self.broker)

    async def _serve(self, directory_id: Uuid) -> None:
        """Catch up with the metadata, open the logs, register, be unfenced, and let the clients in."""
        config = self.config
        await self._caught_up.wait()
        image = self.raft.committed
        unsupported = unsupported_levels(image.features)
        if unsupported:
            raise ConfigError(f"{self.directory}: {'; '.join(unsupported)}")
        publisher = Publisher(self.broker, self._applied)
        await publisher.begin(image)
        self._publisher = publisher
        publisher.offer(self.raft.committed, _since(image, self.raft.committed))
        self._publishing = self.world.spawn("publisher", publisher.run())
        incarnation = Uuid(self.world.random("incarnation").randbytes(16))
        supported = dict(SUPPORTED)
        self.lifecycle = Lifecycle(
            self.world,
            config,
            self.cluster_id,
            incarnation,
            directory_id,
            supported,
            self._heartbeats,
            lambda: self.broker.image.offset,
        )
        previous = self.broker.store.found.broker_epoch
        await self.lifecycle.register(config.advertised_listeners, self.server.endpoints, previous)
        await self.lifecycle.reached(Standing.ACTIVE)
        self.upkeep.start()
        self.server.release()

    # What the parts tell each other

    def _controller_endpoint(self) -> Endpoint | None:
        leader = self.raft.leader_id
        if leader is None:
            return None
        own = self.config.controller_listeners[0].name
        listeners = self.raft.voters.listeners(leader)
        return next((Endpoint(at.host, at.port) for at in listeners if at.name == own), None)

    def _committed(self, image: MetadataImage, changes: Changes) -> None:
        self.controller.committed(image)
        if self.controller.is_active or image.features.metadata_version is not None:
            self._caught_up.set()
        if self._publisher is not None:
            self._publisher.offer(image, changes)

    def _led(self, leadership: Leadership) -> None:
        self.controller.leadership_changed(leadership)

    def _applied(self) -> None:
        if self._publisher is not None:
            self.lifecycle.nudge()

    def _log_offline(self, log: Log) -> None:
        partition = self.broker.hosted.get(log.partition)
        if partition is not None and partition.log is log:
            partition.release(Code.KAFKA_STORAGE_ERROR)

    def _features(self) -> Features:
        supported = {name: (levels.min, levels.max) for name, levels in SUPPORTED.items()}
        image = self.raft.committed
        return Features(supported, image.offset, {**image.features.levels, "kraft.version": KRAFT_LEVEL})

    def _fail(self, failed: BaseException) -> None:
        self._failed(failed)

    # Stopping

    async def stop(self) -> None:
        """Leave the cluster, finish what was asked, close the logs, mark it clean."""
        if self.config.get(settings.CONTROLLED_SHUTDOWN_ENABLE):
            await self._leave()
        self.upkeep.stop()
        self.lifecycle.stop()
        await self.server.close(grace=1.0)
        if self._publishing is not None:
            self._publishing.cancel()
        self._channel.close()
        await self.broker.store.close(self.lifecycle.epoch)
        self.controller.close()
        await self.raft.close()
        self.lag.stop()
        if self._release_lock is not None:
            self._release_lock()

    async def _leave(self) -> None:
        """Ask the controller for a shutdown: it moves leaderships away and takes the broker out."""
        self.lifecycle.leave()
        try:
            async with asyncio.timeout(SHUTDOWN_SECONDS):
                await self.lifecycle.reached(Standing.GONE)
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


def _limits(config: NodeConfig) -> Limits:
    queued = config.get(settings.QUEUED_MAX_REQUEST_BYTES)
    return Limits(
        max_frame=config.get(settings.SOCKET_REQUEST_MAX_BYTES),
        queued_bytes=queued if queued > 0 else NO_BOUND,
        slots=config.get(settings.QUEUED_MAX_REQUESTS),
        connections=config.get(settings.MAX_CONNECTIONS),
        connections_per_ip=config.get(settings.MAX_CONNECTIONS_PER_IP),
        connections_per_ip_overrides=config.max_connections_per_ip_overrides,
        idle_seconds=config.get(settings.CONNECTIONS_MAX_IDLE_MS) / 1000,
    )


def _metadata_log_config(config: NodeConfig) -> LogConfig:
    """Kafka's settings for the metadata log; it is synced batch by batch, by the quorum's driver."""
    base = LogConfig.resolve(config, {})
    internal = config.get(settings.INTERNAL_METADATA_LOG_SEGMENT_BYTES)
    return replace(
        base,
        segment_bytes=internal or config.get(settings.METADATA_LOG_SEGMENT_BYTES),
        segment_ms=config.get(settings.METADATA_LOG_SEGMENT_MS),
        segment_jitter_ms=0,
        flush_messages=2**63 - 1,
        cleanup_policy=("delete",),
        retention_ms=-1,
        retention_bytes=-1,
        file_delete_delay_ms=config.get(settings.INTERNAL_METADATA_DELETE_DELAY_MILLIS),
    )


def _since(before: MetadataImage, after: MetadataImage) -> Changes:
    from highwater.metadata.cluster import difference

    return difference(before, after)
