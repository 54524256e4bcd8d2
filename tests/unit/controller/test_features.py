from __future__ import annotations

from collections.abc import Sequence

import pytest

from highwater.controller.features import activation_records, bootstrap_records, update_features
from highwater.controller.settings import in_force
from highwater.errors import Code
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.features import FeaturesImage, unsupported_levels
from highwater.wire.codec import Message
from highwater.wire.messages.abort_transaction_record import AbortTransactionRecord
from highwater.wire.messages.begin_transaction_record import BeginTransactionRecord
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.end_transaction_record import EndTransactionRecord
from highwater.wire.messages.feature_level_record import FeatureLevelRecord
from highwater.wire.messages.register_broker_record import BrokerFeature
from highwater.wire.messages.register_controller_record import RegisterControllerRecord
from highwater.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.unit.controller.clusters import EMPTY, METADATA_VERSION, cluster, node_config, registered, then

CONFIG = node_config(min_insync_replicas="2")


ELR = FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)


def bound(value: str | None, broker: str = "") -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name=broker, name="min.insync.replicas", value=value)


def test_a_fresh_cluster_is_at_metadata_version_30_with_eligible_leader_replicas() -> None:
    assert bootstrap_records() == [METADATA_VERSION, ELR]


def test_bootstrap_records_name_what_is_above_zero_and_the_metadata_version_first() -> None:
    levels = {"group.version": 1, "kraft.version": 1, "metadata.version": 30, "a.version": 2, "share.version": 0}
    assert [record.name for record in bootstrap_records(levels)] == ["metadata.version", "a.version", "group.version"]


def test_the_first_controller_writes_the_bootstrap_records_in_a_transaction() -> None:
    records = activation_records(EMPTY, bootstrap_records(), CONFIG)
    begin = BeginTransactionRecord(name="Bootstrap records")
    assert records == [begin, METADATA_VERSION, ELR, bound("2"), EndTransactionRecord()]
    image = then(EMPTY, records)
    assert image.features.metadata_version == 30
    assert image.features.elr_enabled
    assert activation_records(image, bootstrap_records(), CONFIG) == []


def test_without_elr_the_bound_stays_each_nodes_own() -> None:
    records = activation_records(EMPTY, bootstrap_records({"metadata.version": 30}), CONFIG)
    assert not [record for record in records if isinstance(record, ConfigRecord)]


def test_elr_switched_on_later_fixes_the_bound_for_the_whole_cluster() -> None:
    on = FeatureUpdateKey(feature=ELR.name, max_version_level=1)
    head = then(cluster(1, 2), [registered_with_elr(1), registered_with_elr(2), bound("3", "1")])
    config = in_force(CONFIG, head)

    def records(head: MetadataImage) -> Sequence[Message]:
        decision = update_features(head, UpdateFeaturesRequest(feature_updates=[on]), 2, 1, config)
        assert decision.response.error_code == 0
        return decision.records

    # What the controller's file says, not what was set for it as a broker.
    assert records(head) == [bound("2"), bound(None, "1"), ELR]
    assert records(then(head, [bound("1")])) == [bound(None, "1"), ELR]


def registered_with_elr(broker: int) -> Message:
    record = registered(broker)
    record.features.append(BrokerFeature(name=ELR.name, max_supported_version=1))
    return record


def test_a_new_controller_ends_the_transaction_that_the_last_one_left_open() -> None:
    image = then(cluster(1), [BeginTransactionRecord(), FeatureLevelRecord(name="group.version", feature_level=1)])
    assert activation_records(image, bootstrap_records(), CONFIG) == [
        AbortTransactionRecord(reason="Controller failover")
    ]
    half = then(EMPTY, [BeginTransactionRecord(), METADATA_VERSION])
    records = activation_records(half, bootstrap_records(), CONFIG)
    assert isinstance(records[0], AbortTransactionRecord)
    assert then(half, records).features.metadata_version == 30


def test_a_cluster_with_features_that_we_do_not_have_is_told_apart() -> None:
    assert unsupported_levels(cluster(1).features) == []
    assert unsupported_levels(FeaturesImage({"metadata.version": 25, "group.version": 1})) == [
        "group.version is at level 1, supported is 0",
        "metadata.version is at level 25, supported is 30",
    ]


@pytest.mark.parametrize(
    ("feature", "level", "kind", "code"),
    [
        ("metadata.version", 30, 1, 0),
        ("kraft.version", 1, 1, 0),
        ("kraft.version", 1, 2, 0),
        ("metadata.version", 29, 2, Code.INVALID_UPDATE_VERSION),
        ("metadata.version", 31, 1, Code.INVALID_UPDATE_VERSION),
        ("metadata.version", 30, 0, Code.INVALID_UPDATE_VERSION),
        ("metadata.version", -1, 1, Code.INVALID_UPDATE_VERSION),
        ("kraft.version", 0, 2, Code.INVALID_UPDATE_VERSION),
        ("group.version", 1, 1, Code.INVALID_UPDATE_VERSION),
        ("group.version", 0, 1, 0),
        ("eligible.leader.replicas.version", 1, 1, 0),
        ("eligible.leader.replicas.version", 2, 1, Code.INVALID_UPDATE_VERSION),
    ],
)
def test_only_levels_that_we_support_can_be_set(feature: str, level: int, kind: int, code: int) -> None:
    head = cluster()
    update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
    decision = update_features(head, UpdateFeaturesRequest(feature_updates=[update]), 2, 1, CONFIG)
    assert decision.response.error_code == code
    if code:
        assert f"Invalid update version {level} for feature {feature}." in (decision.response.error_message or "")
        assert not decision.records


def test_a_feature_that_the_cluster_came_with_is_switched_off_only_on_purpose() -> None:
    head = then(cluster(), [FeatureLevelRecord(name="group.version", feature_level=1)])
    for kind, code in ((1, Code.INVALID_UPDATE_VERSION), (2, Code.NONE), (3, Code.NONE)):
        update = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=kind)
        decision = update_features(head, UpdateFeaturesRequest(feature_updates=[update]), 2, 1, CONFIG)
        assert decision.response.error_code == code
        assert "group.version" in then(head, decision.records).features.levels or code == Code.NONE


def test_updates_are_all_or_nothing_and_can_be_tried_out() -> None:
    good = FeatureUpdateKey(feature="metadata.version", max_version_level=30)
    bad = FeatureUpdateKey(feature="group.version", max_version_level=1)
    assert not update_features(cluster(1), UpdateFeaturesRequest(feature_updates=[good, bad]), 2, 1, CONFIG).records
    tried = update_features(cluster(1), UpdateFeaturesRequest(feature_updates=[good], validate_only=True), 1, 1, CONFIG)
    assert not tried.records
    assert [result.feature for result in tried.response.results] == ["metadata.version"]
    done = update_features(cluster(1), UpdateFeaturesRequest(feature_updates=[good]), 2, 1, CONFIG)
    assert done.records == [METADATA_VERSION]
    assert done.response.results == []


def test_a_level_that_one_broker_does_not_support_is_not_set() -> None:
    on = FeatureUpdateKey(feature=ELR.name, max_version_level=1)
    request = UpdateFeaturesRequest(feature_updates=[on])
    head = then(cluster(1, 2), [registered_with_elr(1)])
    decision = update_features(head, request, 2, 1, CONFIG)
    assert decision.response.error_code == Code.INVALID_UPDATE_VERSION
    assert "Broker 2 does not support this feature." in (decision.response.error_message or "")
    assert not decision.records
    head = then(head, [registered_with_elr(2), RegisterControllerRecord(controller_id=7)])
    assert "Controller 7 does" in (update_features(head, request, 2, 1, CONFIG).response.error_message or "")
