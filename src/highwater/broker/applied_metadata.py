"""The metadata that a broker uses: the image that it has applied, the settings that follow from it, and look-ups in
both. It is made before every other part of a broker, and is passed to the parts that need it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from highwater.config import FETCH_MAX_BYTES, ConfigError, LogConfig, NodeConfig
from highwater.errors import Code
from highwater.metadata.brokers import BrokersImage
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.configs import CLUSTER_DEFAULT, broker_resource, topic_resource
from highwater.metadata.topics import PartitionImage, TopicImage
from highwater.model import NodeId, Uuid
from highwater.net.deadlines import Deadline, DeadlineQueue

APPLYING_SECONDS = 10.0
"""The longest time that a response of the controller waits until this broker has applied the same decision."""
_log = logging.getLogger(__name__)
T = TypeVar("T")


class NodeEndpoint(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None


class AppliedMetadata:
    """Only the publisher changes it: `adopt_settings`, then the roles of the partitions, then `install`."""

    def __init__(self, config: NodeConfig, cluster_id: str, deadlines: DeadlineQueue) -> None:
        self.node_id: NodeId = config.node_id
        self.config = config
        """The broker's settings, dynamic ones included."""
        self.image = MetadataImage(cluster_id)
        """The newest metadata that this node has applied. Clients get their answers from it."""
        self.coming_image = self.image
        """The metadata that is being applied, or was applied last. Settings are read from it."""
        self.fetch_max_bytes = config.get(FETCH_MAX_BYTES)
        self._deadlines = deadlines
        self._resolved_for = config
        self._resolved: dict[tuple[tuple[str, str], ...], LogConfig] = {}
        self._reached: dict[str, tuple[BrokersImage, frozenset[int]]] = {}
        self._racks: dict[str, tuple[BrokersImage, dict[NodeId, str]]] = {}
        self._applying: list[Deadline] | None = None
        """Callers that wait until newer metadata is applied; None if no newer metadata is known."""

    # Changes

    def adopt_settings(self, image: MetadataImage) -> bool:
        """Begins to apply this image: takes over its settings. Returns whether any setting of this broker changed."""
        own, default = image.configs.of(broker_resource(self.node_id)), image.configs.of(CLUSTER_DEFAULT)
        before, self.config = self.config, self.config.adopting(own, default)
        self.coming_image = image
        if self.config is before:
            return False
        for why in self.config.ignored:
            if why not in before.ignored:
                _log.error("broker %d ignores settings that it cannot use: %s", self.node_id, why)
        self.fetch_max_bytes = self.config.get(FETCH_MAX_BYTES)
        return True

    def install(self, image: MetadataImage) -> MetadataImage:
        """The roles of this image are in place: clients get it from now on. Returns the image before."""
        before, self.image = self.image, image
        return before

    def newer_is_known(self) -> None:
        """Newer metadata is known, and is about to be applied."""
        if self._applying is None:
            self._applying = []

    def all_is_applied(self) -> None:
        waiting, self._applying = self._applying or [], None
        for deadline in waiting:
            deadline.fire()

    def when_applied(self, callback: Callable[[], None]) -> None:
        """Calls `callback` when the newest known metadata is applied. So a client that changed something sees the
        change, at least through this broker. But a broker that is slow to apply it does not hold the response back for
        ever."""
        if self._applying is None:
            callback()
        else:
            self._applying.append(self._deadlines.add(APPLYING_SECONDS, callback))

    # Look-ups

    def derived(self, read: Callable[[NodeConfig], T]) -> Callable[[], T]:
        """What `read` makes of the settings, for what is asked for with every request. `read` is called again only when
        the settings have changed."""
        source, value = self.config, read(self.config)

        def current() -> T:
            nonlocal source, value
            if self.config is not source:
                source, value = self.config, read(self.config)
            return value

        return current

    def registered_epoch(self, incarnation: Uuid) -> int:
        """The epoch of this broker's registration when it is applied, or else -1. By then its last incarnation is out
        of every ISR."""
        known = self.image.brokers.get(self.node_id)
        return known.epoch if known is not None and known.incarnation == incarnation else -1

    def knows_topic(self, name: str) -> bool:
        return name in self.image.topics.by_name

    def topic(self, topic: str | Uuid) -> TopicImage | None:
        """Finds a topic by name, or by id if `topic` is bytes."""
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
        """The error for a partition that this broker does not host."""
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
        """Computed once for all topics with the same own settings: most have none."""
        if self._resolved_for is not self.config:
            self._resolved_for, self._resolved = self.config, {}
        overrides = self.coming_image.configs.of(topic_resource(topic))
        settings = tuple(sorted(overrides.items()))
        resolved = self._resolved.get(settings)
        if resolved is None:
            resolved = self._resolved[settings] = self._usable(topic, overrides)
        return resolved

    def _usable(self, topic: str, overrides: Mapping[str, str]) -> LogConfig:
        """A value that this release cannot read counts as not set: another release may have written it."""
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
        """The brokers that have this listener, alive or not. It is computed again only when a broker changes."""
        brokers = self.image.brokers
        known = self._reached.get(listener)
        if known is None or known[0] is not brokers:
            nodes = frozenset(node.id for node in brokers.by_id.values() if node.listener(listener) is not None)
            known = self._reached[listener] = (brokers, nodes)
        return known[1]

    def racks_through(self, listener: str) -> Mapping[NodeId, str]:
        """The racks of the unfenced brokers that have this listener. Brokers without a rack are left out. It is
        computed again only when a broker changes."""
        brokers = self.image.brokers
        known = self._racks.get(listener)
        if known is None or known[0] is not brokers:
            racks = {
                node.id: node.rack
                for node in brokers.by_id.values()
                if node.rack is not None and not node.fenced and node.listener(listener) is not None
            }
            known = self._racks[listener] = (brokers, racks)
        return known[1]

    def node_endpoints(self, nodes: Iterable[int], listener: str) -> list[NodeEndpoint]:
        """The endpoints of these brokers on `listener`. Brokers without that listener are left out."""
        found = []
        for node in sorted(set(nodes)):
            registration = self.image.brokers.get(node)
            endpoint = None if registration is None else registration.listener(listener)
            if registration is not None and endpoint is not None:
                found.append(NodeEndpoint(node, endpoint.host, endpoint.port, registration.rack))
        return found
