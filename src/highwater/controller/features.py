"""The feature levels of a new cluster, and the first records of an active controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from highwater.config import MIN_INSYNC_REPLICAS, NodeConfig
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.configs import CLUSTER_DEFAULT, ConfigResource, ResourceType
from highwater.metadata.features import ELR_VERSION, KRAFT_VERSION, METADATA_VERSION, FeaturesImage
from highwater.metadata.features import SUPPORTED as SUPPORTED
from highwater.metadata.features import unsupported_levels as unsupported_levels
from highwater.wire.codec import Message
from highwater.wire.messages.abort_transaction_record import AbortTransactionRecord
from highwater.wire.messages.begin_transaction_record import BeginTransactionRecord
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.end_transaction_record import EndTransactionRecord
from highwater.wire.messages.feature_level_record import FeatureLevelRecord

BOOTSTRAP_LEVELS: Final[Mapping[str, int]] = MappingProxyType({METADATA_VERSION: 30, ELR_VERSION: 1})


def bootstrap_records(levels: Mapping[str, int] = BOOTSTRAP_LEVELS) -> list[FeatureLevelRecord]:
    """The records in `bootstrap.checkpoint` of a newly formatted directory."""
    return list(
        FeaturesImage({name: level for name, level in levels.items() if level and name != KRAFT_VERSION}).records()
    )


def activation_records(head: MetadataImage, bootstrap: Sequence[Message], config: NodeConfig) -> list[Message]:
    """The records that a controller writes when it becomes active. On an empty log these are the bootstrap records, in
    a transaction. A transaction that its predecessor did not finish is aborted."""
    records: list[Message] = []
    if head.transaction is not None:
        records.append(AbortTransactionRecord(reason="Controller failover"))
    if head.features.metadata_version is not None:
        return records
    records += [BeginTransactionRecord(name="Bootstrap records"), *bootstrap]
    if any(isinstance(r, FeatureLevelRecord) and r.name == ELR_VERSION and r.feature_level for r in bootstrap):
        records += _one_bound(head, config)
    return [*records, EndTransactionRecord()]


def _one_bound(head: MetadataImage, config: NodeConfig) -> list[Message]:
    """With ELR, min.insync.replicas is a setting of the cluster: brokers with different values would disagree on what
    is committed. This controller's value becomes the cluster's, unless the cluster has one already."""

    def bound(resource: ConfigResource, value: str | None) -> Message:
        return ConfigRecord(
            resource_type=resource.type, resource_name=resource.name, name=MIN_INSYNC_REPLICAS.name, value=value
        )

    records: list[Message] = []
    if MIN_INSYNC_REPLICAS.name not in head.configs.of(CLUSTER_DEFAULT):
        records.append(bound(CLUSTER_DEFAULT, str(config.with_dynamic({}).get(MIN_INSYNC_REPLICAS))))
    for resource, values in sorted(head.configs.by_resource.items()):
        per_broker = resource.type == ResourceType.BROKER and resource != CLUSTER_DEFAULT
        if per_broker and MIN_INSYNC_REPLICAS.name in values:
            records.append(bound(resource, None))
    return records
