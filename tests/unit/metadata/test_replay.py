from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.metadata import records, replay
from highwater.metadata.changes import NOTHING, Changes
from highwater.metadata.cluster import MetadataImage, difference
from highwater.metadata.configs import CLUSTER_DEFAULT, ConfigResource, topic_resource
from highwater.metadata.draft import Inconsistent
from highwater.metadata.replay import apply, applying
from highwater.metadata.snapshot import BATCH_RECORDS, snapshot_records
from highwater.model import NodeId, Uuid
from highwater.wire.codec import Message
from highwater.wire.messages.abort_transaction_record import AbortTransactionRecord
from highwater.wire.messages.begin_transaction_record import BeginTransactionRecord
from highwater.wire.messages.clear_elr_record import ClearElrRecord
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.end_transaction_record import EndTransactionRecord
from highwater.wire.messages.fence_broker_record import FenceBrokerRecord
from highwater.wire.messages.no_op_record import NoOpRecord
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.producer_ids_record import ProducerIdsRecord
from highwater.wire.messages.register_broker_record import RegisterBrokerRecord
from highwater.wire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from highwater.wire.messages.remove_topic_record import RemoveTopicRecord
from highwater.wire.messages.topic_record import TopicRecord
from tests.unit.metadata.histories import History

EMPTY = MetadataImage("cluster")
A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)
DIRECTORY = Uuid(b"d" * 16)

histories = st.tuples(st.integers(0, 2**32), st.integers(1, 120)).map(lambda x: History(x[0]).records(x[1]))


def load(made: Sequence[Message], image: MetadataImage = EMPTY) -> MetadataImage:
    return apply(image, made, image.offset + len(made), 1)[0]


def topic(topic_id: Uuid, name: str, partitions: int = 2) -> list[Message]:
    made: list[Message] = [TopicRecord(name=name, topic_id=topic_id)]
    for index in range(partitions):
        made.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=[1, 2],
                isr=[1, 2],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[DIRECTORY, DIRECTORY],
            )
        )
    return made


@settings(max_examples=200, deadline=None)
@given(histories)
def test_the_snapshot_of_any_image_recreates_it(made: list[Message]) -> None:
    image = load(made)
    written = [records.decode(records.encode(record)) for batch in snapshot_records(image) for record in batch]
    rebuilt = apply(MetadataImage(image.cluster_id), written, image.offset, image.epoch)[0]
    assert rebuilt == image
    assert [*snapshot_records(rebuilt)] == [*snapshot_records(image)]


@settings(max_examples=100, deadline=None)
@given(histories, st.integers(1, 10))
def test_the_image_does_not_depend_on_how_records_are_cut_into_batches(made: list[Message], size: int) -> None:
    image, changes = EMPTY, NOTHING
    for start in range(0, len(made), size):
        before = image
        batch = made[start : start + size]
        image, changed = apply(image, batch, image.offset + len(batch), 1)
        assert covers(changed, difference(before, image))
        changes = changes.then(changed)
    whole, at_once = apply(EMPTY, made, len(made) - 1, 1)
    assert image == whole
    assert covers(changes, difference(EMPTY, whole))
    assert set(changes.created) == set(at_once.created) == set(whole.topics.by_id)


def covers(reported: Changes, real: Changes) -> bool:
    """Every difference was reported; created and deleted topics exactly."""
    return (
        set(reported.created) == set(real.created)
        and {t.id for t in reported.deleted} == {t.id for t in real.deleted}
        and all(set(reported.partitions.get(t, ())) >= set(indexes) for t, indexes in real.partitions.items())
        and set(reported.partitions) >= set(real.partitions)
        and set(reported.brokers) >= set(real.brokers)
        and set(reported.controllers) >= set(real.controllers)
        and set(reported.configs) >= set(real.configs)
        and set(reported.features) >= set(real.features)
        and reported.producer_ids >= real.producer_ids
        and reported.quotas >= real.quotas
        and reported.acls >= real.acls
        and reported.credentials >= real.credentials
    )


def test_parts_of_an_image_that_a_batch_does_not_change_stay_the_same_object() -> None:
    config = ConfigRecord(resource_type=2, resource_name="b", name="retention.ms", value="1")
    before = load([RegisterBrokerRecord(broker_id=1), *topic(A, "a"), *topic(B, "b"), config])
    after = load([PartitionChangeRecord(topic_id=A, partition_id=0, isr=[1])], before)
    assert after.brokers is before.brokers
    assert after.configs is before.configs
    assert after.features is before.features
    assert after.topics.by_id[B] is before.topics.by_id[B]
    assert after.topics.by_name["b"] is before.topics.by_name["b"]
    assert after.topics.by_id[A].partitions[1] is before.topics.by_id[A].partitions[1]
    assert after.topics.by_name["a"] is after.topics.by_id[A]
    assert before.topics.by_id[A].partitions[0].isr == (1, 2)


def test_a_record_that_changes_nothing_copies_nothing() -> None:
    before = load(topic(A, "a"))
    after, changes = apply(before, [NoOpRecord()], before.offset + 1, 2)
    assert after == replace(before, offset=before.offset + 1, epoch=2)
    assert after.topics is before.topics
    assert not changes


def test_a_partition_change_raises_the_partition_epoch_and_the_leader_epoch_only_where_it_names_a_leader() -> None:
    image = load(topic(A, "a"))
    image = load([PartitionChangeRecord(topic_id=A, partition_id=0, isr=[1])], image)
    assert image.topics.partition("a", 0)[:6] == ((1, 2), (DIRECTORY, DIRECTORY), (1,), 1, 0, 1)
    image = load([PartitionChangeRecord(topic_id=A, partition_id=0, leader=1)], image)
    assert image.topics.partition("a", 0)[3:6] == (1, 1, 2)
    image = load([PartitionChangeRecord(topic_id=A, partition_id=0, leader=-1)], image)
    partition = image.topics.partition("a", 0)
    assert partition is not None
    assert partition[3:6] == (-1, 2, 3)
    assert not partition.has_leader


def test_a_removed_topic_takes_its_settings_with_it_and_frees_its_name() -> None:
    setting = ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="1")
    before = load([*topic(A, "a"), setting])
    after, changes = apply(before, [RemoveTopicRecord(topic_id=A), *topic(B, "a", 1)], before.offset + 3, 1)
    assert after.configs.of(topic_resource("a")) == {}
    assert after.topics.by_name["a"].id == B
    assert changes.deleted == (before.topics.by_id[A],)
    assert changes.created == (B,)
    assert changes.partitions == {B: (0,)}
    assert changes.configs == (topic_resource("a"),)


@pytest.mark.parametrize("partitions", [1_000, 60])
def test_topics_of_many_partitions_are_removed_by_pieces(partitions: int) -> None:
    """Whether one has many, or many have some."""
    ids = [Uuid(bytes([number]) * 16) for number in range(1, 1 + 1_200 // partitions)]
    image = load([record for number, each in enumerate(ids) for record in topic(each, f"t{number}", partitions)])
    removed = [RemoveTopicRecord(topic_id=each) for each in ids]
    pieces = applying(image, removed, image.offset + len(removed), 1)
    total = partitions * len(ids)
    assert sum(1 for _ in pieces) >= total // 200
    after, changes = apply(image, removed, image.offset + len(removed), 1)
    assert (dict(after.topics.by_id), dict(after.topics.hosting.by_broker)) == ({}, {})
    assert sum(len(each.partitions) for each in changes.deleted) == total


@pytest.mark.parametrize("name", ["", "t"])
def test_partitions_whose_eligible_leaders_are_forgotten_are_looked_at_by_pieces(name: str) -> None:
    image = load(topic(A, "t", 1_000))
    assert sum(1 for _ in applying(image, [ClearElrRecord(topic_name=name)], image.offset + 1, 1)) == 10


def test_settings_written_after_a_topic_is_created_again_in_one_batch_are_the_only_ones() -> None:
    old = ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="1")
    new = ConfigRecord(resource_type=2, resource_name="a", name="segment.ms", value="2")
    image = load([*topic(A, "a"), old, RemoveTopicRecord(topic_id=A), *topic(B, "a"), new])
    assert image.configs.of(topic_resource("a")) == {"segment.ms": "2"}


def test_taking_the_last_setting_away_leaves_no_resource() -> None:
    name = "log.retention.ms"
    image = load([ConfigRecord(resource_type=4, resource_name="", name=name, value="1")])
    assert image.configs.of(CLUSTER_DEFAULT) == {name: "1"}
    image = load([ConfigRecord(resource_type=4, resource_name="", name=name, value=None)], image)
    assert image.configs.by_resource == {}
    assert image.configs.of(ConfigResource(4, "1")) == {}


def test_a_broker_is_known_to_have_registered_no_later_than_its_batch() -> None:
    image = load([NoOpRecord(), RegisterBrokerRecord(broker_id=1), NoOpRecord()])
    assert image.brokers.registered_at == {NodeId(1): 2}
    later = load([RegisterBrokerRecord(broker_id=2)], image)
    assert later.brokers.registered_at == {NodeId(1): 2, NodeId(2): 3}


@pytest.mark.parametrize(
    "record",
    [
        TopicRecord(name="a", topic_id=B),
        TopicRecord(name="b", topic_id=A),
        RemoveTopicRecord(topic_id=B),
        PartitionRecord(topic_id=B, partition_id=0),
        PartitionRecord(topic_id=A, partition_id=0, replicas=[1, 2], directories=[DIRECTORY]),
        PartitionRecord(topic_id=A, partition_id=0, leader_recovery_state=7),
        PartitionChangeRecord(topic_id=A, partition_id=9),
        FenceBrokerRecord(id=1, epoch=7),
        FenceBrokerRecord(id=2, epoch=0),
        ProducerIdsRecord(next_producer_id=1000),
        RemoveAccessControlEntryRecord(id=A),
        EndTransactionRecord(),
        AbortTransactionRecord(),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_that_contradicts_the_image_is_refused(record: Message) -> None:
    image = load([*topic(A, "a"), RegisterBrokerRecord(broker_id=1), ProducerIdsRecord(next_producer_id=1000)])
    with pytest.raises(Inconsistent):
        load([record], image)


def test_the_records_of_a_metadata_transaction_are_seen_at_its_end_only() -> None:
    image, changes = apply(EMPTY, [*topic(B, "b", 1), BeginTransactionRecord(name="t"), *topic(A, "a", 1)], 4, 1)
    assert list(image.topics.by_name) == ["b"]
    assert changes.created == (B,)
    assert image.offset == 1
    assert image.transaction is not None
    assert (image.transaction.name, image.transaction.begun_at) == ("t", 2)
    image, changes = apply(image, [PartitionChangeRecord(topic_id=A, partition_id=0, isr=[1])], 5, 1)
    assert list(image.topics.by_name) == ["b"]
    assert not changes
    image, changes = apply(image, [EndTransactionRecord(), NoOpRecord()], 7, 1)
    assert sorted(image.topics.by_name) == ["a", "b"]
    assert (image.offset, image.transaction) == (7, None)
    assert changes.created == (A,)
    assert changes.partitions == {A: (0,)}


def test_the_records_of_an_aborted_metadata_transaction_are_never_seen() -> None:
    image = load([*topic(B, "b"), BeginTransactionRecord(), *topic(A, "a")])
    image, changes = apply(image, [AbortTransactionRecord(reason="failover"), *topic(A, "c", 1)], 9, 1)
    assert sorted(image.topics.by_name) == ["b", "c"]
    assert image.transaction is None
    assert changes.created == (A,)


def test_a_metadata_transaction_does_not_begin_within_another() -> None:
    with pytest.raises(Inconsistent):
        load([BeginTransactionRecord(), BeginTransactionRecord()])


def test_every_known_record_type_is_applied_or_deliberately_ignored() -> None:
    transactions = {BeginTransactionRecord.API_KEY, EndTransactionRecord.API_KEY, AbortTransactionRecord.API_KEY}
    assert set(replay._HANDLERS) | transactions == set(records.TYPES)


def test_a_snapshot_comes_in_batches_of_kafkas_size_and_begins_with_the_metadata_version() -> None:
    made = History(1).records(5)
    image = load([*made, *(record for n in range(600) for record in topic(Uuid(n.to_bytes(16)), f"n{n}", 1))])
    batches = list(snapshot_records(image))
    assert [len(batch) for batch in batches[:-1]] == [BATCH_RECORDS] * (len(batches) - 1)
    assert len(batches) > 1
    assert batches[0][0] == made[0]
