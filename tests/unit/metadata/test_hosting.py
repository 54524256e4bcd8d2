"""What each broker hosts, and what is not led as it should be, is known without looking at every partition."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.metadata.cluster import MetadataImage
from highwater.metadata.replay import apply
from highwater.metadata.topics import TopicsImage
from highwater.model import NodeId, Uuid
from highwater.wire.codec import Message
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.remove_topic_record import RemoveTopicRecord
from highwater.wire.messages.topic_record import TopicRecord
from tests.unit.metadata.histories import History

A = Uuid(b"a" * 16)


def load(image: MetadataImage, *made: Message) -> MetadataImage:
    return apply(image, made, image.offset + len(made), 1)[0]


def created(*replicas: int, index: int = 0) -> PartitionRecord:
    return PartitionRecord(
        topic_id=A,
        partition_id=index,
        replicas=list(replicas),
        isr=list(replicas),
        leader=replicas[0],
        directories=[Uuid(b"d" * 16)] * len(replicas),
    )


def hosted(topics: TopicsImage) -> dict[int, set[tuple[bytes, int]]]:
    return {broker: set(keys) for broker, keys in topics.hosting.by_broker.items()}


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 200), st.integers(1, 20))
def test_the_index_says_what_a_search_would_find(seed: int, count: int, batch: int) -> None:
    made = History(seed).records(count)
    image = MetadataImage("cluster")
    for start in range(0, len(made), batch):
        image = load(image, *made[start : start + batch])
    expected: dict[int, set[tuple[bytes, int]]] = {}
    astray = set()
    for topic, index, partition in image.topics.each_partition():
        for broker in partition.replicas:
            expected.setdefault(broker, set()).add((topic.id, index))
        if partition.leader != partition.replicas[0]:
            astray.add((topic.id, index))
    assert hosted(image.topics) == expected
    assert set(image.topics.hosting.astray) == astray


def test_hosted_partitions_are_given_as_they_are() -> None:
    image = load(MetadataImage("cluster"), TopicRecord(name="a", topic_id=A), created(1, 2), created(2, 3, index=1))
    assert [(index, partition.replicas) for _, index, partition in image.topics.hosted_by(NodeId(2))] == [
        (0, (1, 2)),
        (1, (2, 3)),
    ]
    assert list(image.topics.hosted_by(NodeId(9))) == []
    assert list(image.topics.astray()) == []
    moved = load(image, PartitionChangeRecord(topic_id=A, partition_id=1, leader=3))
    assert [index for _, index, _ in moved.topics.astray()] == [1]


def test_unchanged_parts_of_the_image_are_shared() -> None:
    image = load(MetadataImage("cluster"), TopicRecord(name="a", topic_id=A), created(1, 2), created(3, 2, index=1))
    shrunk = load(image, PartitionChangeRecord(topic_id=A, partition_id=0, isr=[1]))
    assert shrunk.topics.hosting is image.topics.hosting
    added = load(image, created(1, 3, index=2))
    before, after = image.topics.hosting, added.topics.hosting
    assert after.of(NodeId(2)) is before.of(NodeId(2))
    assert after.of(NodeId(1)) is not before.of(NodeId(1))
    gone = load(image, RemoveTopicRecord(topic_id=A))
    assert gone.topics.hosting.by_broker == {}
