"""What a broker's registration says, and what the records that change it leave as it was."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.metadata.brokers import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_TROUBLED,
    DIRECTORY_UNASSIGNED,
    BrokerRegistration,
    BrokersImage,
    is_reserved_directory,
)
from highwater.metadata.changes import Changes
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.draft import Inconsistent
from highwater.metadata.registration import RegisteredListener, VersionRange
from highwater.metadata.replay import apply
from highwater.model import NodeId, Uuid
from highwater.wire.codec import Message
from highwater.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from highwater.wire.messages.fence_broker_record import FenceBrokerRecord
from highwater.wire.messages.no_op_record import NoOpRecord
from highwater.wire.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from highwater.wire.messages.unfence_broker_record import UnfenceBrokerRecord
from highwater.wire.messages.unregister_broker_record import UnregisterBrokerRecord

ONE, TWO = Uuid(b"1" * 16), Uuid(b"2" * 16)


def registered(**fields: Any) -> BrokerRegistration:
    return BrokerRegistration.of_record(RegisterBrokerRecord(broker_id=1, broker_epoch=5, **fields))


def changed(*records: Message) -> tuple[BrokersImage, Changes]:
    """A broker that is fenced and has a directory, and what the records make of it."""
    record = RegisterBrokerRecord(broker_id=1, broker_epoch=5, fenced=True, log_dirs=[ONE], cordoned_log_dirs=[TWO])
    before = apply(MetadataImage("cluster"), [record], 0, 1)[0]
    after, changes = apply(before, records, len(records), 1)
    return after.brokers, changes


def change(**fields: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, **fields)


def numbered(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def test_the_ids_of_directories_that_mean_something_else_are_kafkas() -> None:
    special = (DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, DIRECTORY_LOST, DIRECTORY_TROUBLED)
    assert special == (numbered(0), numbered(1), numbered(2), numbered(99))
    assert all(is_reserved_directory(directory) for directory in special)


def test_ids_below_a_hundred_are_reserved_and_those_that_are_negative_to_java() -> None:
    assert is_reserved_directory(numbered(99))
    assert is_reserved_directory(numbered(1 << 63))
    for free in (100, 1 << 56, 1 << 64, 1 << 127):
        assert not is_reserved_directory(numbered(free))


def test_a_broker_is_active_unless_it_is_fenced_or_shuts_down() -> None:
    assert registered(fenced=False).active
    assert not registered(fenced=True).active
    assert not registered(fenced=False, in_controlled_shutdown=True).active
    image = BrokersImage({NodeId(1): registered(fenced=False), NodeId(2): registered(fenced=True)})
    assert [image.is_active(broker) for broker in (1, 2, 3)] == [True, False, False]


def test_a_new_replica_goes_to_the_only_directory_and_else_where_the_broker_says() -> None:
    assert registered(log_dirs=[]).default_directory == DIRECTORY_MIGRATING
    assert registered(log_dirs=[ONE]).default_directory == ONE
    assert registered(log_dirs=[ONE, TWO]).default_directory == DIRECTORY_UNASSIGNED
    image = BrokersImage({NodeId(1): registered(log_dirs=[ONE])})
    assert (image.default_directory(1), image.default_directory(2)) == (ONE, DIRECTORY_UNASSIGNED)


def test_a_broker_has_room_unless_each_of_its_directories_is_cordoned() -> None:
    assert registered(log_dirs=[ONE], cordoned_log_dirs=None).has_uncordoned_directory
    assert registered(log_dirs=[], cordoned_log_dirs=[ONE]).has_uncordoned_directory
    assert registered(log_dirs=[ONE, TWO], cordoned_log_dirs=[ONE]).has_uncordoned_directory
    assert not registered(log_dirs=[ONE, TWO], cordoned_log_dirs=[ONE, TWO]).has_uncordoned_directory


def test_a_directory_is_online_if_the_broker_names_it_or_none_was_named() -> None:
    broker = registered(log_dirs=[ONE])
    assert broker.has_online(ONE)
    assert not broker.has_online(TWO)
    assert broker.has_online(DIRECTORY_UNASSIGNED)
    assert broker.has_online(DIRECTORY_MIGRATING)
    assert registered(log_dirs=[]).has_online(TWO)
    assert not registered(log_dirs=[]).has_online(DIRECTORY_LOST)


def test_a_listener_is_found_by_its_name() -> None:
    points = [BrokerEndpoint(name=name, host="h", port=port) for name, port in (("A", 1), ("B", 2))]
    broker = registered(end_points=points)
    assert broker.listener("B") == RegisteredListener("B", "h", 2, 0)
    assert broker.listener("C") is None


def test_brokers_are_written_in_the_order_of_their_ids() -> None:
    image = BrokersImage({NodeId(id): registered()._replace(id=NodeId(id)) for id in (3, 1, 2)})
    assert [record.broker_id for record in image.records()] == [1, 2, 3]


def test_a_broker_that_registers_again_is_known_from_there_on() -> None:
    image = apply(MetadataImage("cluster"), [RegisterBrokerRecord(broker_id=id) for id in (1, 2)], 1, 1)[0]
    image = apply(image, [NoOpRecord(), RegisterBrokerRecord(broker_id=1)], 3, 1)[0]
    assert image.brokers.registered_at == {NodeId(1): 3, NodeId(2): 1}


def test_fencing_and_unfencing_change_that_alone() -> None:
    fenced, changes = changed(UnfenceBrokerRecord(id=1, epoch=5), FenceBrokerRecord(id=1, epoch=5))
    assert fenced.by_id[NodeId(1)].fenced
    assert changes.brokers == (1,)
    unfenced, changes = changed(UnfenceBrokerRecord(id=1, epoch=5))
    assert not unfenced.by_id[NodeId(1)].fenced
    assert unfenced.by_id[NodeId(1)].directories == (ONE,)
    assert changes.brokers == (1,)


def test_a_broker_that_is_unregistered_is_gone_and_reported() -> None:
    gone, changes = changed(UnregisterBrokerRecord(broker_id=1, broker_epoch=5))
    assert gone.by_id == {} == gone.registered_at
    assert changes.brokers == (1,)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (change(fenced=-1), {"fenced": False}),
        (change(in_controlled_shutdown=1), {"in_controlled_shutdown": True}),
        (change(log_dirs=[TWO]), {"directories": (TWO,)}),
        (change(cordoned_log_dirs=[]), {"cordoned": ()}),
    ],
)
def test_a_change_of_a_registration_leaves_the_rest(record: Message, expected: dict[str, Any]) -> None:
    before = changed()[0].by_id[NodeId(1)]
    after, changes = changed(record)
    assert after.by_id[NodeId(1)] == before._replace(**expected)
    assert changes.brokers == (1,)


def test_a_change_fences_and_never_takes_a_shutdown_back() -> None:
    image, _ = changed(change(fenced=-1, in_controlled_shutdown=1), change(fenced=1), change(in_controlled_shutdown=0))
    assert image.by_id[NodeId(1)].fenced
    assert image.by_id[NodeId(1)].in_controlled_shutdown


def test_a_change_that_changes_nothing_is_not_reported() -> None:
    before, _ = changed()
    after, changes = changed(change(fenced=1))
    assert after == before
    assert not changes


@pytest.mark.parametrize("record", [change(fenced=2), change(fenced=-2), change(in_controlled_shutdown=2)])
def test_an_unknown_change_is_refused(record: Message) -> None:
    with pytest.raises(Inconsistent, match="unknown change of a registration"):
        changed(record)


def test_a_range_of_versions_holds_both_its_ends() -> None:
    versions = VersionRange(2, 4)
    assert [level for level in range(7) if level in versions] == [2, 3, 4]
    assert "3" not in versions
