"""The two throttles of a broker, with their settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

from highwater import config as settings
from highwater.broker.applied_metadata import AppliedMetadata
from highwater.config import LogConfig, Setting
from highwater.model import NodeId
from highwater.partition.partition import Partition
from highwater.partition.throttle import Throttle


class Throttles(NamedTuple):
    leader: Throttle
    follower: Throttle

    @classmethod
    def of(cls, broker: NodeId, metadata: AppliedMetadata, now: Callable[[], float]) -> Self:
        def rate(setting: Setting[int]) -> Callable[[], int | None]:
            return metadata.derived(lambda config: None if (v := config.get(setting)) == setting.default else v)

        def in_isr(partition: Partition, follower: NodeId) -> bool:
            image = metadata.partition_image(partition.topic_id, partition.tp.partition)
            return image is not None and follower in image.isr

        leader, follower = settings.LEADER_REPLICATION_THROTTLED_RATE, settings.FOLLOWER_REPLICATION_THROTTLED_RATE
        return cls(
            Throttle(broker, rate(leader), _of_leaders, in_isr, now),
            Throttle(broker, rate(follower), _of_followers, in_isr, now),
        )


def _of_leaders(config: LogConfig) -> frozenset[str]:
    return config.leader_replication_throttled_replicas


def _of_followers(config: LogConfig) -> frozenset[str]:
    return config.follower_replication_throttled_replicas
