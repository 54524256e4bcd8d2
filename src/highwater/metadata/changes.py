"""The differences between two images, so that a publisher need not compare everything."""

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
    """What was written, in a fixed order. It may include a value that was overwritten with the same value."""

    created: tuple[Uuid, ...] = ()
    deleted: tuple[TopicImage, ...] = ()
    """Deleted topics, as they were before."""
    partitions: Mapping[Uuid, tuple[int, ...]] = field(default_factory=dict)
    """Changed partitions of topics that exist afterwards, including those of created topics."""
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
        """Both changes as one: from the image before `self` to the image after `later`."""
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
    """The keys that are new, are gone or have another value."""
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
