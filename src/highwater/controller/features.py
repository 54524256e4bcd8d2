"""Feature levels: those of a fresh cluster, and changes to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from highwater.config import MIN_INSYNC_REPLICAS, NodeConfig
from highwater.controller.decision import Decision, told
from highwater.errors import Code, KafkaError
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.configs import CLUSTER_DEFAULT, ConfigResource, ResourceType
from highwater.metadata.features import ELR_VERSION, KRAFT_VERSION, METADATA_VERSION, UNSUPPORTED, FeaturesImage
from highwater.metadata.features import SUPPORTED as SUPPORTED
from highwater.metadata.features import unsupported_levels as unsupported_levels
from highwater.wire.codec import Message
from highwater.wire.messages.abort_transaction_record import AbortTransactionRecord
from highwater.wire.messages.begin_transaction_record import BeginTransactionRecord
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.end_transaction_record import EndTransactionRecord
from highwater.wire.messages.feature_level_record import FeatureLevelRecord
from highwater.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from highwater.wire.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse

BOOTSTRAP_LEVELS: Final[Mapping[str, int]] = MappingProxyType({METADATA_VERSION: 30, ELR_VERSION: 1})

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3


def bootstrap_records(levels: Mapping[str, int] = BOOTSTRAP_LEVELS) -> list[FeatureLevelRecord]:
    """What `bootstrap.checkpoint` of a freshly formatted directory holds."""
    return list(
        FeaturesImage({name: level for name, level in levels.items() if level and name != KRAFT_VERSION}).records()
    )


def activation_records(head: MetadataImage, bootstrap: Sequence[Message], config: NodeConfig) -> list[Message]:
    """What a controller writes when it becomes active: the bootstrap records on an empty log, in a transaction; and
    the end of a transaction that its predecessor did not finish."""
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
    """With ELR min.insync.replicas belongs to the cluster: brokers that disagree on it would disagree on what is
    committed. This controller's own value becomes everybody's, unless there is one already."""

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


def update_features(
    head: MetadataImage, request: UpdateFeaturesRequest, version: int, kraft_version: int, config: NodeConfig
) -> Decision[UpdateFeaturesResponse]:
    """All or nothing."""
    records: list[Message] = []
    if any(update.feature == ELR_VERSION and update.max_version_level > 0 for update in request.feature_updates):
        records += _one_bound(head, config)
    try:
        for update in request.feature_updates:
            records += _update(head, update, kraft_version)
    except KafkaError as error:
        message = f"The update failed for all features since the following feature had an error: {told(error)}"
        return Decision(UpdateFeaturesResponse(error_code=error.code, error_message=message))
    results = (
        [UpdatableFeatureResult(feature=update.feature, error_message=None) for update in request.feature_updates]
        if version <= 1
        else []
    )
    response = UpdateFeaturesResponse(error_message=None, results=results)
    return Decision(response, () if request.validate_only else records)


def _update(head: MetadataImage, update: FeatureUpdateKey, kraft_version: int) -> list[Message]:
    name, level = update.feature, update.max_version_level

    def refused(why: str) -> KafkaError:
        return KafkaError(Code.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {why}")

    current = kraft_version if name == KRAFT_VERSION else head.features.levels.get(name, 0)
    if update.upgrade_type not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        raise refused("The controller does not support the given upgrade type.")
    if level < 0:
        raise refused("A feature version cannot be less than 0.")
    if reason := _why_unsupported(head, name, level):
        raise refused(reason)
    if level < current and update.upgrade_type == _UPGRADE:
        raise refused(
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if level > current and update.upgrade_type != _UPGRADE:
        raise refused("Can't downgrade to a newer version.")
    if name == KRAFT_VERSION:
        return []  # The only level there is; it lives in the quorum's own records.
    return [FeatureLevelRecord(name=name, feature_level=level)]


def _why_unsupported(head: MetadataImage, name: str, level: int) -> str | None:
    nodes = [("The controller", SUPPORTED)]
    nodes += [(f"Broker {broker.id}", broker.features) for broker in head.brokers.by_id.values()]
    nodes += [(f"Controller {controller.id}", controller.features) for controller in head.controllers.by_id.values()]
    for who, supported in nodes:
        versions = supported.get(name, UNSUPPORTED)
        if level not in versions:
            does = "does not support this feature." if versions.max == 0 else f"only supports versions {versions}"
            return f"{who} {does}"
    return None
