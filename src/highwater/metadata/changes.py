"""What is different between two images, so that who publishes one need not compare everything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from highwater.metadata.configs import ConfigResource
from highwater.metadata.topics import TopicImage
from highwater.model import NodeId, Uuid

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Changes:
    """Names what was written, in a fixed order; a value written with itself may be named too."""

    created: tuple[Uuid, ...] = ()
    deleted: tuple[TopicImage, ...] = ()
    """As they were before."""
    partitions: Mapping[Uuid, tuple[int, ...]] = field(default_factory=dict)
    """Of the topics that exist afterwards; those of created topics included."""
    brokers: tuple[NodeId, ...] = ()
    controllers: tuple[NodeId, ...] = ()
    configs: tuple[ConfigResource, ...] = ()
    features: tuple[str, ...] = ()
    producer_ids: bool = False
    quotas: bool = False
    acls: bool = False
    credentials: bool = False
    """SCRAM credentials or delegation tokens."""

    def __bool__(self) -> bool:
        return self != NOTHING

    def then(self, later: Changes) -> Changes:
        """Both, as one step from the image before `self` to the image after `later`."""
        gone = {topic.id for topic in later.deleted}
        ours = set(self.created)
        return Changes(
            created=tuple(topic for topic in self.created if topic not in gone) + later.created,
            deleted=self.deleted + tuple(topic for topic in later.deleted if topic.id not in ours),
            partitions=dict(_joined(self.partitions, later.partitions, gone)),
            brokers=_union(self.brokers, later.brokers),
            controllers=_union(self.controllers, later.controllers),
            configs=_union(self.configs, later.configs),
            features=_union(self.features, later.features),
            producer_ids=self.producer_ids or later.producer_ids,
            quotas=self.quotas or later.quotas,
            acls=self.acls or later.acls,
            credentials=self.credentials or later.credentials,
        )


NOTHING = Changes()


def different(before: Mapping[K, Any], after: Mapping[K, Any]) -> tuple[K, ...]:
    """The keys whose value is another, is new or is gone."""
    written = tuple(key for key, value in after.items() if before.get(key) != value)
    return written + tuple(key for key in before if key not in after)


def _union(first: tuple[K, ...], second: tuple[K, ...]) -> tuple[K, ...]:
    return tuple(dict.fromkeys(first + second))


def _joined(
    first: Mapping[Uuid, tuple[int, ...]], second: Mapping[Uuid, tuple[int, ...]], gone: set[Uuid]
) -> Iterator[tuple[Uuid, tuple[int, ...]]]:
    for topic in dict.fromkeys((*first, *second)):
        if topic not in gone:
            yield topic, _union(first.get(topic, ()), second.get(topic, ()))
