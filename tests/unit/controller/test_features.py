from __future__ import annotations

from highwater.controller.features import activation_records, bootstrap_records
from highwater.controller.settings import in_force
from highwater.metadata.features import FeaturesImage, unsupported_levels
from highwater.wire.codec import Message
from highwater.wire.messages.abort_transaction_record import AbortTransactionRecord
from highwater.wire.messages.begin_transaction_record import BeginTransactionRecord
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.end_transaction_record import EndTransactionRecord
from highwater.wire.messages.feature_level_record import FeatureLevelRecord
from tests.unit.controller.clusters import EMPTY, METADATA_VERSION, cluster, node_config, then

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


def test_with_elr_there_is_one_bound_for_the_whole_cluster() -> None:
    def settings(*before: ConfigRecord) -> list[Message]:
        head = then(EMPTY, before)
        records = activation_records(head, bootstrap_records(), in_force(CONFIG, head))
        return [record for record in records if isinstance(record, ConfigRecord)]

    # What the controller's file says, not what was set for it as a broker.
    assert settings(bound("3", "1")) == [bound("2"), bound(None, "1")]
    assert settings(bound("3", "1"), bound("1")) == [bound(None, "1")]


def test_a_new_controller_ends_the_transaction_that_the_last_one_left_open() -> None:
    image = then(cluster(1), [BeginTransactionRecord(), FeatureLevelRecord(name="group.version", feature_level=1)])
    assert activation_records(image, bootstrap_records(), CONFIG) == [
        AbortTransactionRecord(reason="Controller failover")
    ]
    half = then(EMPTY, [BeginTransactionRecord(), METADATA_VERSION])
    records = activation_records(half, bootstrap_records(), CONFIG)
    assert isinstance(records[0], AbortTransactionRecord)
    assert then(half, records).features.metadata_version == 30


def test_feature_levels_that_we_do_not_have_are_named() -> None:
    assert unsupported_levels(cluster(1).features) == []
    assert unsupported_levels(FeaturesImage({"metadata.version": 25, "group.version": 1})) == [
        "group.version is at level 1, supported is 0",
        "metadata.version is at level 25, supported is 30",
    ]
