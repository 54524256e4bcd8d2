"""The changes from one image to the next, found from records or by comparing the images."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.metadata.changes import NOTHING, Changes, different
from highwater.metadata.cluster import MetadataImage, difference
from highwater.metadata.configs import broker_resource, topic_resource
from highwater.metadata.features import FeaturesImage
from highwater.metadata.keyed import KeyedRecords
from highwater.metadata.producer_ids import ProducerIdsImage
from highwater.metadata.replay import apply
from highwater.metadata.topics import TopicImage, TopicsImage
from highwater.model import NodeId, Uuid
from highwater.wire.codec import Message
from highwater.wire.messages.client_quota_record import ClientQuotaRecord
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.remove_topic_record import RemoveTopicRecord
from highwater.wire.messages.topic_record import TopicRecord

EMPTY = MetadataImage("cluster")
A, B, C = Uuid(b"a" * 16), Uuid(b"b" * 16), Uuid(b"c" * 16)
RECORDS = KeyedRecords({("x",): ClientQuotaRecord()})


def image_of(*records: Message, image: MetadataImage = EMPTY) -> MetadataImage:
    return apply(image, records, image.offset + len(records), 1)[0]


def created(topic: Uuid, partitions: int = 1) -> list[Message]:
    records: list[Message] = [TopicRecord(name=topic.decode(), topic_id=topic)]
    for index in range(partitions):
        records.append(PartitionRecord(topic_id=topic, partition_id=index, replicas=[1], isr=[1], leader=1))
    return records


def test_an_image_of_nothing_lies_before_the_first_offset() -> None:
    assert (EMPTY.offset, EMPTY.epoch, EMPTY.producer_ids.next_id, EMPTY.transaction) == (-1, -1, -1, None)


def test_changes_without_arguments_name_no_change() -> None:
    assert not NOTHING
    assert not any((NOTHING.producer_ids, NOTHING.quotas, NOTHING.acls, NOTHING.credentials))
    assert Changes(quotas=True)


@pytest.mark.parametrize("kind", ["producer_ids", "quotas", "acls", "credentials"])
def test_two_steps_together_have_the_change_of_either(kind: str) -> None:
    one = Changes(**{kind: True})
    for both in (one.then(NOTHING), NOTHING.then(one), one.then(one)):
        assert both == one
    assert NOTHING.then(NOTHING) == NOTHING


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("brokers", (NodeId(1), NodeId(2), NodeId(3))),
        ("controllers", (NodeId(1), NodeId(2), NodeId(3))),
        ("configs", (topic_resource("a"), broker_resource(1), broker_resource(2))),
        ("features", ("a", "b", "c")),
    ],
)
def test_two_steps_together_name_each_change_once_in_order(kind: str, keys: tuple[Any, ...]) -> None:
    both = Changes(**{kind: (keys[1], keys[0])}).then(Changes(**{kind: (keys[0], keys[2])}))
    assert both == Changes(**{kind: (keys[1], keys[0], keys[2])})


def test_a_topic_that_one_step_creates_and_a_later_one_deletes_never_was() -> None:
    topic, old = TopicImage("a", A, {}), TopicImage("b", B, {})
    first = Changes(created=(A, C), partitions={A: (0,), C: (0,), B: (1,)})
    both = first.then(Changes(deleted=(topic, old), partitions={C: (0, 1)}))
    assert both.created == (C,)
    assert both.deleted == (old,)
    assert both.partitions == {C: (0, 1)}


def test_topics_that_two_steps_created_and_deleted_are_named_in_order() -> None:
    one, other = TopicImage("a", A, {}), TopicImage("b", B, {})
    both = Changes(deleted=(one,), created=(C,)).then(Changes(deleted=(other,), created=(A,)))
    assert both.deleted == (one, other)
    assert both.created == (C, A)


def test_a_key_differs_if_its_value_is_another_or_new_or_gone() -> None:
    assert different({"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 2, "d": 1}) == ("b", "d", "c")


def test_images_that_are_equal_do_not_differ() -> None:
    one = image_of(*created(A, 2), *created(B))
    other = image_of(*created(A, 2), *created(B))
    assert difference(one, other) == NOTHING


def test_topics_and_partitions_differ_where_they_were_written() -> None:
    before = image_of(*created(A, 3), *created(B))
    change = PartitionChangeRecord(topic_id=A, partition_id=1, leader=-1)
    after = image_of(change, RemoveTopicRecord(topic_id=B), *created(C, 0), image=before)
    found = difference(before, after)
    assert found.created == (C,)
    assert found.deleted == (before.topics.by_id[B],)
    assert found.partitions == {A: (1,), C: ()}


def test_the_partitions_of_a_topic_that_is_the_same_are_not_looked_at() -> None:
    class Unseen(dict[int, Any]):
        def items(self) -> Any:
            raise AssertionError("compared")

    topics = TopicsImage({A: TopicImage("a", A, Unseen())})
    before, after = (MetadataImage("cluster", offset=offset, topics=topics) for offset in (1, 2))
    assert difference(before, after) == NOTHING


@pytest.mark.parametrize(
    ("subject", "value", "expected"),
    [
        ("features", FeaturesImage({"f": 1}), Changes(features=("f",))),
        ("producer_ids", ProducerIdsImage(1000), Changes(producer_ids=True)),
        ("quotas", RECORDS, Changes(quotas=True)),
        ("acls", RECORDS, Changes(acls=True)),
        ("scram", RECORDS, Changes(credentials=True)),
        ("tokens", RECORDS, Changes(credentials=True)),
    ],
)
def test_a_subject_that_differs_is_reported_alone(subject: str, value: Any, expected: Changes) -> None:
    assert difference(EMPTY, MetadataImage("cluster", **{subject: value})) == expected
