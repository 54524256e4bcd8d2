from __future__ import annotations

from typing import Any

import pytest

from highwater.controller.brokers import HeartbeatDecision, heartbeat
from highwater.controller.death import Liveness
from highwater.controller.decision import Decision
from highwater.controller.producer_ids import allocate_producer_ids
from highwater.controller.registration import register_broker, register_controller
from highwater.controller.states import BrokerState
from highwater.errors import Code
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.features import SUPPORTED
from highwater.metadata.registration import RegisteredListener, VersionRange
from highwater.model import NodeId, Uuid
from highwater.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from highwater.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from highwater.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from highwater.wire.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from highwater.wire.messages.broker_registration_response import BrokerRegistrationResponse
from highwater.wire.messages.controller_registration_request import ControllerRegistrationRequest
from highwater.wire.messages.controller_registration_request import Feature as ControllerFeature
from highwater.wire.messages.controller_registration_request import Listener as ControllerListener
from highwater.wire.messages.feature_level_record import FeatureLevelRecord
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from highwater.wire.messages.producer_ids_record import ProducerIdsRecord
from highwater.wire.messages.register_broker_record import RegisterBrokerRecord
from tests.unit.controller.clusters import (
    CLUSTER,
    EMPTY,
    METADATA_VERSION,
    cluster,
    directory,
    epoch,
    fence,
    incarnation,
    node_config,
    partition,
    registered,
    then,
    topic_id,
    with_topic,
)

CONFIG = node_config()
FRESH = then(EMPTY, [METADATA_VERSION])
FEATURES = [
    Feature(name=name, min_supported_version=levels.min, max_supported_version=levels.max)
    for name, levels in SUPPORTED.items()
]


def request(broker: int = 1, life: int = 1, **fields: Any) -> BrokerRegistrationRequest:
    asked = BrokerRegistrationRequest(
        broker_id=broker,
        cluster_id=CLUSTER,
        incarnation_id=incarnation(broker, life),
        listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9092, security_protocol=0)],
        features=FEATURES,
        rack="r1",
        log_dirs=[directory(broker)],
    )
    for name, value in fields.items():
        setattr(asked, name, value)
    return asked


def register(
    head: MetadataImage,
    asked: BrokerRegistrationRequest,
    liveness: Liveness | None = None,
    now: float = 0.0,
    version: int = 4,
) -> Decision[BrokerRegistrationResponse]:
    return register_broker(head, asked, version, CONFIG, liveness or Liveness(9.0), now, head.offset + 1, 1)


def test_a_new_broker_gets_the_next_offset_as_its_epoch_and_starts_fenced() -> None:
    decision = register(FRESH, request())
    assert decision.response == BrokerRegistrationResponse(broker_epoch=1)
    [record] = decision.records
    assert isinstance(record, RegisterBrokerRecord)
    assert (record.broker_epoch, record.fenced, record.in_controlled_shutdown) == (1, True, False)
    broker = then(FRESH, decision.records).brokers.get(1)
    assert broker is not None
    assert broker.listeners == (RegisteredListener("PLAINTEXT", "127.0.0.1", 9092, 0),)
    assert broker.features == SUPPORTED
    assert (broker.rack, broker.directories, broker.incarnation) == ("r1", (directory(1),), incarnation(1))


def test_the_same_incarnation_keeps_its_epoch_and_state() -> None:
    head = cluster(1)
    decision = register(head, request(rack="r2"))
    assert decision.response.broker_epoch == epoch(1)
    [record] = decision.records
    assert isinstance(record, RegisterBrokerRecord)
    assert (record.broker_epoch, record.fenced, record.rack) == (epoch(1), False, "r2")


def test_another_incarnation_is_refused_while_the_first_has_a_session() -> None:
    head, liveness = cluster(1), Liveness(9.0)
    liveness.activate(head.brokers, now=100.0)
    early = register(head, request(life=2), liveness, now=108.0)
    assert early.response.error_code == Code.DUPLICATE_BROKER_REGISTRATION
    assert not early.records
    assert register(head, request(life=2), liveness, now=110.0).response.error_code == 0


def test_a_new_incarnation_leaves_the_isrs_of_the_old_one_first() -> None:
    head = with_topic(cluster(1, 2), "a", [1, 2])
    decision = register(head, request(life=2))
    change, record = decision.records
    assert change == PartitionChangeRecord(topic_id=topic_id("a"), partition_id=0, isr=[2], leader=2)
    assert isinstance(record, RegisterBrokerRecord)
    assert (record.broker_epoch, record.fenced) == (head.offset + 1, True)


@pytest.mark.parametrize(("version", "previous", "eligible"), [(4, 101, (1,)), (4, 100, ()), (4, -1, ()), (2, 101, ())])
def test_with_elr_only_a_clean_stop_keeps_a_broker_eligible(
    version: int, previous: int, eligible: tuple[int, ...]
) -> None:
    levels = [*FEATURES, Feature(name="eligible.leader.replicas.version", max_supported_version=1)]
    head = with_topic(fence(cluster(1, elr=True), 1), "a", [1], isr=[], leader=-1, eligible_leader_replicas=[1])
    asked = request(life=2, previous_broker_epoch=previous, features=levels)
    decision = register(head, asked, version=version)
    assert decision.response.error_code == 0
    assert partition(then(head, decision.records), "a")["elr"] == eligible


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"broker_id": -1}, Code.INVALID_REGISTRATION),
        ({"broker_id": -(2**31)}, Code.INVALID_REGISTRATION),
        ({"cluster_id": "another"}, Code.INCONSISTENT_CLUSTER_ID),
        ({"is_migrating_zk_broker": True}, Code.BROKER_ID_NOT_REGISTERED),
        ({"log_dirs": []}, Code.INVALID_REGISTRATION),
        ({"log_dirs": [Uuid(bytes(15) + b"\x63")]}, Code.INVALID_REGISTRATION),
        ({"log_dirs": [directory(1), directory(1)]}, Code.INVALID_REGISTRATION),
        ({"log_dirs": [directory(2)]}, Code.INVALID_REGISTRATION),
        ({"features": []}, Code.INVALID_REGISTRATION),
        ({"features": [Feature(name="metadata.version", max_supported_version=29)]}, Code.UNSUPPORTED_VERSION),
        ({"features": FEATURES[:1]}, Code.UNSUPPORTED_VERSION),
        ({"listeners": [Listener(name="X", security_protocol=4)]}, Code.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_registration_that_does_not_fit_is_refused(fields: dict[str, Any], code: Code) -> None:
    decision = register(then(FRESH, [registered(2)]), request(**fields))
    assert decision.response == BrokerRegistrationResponse(error_code=code)
    assert not decision.records
    assert decision.refusal is not None


def test_a_broker_must_support_every_finalized_feature() -> None:
    head = then(FRESH, [FeatureLevelRecord(name="group.version", feature_level=1)])
    assert register(head, request()).response.error_code == Code.UNSUPPORTED_VERSION
    able = request(features=[*FEATURES, Feature(name="group.version", max_supported_version=1)])
    assert register(head, able).response.error_code == 0


@pytest.mark.parametrize(("least", "most", "is_refused"), [(0, 0, False), (0, 3, False), (1, 3, True)])
def test_a_feature_that_is_not_finalized_must_be_one_that_the_broker_can_do_without(
    least: int, most: int, is_refused: bool
) -> None:
    another = Feature(name="another.version", min_supported_version=least, max_supported_version=most)
    refusal = register(FRESH, request(features=[*FEATURES, another])).response.error_code
    assert refusal == (Code.UNSUPPORTED_VERSION if is_refused else Code.NONE)


def test_a_controller_registers_with_its_endpoints_and_features() -> None:
    asked = ControllerRegistrationRequest(
        controller_id=1,
        incarnation_id=incarnation(1),
        listeners=[ControllerListener(name="CONTROLLER", host="h", port=9093)],
        features=[ControllerFeature(name="metadata.version", min_supported_version=30, max_supported_version=30)],
    )
    controller = then(FRESH, register_controller(asked).records).controllers.by_id[NodeId(1)]
    assert controller.listeners == (RegisteredListener("CONTROLLER", "h", 9093, 0),)
    assert controller.features == {"metadata.version": VersionRange(30, 30)}


def test_a_controller_below_zero_is_refused() -> None:
    decision = register_controller(ControllerRegistrationRequest(controller_id=-1, incarnation_id=incarnation(1)))
    assert decision.response.error_code == Code.INVALID_REGISTRATION
    assert not decision.records


def beat(
    head: MetadataImage, liveness: Liveness, broker: int = 1, offset: int = 1000, **fields: Any
) -> HeartbeatDecision:
    asked = BrokerHeartbeatRequest(broker_id=broker, broker_epoch=epoch(broker), current_metadata_offset=offset)
    for name, value in fields.items():
        setattr(asked, name, value)
    return heartbeat(head, asked, CONFIG, liveness)


def answer(decision: HeartbeatDecision) -> tuple[bool, bool, bool]:
    response = decision.response
    assert response.error_code == 0
    return response.is_caught_up, response.is_fenced, response.should_shut_down


def test_a_heartbeat_of_another_epoch_or_an_unknown_broker_is_stale() -> None:
    for broker, number in ((1, 5), (9, 0)):
        decision = beat(cluster(1), Liveness(9.0), broker, broker_epoch=number)
        assert decision.response.error_code == Code.STALE_BROKER_EPOCH
        assert decision.state is None
        assert not decision.records


def test_a_broker_is_unfenced_once_it_has_applied_its_own_registration_and_wants_to_be() -> None:
    head, liveness = fence(cluster(1), 1), Liveness(9.0)
    at = head.brokers.registered_at[NodeId(1)]
    assert answer(beat(head, liveness, offset=at - 1)) == (False, True, False)
    assert answer(beat(head, liveness, offset=at, want_fence=True)) == (True, True, False)
    decision = beat(head, liveness, offset=at)
    assert answer(decision) == (True, False, False)
    assert decision.records == [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch(1), fenced=-1)]
    after = then(head, decision.records)
    assert not beat(after, liveness, offset=at).records


def test_a_broker_that_comes_back_leads_what_had_no_leader() -> None:
    head = with_topic(fence(cluster(1), 1), "a", [1], leader=-1)
    after = then(head, beat(head, Liveness(9.0)).records)
    assert partition(after, "a")["leader"] == 1


def test_a_broker_that_wants_to_be_fenced_is() -> None:
    decision = beat(cluster(1), Liveness(9.0), want_fence=True)
    assert answer(decision) == (True, True, False)
    assert decision.records == [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch(1), fenced=1)]


def test_a_broker_that_leads_nothing_may_stop_at_once() -> None:
    head, liveness = with_topic(cluster(1, 2), "a", [2, 1]), Liveness(9.0)
    decision = beat(head, liveness, want_shut_down=True)
    assert answer(decision) == (True, True, True)
    assert decision.state is BrokerState.SHUTDOWN
    after = then(head, decision.records)
    assert partition(after, "a")["isr"] == (2,)
    assert answer(beat(after, liveness, want_shut_down=True)) == (True, True, True)


def test_a_leader_stops_once_its_leaderships_have_moved_and_the_others_know() -> None:
    head, liveness = with_topic(cluster(1, 2), "a", [1, 2]), Liveness(9.0)
    liveness.activate(head.brokers, now=0.0)
    liveness.heard(NodeId(2), epoch(2), 0.0, head.offset)

    decision = beat(head, liveness, want_shut_down=True)
    assert answer(decision) == (True, False, False)
    assert decision.state is BrokerState.CONTROLLED_SHUTDOWN
    head = then(head, decision.records)
    liveness.heard(NodeId(1), epoch(1), 1.0, 1000)
    liveness.entered(NodeId(1), epoch(1), decision.state, head.offset)
    assert partition(head, "a")["leader"] == 2

    waiting = beat(head, liveness, want_shut_down=True)
    assert answer(waiting) == (True, False, False)
    assert not waiting.records
    assert waiting.state is not None
    liveness.heard(NodeId(1), epoch(1), 2.0, 1000)
    liveness.entered(NodeId(1), epoch(1), waiting.state, head.offset + 50)

    liveness.heard(NodeId(2), epoch(2), 2.0, head.offset)
    granted = beat(head, liveness, want_shut_down=True)
    assert answer(granted) == (True, True, True)
    assert granted.records == [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch(1), fenced=1)]


def test_the_only_broker_gives_up_its_leaderships_before_it_stops() -> None:
    head, liveness = with_topic(cluster(1), "a", [1]), Liveness(9.0)
    decision = beat(head, liveness, want_shut_down=True)
    assert decision.state is BrokerState.CONTROLLED_SHUTDOWN
    head = then(head, decision.records)
    after = partition(head, "a")
    assert (after["leader"], after["isr"]) == (-1, (1,))
    liveness.heard(NodeId(1), epoch(1), 1.0, 1000)
    liveness.entered(NodeId(1), epoch(1), decision.state, head.offset)
    assert answer(beat(head, liveness, want_shut_down=True)) == (True, True, True)


def test_partitions_of_a_failed_directory_move_away() -> None:
    two = registered(1)
    two.log_dirs = [directory(1), directory(1, 1)]
    head = with_topic(then(cluster(2), [two]), "a", [1, 2])
    decision = beat(head, Liveness(9.0), offline_log_dirs=[directory(1)])
    assert decision.why == "directories of broker 1 are offline"
    assert decision.records == [
        PartitionChangeRecord(topic_id=topic_id("a"), partition_id=0, isr=[2], leader=2),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch(1), log_dirs=[directory(1, 1)]),
    ]
    after = then(head, decision.records)
    assert not beat(after, Liveness(9.0), offline_log_dirs=[directory(1)]).records


def test_cordoned_directories_are_written_when_they_change() -> None:
    head = cluster(1)
    decision = beat(head, Liveness(9.0), cordoned_log_dirs=[])
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch(1), cordoned_log_dirs=[])
    assert decision.records == [change]
    assert not beat(then(head, decision.records), Liveness(9.0), cordoned_log_dirs=[]).records


def test_a_session_ends_without_heartbeats() -> None:
    liveness = Liveness(9.0)
    head = fence(cluster(1, 2, 3), 3)
    liveness.activate(head.brokers, now=100.0)
    assert not liveness.has_session(NodeId(3), epoch(3), 100.0)
    liveness.heard(NodeId(2), epoch(2), 105.0, 10)
    assert liveness.expired(109.0) == []
    assert liveness.expired(109.1) == [(1, epoch(1))]
    assert liveness.expired(115.0) == [(1, epoch(1)), (2, epoch(2))]
    liveness.forget(NodeId(1), epoch(1) - 1)
    assert len(liveness.expired(115.0)) == 2
    liveness.forget(NodeId(1), epoch(1))
    assert liveness.expired(115.0) == [(2, epoch(2))]
    liveness.extend(115.0)
    assert liveness.expired(120.0) == []


def test_a_session_belongs_to_one_epoch() -> None:
    liveness = Liveness(9.0)
    liveness.heard(NodeId(1), 5, 100.0, 10)
    assert liveness.has_session(NodeId(1), 5, 101.0)
    assert not liveness.has_session(NodeId(1), 4, 101.0)
    liveness.heard(NodeId(1), 4, 105.0, 10)
    assert liveness.expired(109.5) == [(1, 5)]
    liveness.heard(NodeId(1), 7, 106.0, 10)
    assert liveness.has_session(NodeId(1), 7, 110.0)


def test_a_broker_after_its_shutdown_has_no_session_and_may_start_again_at_once() -> None:
    liveness = Liveness(9.0)
    liveness.heard(NodeId(1), 5, 100.0, 10)
    liveness.entered(NodeId(1), 4, BrokerState.SHUTDOWN, 10)
    assert liveness.has_session(NodeId(1), 5, 101.0)
    liveness.entered(NodeId(1), 5, BrokerState.SHUTDOWN, 10)
    assert not liveness.has_session(NodeId(1), 5, 101.0)
    assert liveness.expired(1000.0) == []


def test_only_active_brokers_hold_up_a_controlled_shutdown() -> None:
    liveness, head = Liveness(9.0), cluster(1, 2, 3)
    assert liveness.lowest_active_offset(head.brokers) is None
    for broker, offset in ((1, 30), (2, 20), (3, 10)):
        liveness.heard(NodeId(broker), epoch(broker), 0.0, offset)
    assert liveness.lowest_active_offset(head.brokers) == 10
    assert liveness.lowest_active_offset(fence(head, 3).brokers) == 20


def test_producer_ids_come_in_blocks_that_never_repeat() -> None:
    head = cluster(1)
    asked = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch(1))
    first = allocate_producer_ids(head, asked)
    assert (first.response.producer_id_start, first.response.producer_id_len) == (0, 1000)
    assert first.records == [ProducerIdsRecord(broker_id=1, broker_epoch=epoch(1), next_producer_id=1000)]
    second = allocate_producer_ids(then(head, first.records), asked)
    assert (second.response.producer_id_start, second.response.producer_id_len) == (1000, 1000)


def test_producer_ids_are_for_the_current_epoch_of_a_broker_and_end_with_the_type() -> None:
    stale = allocate_producer_ids(cluster(1), AllocateProducerIdsRequest(broker_id=1, broker_epoch=1))
    assert stale.response.error_code == Code.STALE_BROKER_EPOCH
    used = then(cluster(1), [ProducerIdsRecord(next_producer_id=2**63 - 999)])
    spent = allocate_producer_ids(used, AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch(1)))
    assert spent.response.error_code == Code.UNKNOWN_SERVER_ERROR
    assert not stale.records
    assert not spent.records


def test_the_reason_of_a_fencing_is_logged() -> None:
    liveness = Liveness(9.0)
    assert beat(cluster(1), liveness, want_fence=True).why == "it asked for it"
    assert beat(cluster(1, 2), liveness, want_shut_down=True).why == "it shuts down"
    assert beat(fence(cluster(1), 1), liveness).why == "it has caught up with the metadata"
    assert beat(cluster(1), liveness).why == ""


def test_a_broker_that_was_fenced_shuts_down_anew() -> None:
    """What the others know of its last shutdown says nothing of the next one."""
    liveness, one = Liveness(9.0), NodeId(1)
    for state, offset, expected in (
        (BrokerState.CONTROLLED_SHUTDOWN, 10, 10),
        (BrokerState.CONTROLLED_SHUTDOWN, 20, 10),
        (BrokerState.FENCED, 30, None),
        (BrokerState.CONTROLLED_SHUTDOWN, 40, 40),
    ):
        liveness.heard(one, 5, 100.0, offset)
        liveness.entered(one, 5, state, offset)
        assert liveness._sessions[one].shutdown_offset == expected
