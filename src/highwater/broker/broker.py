"""What every handler of a broker works with."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from highwater.broker.auto_creation import AutoCreation
from highwater.broker.controller_channel import ControllerChannel
from highwater.broker.departed import Departed
from highwater.broker.doubts import Doubts
from highwater.broker.groups import GroupCoordinator
from highwater.broker.producer_ids import ProducerIds
from highwater.config import FETCH_MAX_BYTES, REQUEST_TIMEOUT_MS, ConfigError, LogConfig, NodeConfig
from highwater.errors import Code
from highwater.log.compaction.cleaner import Cleaner
from highwater.log.store import LogStore
from highwater.metadata.brokers import BrokersImage
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.configs import topic_resource
from highwater.metadata.topics import PartitionImage, TopicImage
from highwater.model import NodeId, Uuid
from highwater.net.deadlines import Deadline, DeadlineQueue
from highwater.partition.fetch_session import FetchSessions
from highwater.partition.fetchers import Fetchers
from highwater.partition.hosted import Hosted
from highwater.partition.in_sync import InSync
from highwater.world import World

APPLYING_SECONDS = 10.0
"""What an answer of the controller waits at most until this broker has applied what it tells of."""
_log = logging.getLogger(__name__)


class NodeEndpoint(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None


class Broker:
    def __init__(
        self,
        world: World,
        config: NodeConfig,
        cluster_id: str,
        hosted: Hosted,
        store: LogStore,
        sessions: FetchSessions,
        deadlines: DeadlineQueue,
        controller: ControllerChannel,
        producer_ids: ProducerIds,
        in_sync: InSync,
        fetchers: Fetchers,
        image: MetadataImage,
        groups: GroupCoordinator,
    ) -> None:
        self.world = world
        self.config = config
        self.cluster_id = cluster_id
        self.node_id: NodeId = config.node_id
        self.hosted = hosted
        self.store = store
        self.sessions = sessions
        self.deadlines = deadlines
        self.controller = controller
        self.producer_ids = producer_ids
        self.in_sync = in_sync
        self.fetchers = fetchers
        self.groups = groups
        self.image = image
        """The newest metadata that this node has applied: what clients are told."""
        self.coming_image = image
        """The metadata that is being applied, or was last: settings and who may be in an ISR are read there."""
        self.fetch_max_bytes = config.get(FETCH_MAX_BYTES)
        self._resolved_for = config
        self._resolved: dict[tuple[tuple[str, str], ...], LogConfig] = {}
        self._reached: dict[str, tuple[BrokersImage, frozenset[int]]] = {}
        self.doubts = Doubts(world.clock)
        self.departed = Departed(world.clock)
        self.auto_creation = AutoCreation(
            world.clock,
            controller,
            lambda: self.config.get(REQUEST_TIMEOUT_MS),
            lambda name: name in self.image.topics.by_name,
        )
        self.cleaner = Cleaner(world, store, lambda: self.config)
        self._applying: list[Deadline] | None = None
        """Who waits while newer metadata is known and not applied yet; None while there is none."""

    def news(self) -> None:
        """Newer metadata is known, and is about to be applied."""
        if self._applying is None:
            self._applying = []

    def applied(self) -> None:
        """All that is known is applied."""
        self.auto_creation.settle()
        waiting, self._applying = self._applying or [], None
        for deadline in waiting:
            deadline.fire()

    def when_applied(self, told: Callable[[], None]) -> None:
        """What was decided a moment ago shall be seen by who asked for it, through this broker at least; but a broker
        that is slow to apply it, or cannot, does not keep the controller's answer for itself."""
        if self._applying is None:
            told()
        else:
            self._applying.append(self.deadlines.add(APPLYING_SECONDS, told))

    def topic(self, topic: str | Uuid) -> TopicImage | None:
        """By name, or by id where it is given as bytes."""
        topics = self.image.topics
        return topics.by_name.get(topic) if isinstance(topic, str) else topics.by_id.get(topic)

    def topic_name(self, topic: str | Uuid) -> str | None:
        if isinstance(topic, str):
            return topic
        known = self.image.topics.by_id.get(topic)
        return None if known is None else known.name

    def partition_image(self, topic: str | Uuid, index: int) -> PartitionImage | None:
        known = self.topic(topic)
        return None if known is None else known.partitions.get(index)

    def not_hosted(self, topic: str | Uuid, index: int) -> Code:
        """Why a partition that is not here cannot be served."""
        known = self.topic(topic)
        if known is None and not isinstance(topic, str):
            return Code.UNKNOWN_TOPIC_ID
        partition = None if known is None else known.partitions.get(index)
        if partition is None:
            return Code.UNKNOWN_TOPIC_OR_PARTITION
        if self.node_id in partition.replicas:
            return Code.KAFKA_STORAGE_ERROR
        return Code.NOT_LEADER_OR_FOLLOWER

    def log_config(self, topic: str) -> LogConfig:
        """Worked out once for all topics with the same settings of their own: most have none."""
        if self._resolved_for is not self.config:
            self._resolved_for, self._resolved = self.config, {}
        overrides = self.coming_image.configs.of(topic_resource(topic))
        settings = tuple(sorted(overrides.items()))
        resolved = self._resolved.get(settings)
        if resolved is None:
            resolved = self._resolved[settings] = self._usable(topic, overrides)
        return resolved

    def _usable(self, topic: str, overrides: Mapping[str, str]) -> LogConfig:
        """A value that this release cannot read, in a directory that another one wrote, counts as not set."""
        try:
            return LogConfig.resolve(self.config, overrides)
        except ConfigError as problem:
            _log.error("topic %s: %s; the broker's own setting counts", topic, problem)
        usable = {name: value for name, value in overrides.items() if self._can_read(name, value)}
        return LogConfig.resolve(self.config, usable)

    def _can_read(self, name: str, value: str) -> bool:
        try:
            LogConfig.resolve(self.config, {name: value})
        except ConfigError:
            return False
        return True

    def reached_through(self, listener: str) -> frozenset[int]:
        """The brokers that have this listener, alive or not; worked out once while no broker changes."""
        brokers = self.image.brokers
        known = self._reached.get(listener)
        if known is None or known[0] is not brokers:
            nodes = frozenset(node.id for node in brokers.by_id.values() if node.listener(listener) is not None)
            known = self._reached[listener] = (brokers, nodes)
        return known[1]

    def node_endpoints(self, nodes: Iterable[int], listener: str) -> list[NodeEndpoint]:
        """Where these brokers are reached by who came through `listener`; those without it are left out."""
        found = []
        for node in sorted(set(nodes)):
            registration = self.image.brokers.get(node)
            endpoint = None if registration is None else registration.listener(listener)
            if registration is not None and endpoint is not None:
                found.append(NodeEndpoint(node, endpoint.host, endpoint.port, registration.rack))
        return found
