"""The settings that are in force under a metadata image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar, cast

from highwater.config import NodeConfig, TopicSetting
from highwater.config.topic import TOPIC_MIN_INSYNC_REPLICAS, TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.configs import CLUSTER_DEFAULT, broker_resource, topic_resource
from highwater.metadata.topics import TopicImage

T = TypeVar("T")


def in_force(config: NodeConfig, image: MetadataImage) -> NodeConfig:
    """The node's settings with the dynamic ones of `image`; `config` itself if it has them already.

    A dynamic setting that contradicts this node's static ones is left out. It must not stop the controller.
    """
    return config.adopting(image.configs.of(broker_resource(config.node_id)), image.configs.of(CLUSTER_DEFAULT))


class ElectionRules(NamedTuple):
    """The settings that decide on the leaders of one topic's partitions."""

    min_isr: int
    unclean: bool
    elr: bool

    def bound(self, replicas: int) -> int:
        """The smallest ISR with which the leader of a partition with so many replicas commits records. The leader has
        the same rule. It holds for each partition by itself: after reassignments the partitions of a topic may have
        different numbers of replicas. A bound above the number of replicas could never be reached."""
        return min(self.min_isr, replicas)


def election_rules(head: MetadataImage, topic: TopicImage, config: NodeConfig) -> ElectionRules:
    overrides = head.configs.of(topic_resource(topic.name))
    min_isr = _resolved(TOPIC_MIN_INSYNC_REPLICAS, overrides, config)
    unclean = _resolved(TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE, overrides, config)
    return ElectionRules(min_isr, unclean, head.features.elr_enabled)


def _resolved(setting: TopicSetting[T], overrides: Mapping[str, str], config: NodeConfig) -> T:
    text = overrides.get(setting.name)
    return cast(T, setting.of(config)) if text is None else setting.parse(text)
