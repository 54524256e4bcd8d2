"""What records make of a partition and of its topic."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.metadata import records as framed
from highwater.metadata.brokers import DIRECTORY_MIGRATING
from highwater.metadata.changes import NOTHING, Changes
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.draft import Inconsistent
from highwater.metadata.partitions import PartitionImage, Recovery
from highwater.metadata.pieces import PIECE
from highwater.metadata.replay import apply, applying
from highwater.model import NodeId, Uuid
from highwater.wire.codec import FlexibleWriter, Message
from highwater.wire.messages.clear_elr_record import ClearElrRecord
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.remove_topic_record import RemoveTopicRecord
from highwater.wire.messages.topic_record import TopicRecord

A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)
ONE, TWO = Uuid(b"1" * 16), Uuid(b"2" * 16)


def record(topic: Uuid = A, index: int = 0, **fields: Any) -> PartitionRecord:
    whole = {"replicas": [1, 2], "isr": [1], "leader": 1, "leader_epoch": 4, "partition_epoch": 7} | fields
    return PartitionRecord(topic_id=topic, partition_id=index, **whole)  # type: ignore[arg-type]


BUSY = record(
    directories=[ONE, TWO],
    leader_recovery_state=1,
    eligible_leader_replicas=[2],
    last_known_elr=[1],
    removing_replicas=[2],
    adding_replicas=[1],
)


def image_of(*records: Message) -> MetadataImage:
    return apply(MetadataImage("cluster"), records, len(records) - 1, 1)[0]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"isr": [1, 2]}, {"isr": (1, 2)}),
        ({"leader": 2}, {"leader": 2, "leader_epoch": 5}),
        ({"leader_recovery_state": 0}, {"recovery": Recovery.RECOVERED}),
        ({"directories": [TWO, ONE]}, {"directories": (TWO, ONE)}),
        ({"replicas": [2, 1]}, {"replicas": (2, 1)}),
        ({"eligible_leader_replicas": []}, {"elr": ()}),
        ({"eligible_leader_replicas": [1]}, {"elr": (1,)}),
        ({"last_known_elr": [2]}, {"last_known_elr": (2,)}),
        ({"removing_replicas": [1]}, {"removing": (1,)}),
        ({"adding_replicas": [2]}, {"adding": (2,)}),
    ],
)
def test_a_change_leaves_what_it_does_not_name(changed: dict[str, Any], expected: dict[str, Any]) -> None:
    before = PartitionImage.of_record(BUSY)
    after = before.changed_by(PartitionChangeRecord(topic_id=A, partition_id=0, **changed))
    assert after == before._replace(partition_epoch=8, **expected)


def test_a_partition_is_written_back_as_it_was_read() -> None:
    assert PartitionImage.of_record(BUSY).to_record(A, 0) == BUSY
    plain = PartitionImage.of_record(record(directories=[ONE, TWO])).to_record(A, 0)
    assert (plain.eligible_leader_replicas, plain.last_known_elr) == (None, None)


def test_a_replica_lies_in_the_directory_at_its_place() -> None:
    partition = PartitionImage.of_record(record(replicas=[2, 1], directories=[ONE, TWO]))
    assert (partition.directory(NodeId(1)), partition.directory(NodeId(2))) == (TWO, ONE)


def test_a_partition_without_named_directories_has_one_for_each_replica() -> None:
    for unnamed in ([], [DIRECTORY_MIGRATING]):
        assert PartitionImage.of_record(record(directories=unnamed)).directories == (DIRECTORY_MIGRATING,) * 2
    named = PartitionImage.of_record(record(directories=[DIRECTORY_MIGRATING, ONE]))
    assert named.directories == (DIRECTORY_MIGRATING, ONE)


def test_the_first_replica_is_the_preferred_leader() -> None:
    partition = PartitionImage.of_record(record())
    assert partition.has_preferred_leader
    assert partition.has_leader
    assert not partition._replace(leader=NodeId(2)).has_preferred_leader
    assert not partition._replace(leader=NodeId(-1)).has_leader


def test_a_partition_is_found_by_the_name_of_its_topic() -> None:
    topics = image_of(TopicRecord(name="a", topic_id=A), record()).topics
    assert topics.partition("a", 0) is topics.by_id[A].partitions[0]
    assert topics.partition("a", 1) is None
    assert topics.partition("b", 0) is None


def test_topics_and_partitions_are_written_in_the_order_of_their_ids() -> None:
    named = [TopicRecord(name="x", topic_id=A), TopicRecord(name="w", topic_id=B)]
    parts = [record(A, 0, directories=[ONE, TWO]), record(A, 1, directories=[ONE, TWO])]
    image = image_of(named[1], named[0], parts[1], parts[0])
    assert list(image.topics.records()) == [named[0], *parts, named[1]]


def test_a_topic_that_comes_and_goes_in_one_batch_leaves_no_trace() -> None:
    before = image_of(TopicRecord(name="b", topic_id=B), record(B))
    records = [TopicRecord(name="a", topic_id=A), record(A), RemoveTopicRecord(topic_id=A)]
    after, changes = apply(before, records, 4, 1)
    assert after.topics == before.topics
    assert changes == NOTHING


def test_no_partition_of_a_deleted_topic_is_reported() -> None:
    before = image_of(TopicRecord(name="b", topic_id=B), record(B))
    records = [PartitionChangeRecord(topic_id=B, partition_id=0, isr=[2]), RemoveTopicRecord(topic_id=B)]
    assert apply(before, records, 3, 1)[1] == Changes(deleted=(before.topics.by_id[B],))


ELIGIBLE = image_of(
    TopicRecord(name="a", topic_id=A),
    record(A, 0, eligible_leader_replicas=[2]),
    record(A, 1, last_known_elr=[2]),
    record(A, 2),
    TopicRecord(name="b", topic_id=B),
    record(B, 0, eligible_leader_replicas=[2], last_known_elr=[1]),
)


def cleared(name: str) -> tuple[list[tuple[int, int, int]], Changes]:
    """The partitions that have none left, with their epochs, and the changes that are reported."""
    image, changes = apply(ELIGIBLE, [ClearElrRecord(topic_name=name)], 6, 1)
    partitions = [partition for _, _, partition in image.topics.each_partition()]
    return [(len(p.elr), len(p.last_known_elr), p.partition_epoch) for p in partitions], changes


def test_the_eligible_replicas_of_one_topic_are_cleared_where_there_are_any() -> None:
    left, changes = cleared("a")
    assert left == [(0, 0, 8), (0, 0, 8), (0, 0, 7), (1, 1, 7)]
    assert changes == Changes(partitions={A: (0, 1)})


def test_without_a_name_the_eligible_replicas_of_every_topic_are_cleared() -> None:
    left, changes = cleared("")
    assert left == [(0, 0, 8), (0, 0, 8), (0, 0, 7), (0, 0, 8)]
    assert changes == Changes(partitions={A: (0, 1), B: (0,)})


def test_the_eligible_replicas_of_a_topic_that_is_not_there_cannot_be_cleared() -> None:
    with pytest.raises(Inconsistent, match="clears the ELR of topic c"):
        cleared("c")


def test_a_record_of_an_older_version_is_read() -> None:
    writer = FlexibleWriter()
    for number in (framed.FRAME_VERSION, PartitionRecord.API_KEY, 0):
        writer.uvarint(number)
    record().write(writer, 0)
    assert framed.decode(bytes(writer.buffer)) == record()


def of_partitions(count: int) -> list[Message]:
    return [TopicRecord(name="a", topic_id=A), *(record(A, index) for index in range(count))]


@pytest.mark.parametrize(
    ("count", "pieces"), [(0, 0), (PIECE - 2, 0), (PIECE - 1, 1), (2 * PIECE - 2, 1), (2 * PIECE - 1, 2)]
)
def test_records_are_applied_by_pieces(count: int, pieces: int) -> None:
    applied = applying(MetadataImage("cluster"), of_partitions(count), count, 1)
    assert sum(1 for _ in applied) == pieces


@pytest.mark.parametrize("last", [RemoveTopicRecord(topic_id=A), ClearElrRecord(), ClearElrRecord(topic_name="a")])
@pytest.mark.parametrize(
    ("count", "pieces"), [(PIECE - 2, 0), (PIECE - 1, 1), (PIECE, 1), (2 * PIECE - 2, 1), (2 * PIECE - 1, 2)]
)
def test_one_record_that_changes_many_partitions_is_applied_by_pieces(last: Message, count: int, pieces: int) -> None:
    """Each partition counts as a record does, and so does the record itself."""
    image = image_of(*of_partitions(count))
    applied = applying(image, [last], image.offset + 1, 1)
    assert sum(1 for _ in applied) == pieces
