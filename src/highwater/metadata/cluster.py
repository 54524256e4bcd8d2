"""The whole cluster's metadata as one immutable value."""

from __future__ import annotations

from dataclasses import dataclass, field

from highwater.metadata.brokers import BrokersImage
from highwater.metadata.changes import Changes, different
from highwater.metadata.configs import ConfigsImage
from highwater.metadata.controllers import ControllersImage
from highwater.metadata.features import FeaturesImage
from highwater.metadata.keyed import KeyedRecords
from highwater.metadata.producer_ids import ProducerIdsImage
from highwater.metadata.topics import TopicsImage


@dataclass(frozen=True, slots=True)
class Transaction:
    """A metadata transaction that has begun: its records are not visible until its end (KIP-868)."""

    name: str | None
    begun_at: int
    working: MetadataImage
    changes: Changes


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The metadata of the log up to and including `offset`. While a transaction is open, `offset` is the one before
    it."""

    cluster_id: str
    offset: int = -1
    epoch: int = -1
    features: FeaturesImage = field(default_factory=FeaturesImage)
    brokers: BrokersImage = field(default_factory=BrokersImage)
    controllers: ControllersImage = field(default_factory=ControllersImage)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: ConfigsImage = field(default_factory=ConfigsImage)
    quotas: KeyedRecords = field(default_factory=KeyedRecords)
    producer_ids: ProducerIdsImage = field(default_factory=ProducerIdsImage)
    acls: KeyedRecords = field(default_factory=KeyedRecords)
    scram: KeyedRecords = field(default_factory=KeyedRecords)
    tokens: KeyedRecords = field(default_factory=KeyedRecords)
    transaction: Transaction | None = None


def difference(before: MetadataImage, after: MetadataImage) -> Changes:
    """Compares everything. It is for an image from a snapshot: there are no records that say what changed."""
    old, new = before.topics.by_id, after.topics.by_id
    partitions = {}
    for topic_id, topic in new.items():
        known = old.get(topic_id)
        if known is topic:
            continue
        indexes = different(known.partitions if known else {}, topic.partitions)
        if indexes or known is None:
            partitions[topic_id] = indexes
    return Changes(
        created=tuple(topic_id for topic_id in new if topic_id not in old),
        deleted=tuple(topic for topic_id, topic in old.items() if topic_id not in new),
        partitions=partitions,
        brokers=different(before.brokers.by_id, after.brokers.by_id),
        controllers=different(before.controllers.by_id, after.controllers.by_id),
        configs=different(before.configs.by_resource, after.configs.by_resource),
        features=different(before.features.levels, after.features.levels),
        producer_ids=before.producer_ids != after.producer_ids,
        quotas=before.quotas != after.quotas,
        acls=before.acls != after.acls,
        credentials=before.scram != after.scram or before.tokens != after.tokens,
    )
