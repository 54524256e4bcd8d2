"""Makes the parts of a broker, each after those that it needs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from highwater import config as settings
from highwater.broker.applied_metadata import AppliedMetadata
from highwater.broker.auto_creation import AutoCreation
from highwater.broker.broker import Broker
from highwater.broker.controller_channel import ControllerChannel
from highwater.broker.departed import Departed
from highwater.broker.directories import ReplicaDirectories
from highwater.broker.doubts import Doubts
from highwater.broker.follower_fetches import FollowerFetches
from highwater.broker.groups import GroupCoordinator
from highwater.broker.isr_changes import IsrChanges
from highwater.broker.latency import Latencies
from highwater.broker.lifecycle import Lifecycle
from highwater.broker.producer_ids import ProducerIds
from highwater.broker.throttles import Throttles
from highwater.broker.topic_rows import TopicRows
from highwater.config import NodeConfig
from highwater.log.compaction.cleaner import Cleaner
from highwater.log.home import Home
from highwater.log.log import Log
from highwater.log.store import LogStore
from highwater.metadata.registration import VersionRange
from highwater.model import Endpoint, NodeId, Uuid
from highwater.net.deadlines import DeadlineQueue
from highwater.partition.fetch_session import FetchSessions
from highwater.partition.fetcher import Fetcher, Limits
from highwater.partition.fetchers import Fetchers
from highwater.partition.hosted import Hosted
from highwater.partition.in_sync import InSync
from highwater.partition.throttle import Throttle
from highwater.world import World


def assemble(
    world: World,
    config: NodeConfig,
    home: Home,
    incarnation: Uuid,
    features: dict[str, VersionRange],
    deadlines: DeadlineQueue,
    controller_endpoint: Callable[[], Endpoint | None],
) -> Broker:
    """Each start of a broker is a new incarnation."""
    node_id, clock = config.node_id, world.clock
    metadata = AppliedMetadata(config, home.cluster_id, deadlines)
    channel = partial(ControllerChannel, world, config, deadlines=deadlines, controller=controller_endpoint)
    controller = channel(f"broker-{node_id}")
    lifecycle = _lifecycle(world, config, home, incarnation, features, channel(f"broker-{node_id}-heartbeat"), metadata)

    def broker_epoch() -> int:
        return lifecycle.epoch

    hosted = Hosted()
    groups = GroupCoordinator(world, config, deadlines, metadata)
    directories = ReplicaDirectories(world, node_id, home.directory_id, controller, broker_epoch)
    store = _store(world, config, home, metadata, _troubled(hosted, groups, directories))
    doubts = Doubts(clock)
    isr_changes = IsrChanges(world, node_id, controller, broker_epoch)
    throttles = Throttles.of(node_id, metadata, clock.monotonic)
    return Broker(
        world=world,
        node_id=node_id,
        cluster_id=home.cluster_id,
        metadata=metadata,
        deadlines=deadlines,
        controller=controller,
        lifecycle=lifecycle,
        hosted=hosted,
        groups=groups,
        directories=directories,
        store=store,
        cleaner=Cleaner(world, store, lambda: metadata.config),
        in_sync=InSync(clock.monotonic, lambda: _longest_lag(metadata.config), isr_changes.ask),
        doubts=doubts,
        departed=Departed(clock),
        fetchers=_fetchers(world, deadlines, metadata, incarnation, doubts, store, throttles.follower),
        throttles=throttles,
        sessions=_sessions(world, config),
        follower_fetches=FollowerFetches(clock.monotonic),
        latencies=Latencies(clock.monotonic),
        producer_ids=ProducerIds(node_id, controller, broker_epoch, clock.monotonic),
        auto_creation=AutoCreation(world, controller, lambda: _request_timeout(metadata.config), metadata.knows_topic),
        topic_rows=TopicRows(),
    )


def _sessions(world: World, config: NodeConfig) -> FetchSessions:
    return FetchSessions(config.get(settings.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS), world.random("fetch-sessions"))


def _lifecycle(
    world: World,
    config: NodeConfig,
    home: Home,
    incarnation: Uuid,
    features: dict[str, VersionRange],
    heartbeats: ControllerChannel,
    metadata: AppliedMetadata,
) -> Lifecycle:
    return Lifecycle(
        world,
        config,
        home.cluster_id,
        incarnation,
        home.directory_id,
        features,
        heartbeats,
        lambda: metadata.image.offset,
    )


def _store(
    world: World, config: NodeConfig, home: Home, metadata: AppliedMetadata, troubled: Callable[[Log], None]
) -> LogStore:
    loaders = config.get(settings.NUM_RECOVERY_THREADS_PER_DATA_DIR)
    return LogStore(world, home.directory, metadata.log_config, troubled, loaders)


def _fetchers(
    world: World,
    deadlines: DeadlineQueue,
    metadata: AppliedMetadata,
    incarnation: Uuid,
    doubts: Doubts,
    store: LogStore,
    throttle: Throttle,
) -> Fetchers:
    limits = metadata.derived(_fetch_limits)

    def new_fetcher(leader: NodeId, at: Endpoint) -> Fetcher:
        return Fetcher(
            world,
            deadlines,
            metadata.config.node_id,
            leader,
            at,
            lambda: metadata.registered_epoch(incarnation),
            limits,
            doubts.cast,
            store,
            throttle,
        )

    return Fetchers(new_fetcher)


def _troubled(hosted: Hosted, groups: GroupCoordinator, directories: ReplicaDirectories) -> Callable[[Log], None]:
    """The callback for a log that failed or is damaged: it asks the controller to let other replicas take over."""

    def troubled(log: Log) -> None:
        partition = hosted.get(log.partition)
        if partition is None or partition.log is not log:
            return
        if log.offline is not None:
            groups.removed(partition)
            partition.failed()
        directories.lose(partition.topic_id, partition.tp.partition, lasting=log.offline is not None)

    return troubled


def _longest_lag(config: NodeConfig) -> float:
    return config.get(settings.REPLICA_LAG_TIME_MAX_MS) / 1000


def _request_timeout(config: NodeConfig) -> int:
    return config.get(settings.REQUEST_TIMEOUT_MS)


def _fetch_limits(config: NodeConfig) -> Limits:
    return Limits(
        wait_ms=config.get(settings.REPLICA_FETCH_WAIT_MAX_MS),
        min_bytes=config.get(settings.REPLICA_FETCH_MIN_BYTES),
        partition_bytes=config.get(settings.REPLICA_FETCH_MAX_BYTES),
        response_bytes=config.get(settings.REPLICA_FETCH_RESPONSE_MAX_BYTES),
        backoff=config.get(settings.REPLICA_FETCH_BACKOFF_MS) / 1000,
        timeout=config.get(settings.REPLICA_SOCKET_TIMEOUT_MS) / 1000,
    )
