"""Levels of features, controllers, kinds of settings and blocks of producer ids, as records say them."""

from __future__ import annotations

import pytest

from highwater.metadata.changes import NOTHING, Changes
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.configs import ConfigResource, ResourceType
from highwater.metadata.features import SUPPORTED, FeaturesImage, unsupported_levels
from highwater.metadata.replay import apply
from highwater.metadata.snapshot import BATCH_RECORDS
from highwater.model import NodeId, Uuid
from highwater.wire.codec import Message
from highwater.wire.messages.begin_transaction_record import BeginTransactionRecord
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.feature_level_record import FeatureLevelRecord
from highwater.wire.messages.producer_ids_record import ProducerIdsRecord
from highwater.wire.messages.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)

ELR = "eligible.leader.replicas.version"


def applied(*records: Message, image: MetadataImage | None = None) -> tuple[MetadataImage, Changes]:
    image = image or MetadataImage("cluster")
    return apply(image, records, image.offset + len(records), 1)


def test_the_supported_features_are_those_that_kafka_4_3_starts_with() -> None:
    assert SUPPORTED == {"metadata.version": (30, 30), "kraft.version": (1, 1), ELR: (0, 1)}


def test_a_cluster_of_levels_that_are_not_supported_is_refused_by_name() -> None:
    assert unsupported_levels(FeaturesImage({"metadata.version": 30, ELR: 1})) == []
    assert unsupported_levels(FeaturesImage({"other": 1, "metadata.version": 29, ELR: 2})) == [
        f"{ELR} is at level 2, supported is 0-1",
        "metadata.version is at level 29, supported is 30",
        "other is at level 1, supported is 0",
    ]


def test_eligible_leader_replicas_are_kept_from_level_one_on() -> None:
    assert not FeaturesImage().elr_enabled
    assert FeaturesImage({ELR: 1}).elr_enabled


def test_a_level_of_zero_takes_the_feature_away() -> None:
    image, changes = applied(FeatureLevelRecord(name="a", feature_level=1))
    assert image.features.levels == {"a": 1}
    assert changes == Changes(features=("a",))
    image, changes = applied(FeatureLevelRecord(name="a", feature_level=0), image=image)
    assert image.features.levels == {}
    assert changes == Changes(features=("a",))


def test_the_version_of_the_quorum_is_no_level_of_the_metadata() -> None:
    image, changes = applied(FeatureLevelRecord(name="kraft.version", feature_level=1))
    assert image.features.levels == {}
    assert changes == NOTHING


def test_the_metadata_version_is_written_before_all_other_levels() -> None:
    names = [record.name for record in FeaturesImage({"b": 1, "metadata.version": 30, "a": 1}).records()]
    assert names == ["metadata.version", "a", "b"]
    assert FeaturesImage({"metadata.version": 30}).metadata_version == 30


def test_the_kinds_of_settings_have_kafkas_numbers() -> None:
    assert {kind.name: kind.value for kind in ResourceType} == {
        "TOPIC": 2,
        "BROKER": 4,
        "BROKER_LOGGER": 8,
        "CLIENT_METRICS": 16,
        "GROUP": 32,
    }


def setting(name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name="1", name=name, value=value)


def test_a_setting_changes_and_leaves_the_others_of_its_resource() -> None:
    image, _ = applied(setting("b", "1"), setting("a", "1"))
    image, changes = applied(setting("a", "2"), image=image)
    resource = ConfigResource(4, "1")
    assert image.configs.of(resource) == {"a": "2", "b": "1"}
    assert changes == Changes(configs=(resource,))
    assert list(image.configs.records()) == [setting("a", "2"), setting("b", "1")]


def test_to_take_a_setting_away_that_is_not_there_copies_nothing() -> None:
    before, _ = applied(ConfigRecord(resource_type=2, resource_name="t", name="a", value="1"))
    after, _ = applied(setting("a", None), image=before)
    assert after.configs is before.configs


@pytest.mark.parametrize("next_id", [0, 1000])
def test_the_next_producer_id_is_written_once_there_is_one(next_id: int) -> None:
    fresh, _ = applied()
    assert list(fresh.producer_ids.records()) == []
    image, changes = applied(ProducerIdsRecord(broker_id=3, broker_epoch=4, next_producer_id=next_id), image=fresh)
    written = ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=next_id)
    assert list(image.producer_ids.records()) == [written]
    assert changes == Changes(producer_ids=True)


def test_a_snapshot_has_batches_of_1024_records() -> None:
    assert BATCH_RECORDS == 1024


def test_a_transaction_at_the_beginning_of_a_batch_leaves_what_is_visible_as_it_was() -> None:
    image, _ = applied(FeatureLevelRecord(name="a", feature_level=1))
    begun, changes = apply(image, [BeginTransactionRecord(), setting("a", "1")], 2, 9)
    assert (begun.offset, begun.epoch) == (0, 1)
    assert begun.features is image.features
    assert changes == NOTHING


def controller(number: int, host: str = "h") -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=number,
        incarnation_id=Uuid(b"i" * 16),
        zk_migration_ready=True,
        end_points=[ControllerEndpoint(name="CONTROLLER", host=host, port=9093, security_protocol=1)],
        features=[ControllerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
    )


def test_controllers_are_written_back_as_they_registered_in_the_order_of_their_ids() -> None:
    image, changes = applied(controller(2), controller(1))
    assert list(image.controllers.records()) == [controller(1), controller(2)]
    assert changes == Changes(controllers=(NodeId(2), NodeId(1)))
    moved, changes = applied(controller(2, "elsewhere"), image=image)
    assert list(moved.controllers.records()) == [controller(1), controller(2, "elsewhere")]
    assert changes == Changes(controllers=(NodeId(2),))
    same, _ = applied(setting("a", "1"), image=moved)
    assert same.controllers is moved.controllers
