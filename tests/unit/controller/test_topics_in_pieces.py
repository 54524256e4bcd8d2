"""What is asked for of many topics, or of many partitions of one: each piece is decided in a turn of its own."""

from __future__ import annotations

from random import Random

import pytest

from highwater.config import NodeConfig
from highwater.controller.decision import Deciding
from highwater.controller.deletion import in_pieces as to_delete
from highwater.controller.leaders import elect_leaders
from highwater.controller.partitions import create_partitions
from highwater.controller.topics import create_topics, in_pieces
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.pieces import PIECE, whole
from highwater.wire.codec import Message
from highwater.wire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from highwater.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from highwater.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from highwater.wire.messages.elect_leaders_request import ElectLeadersRequest
from tests.unit.broker.living import PROPERTIES
from tests.unit.controller.clusters import cluster, then, topic_id, with_topic

CONFIG = NodeConfig.parse(PROPERTIES)
ONE = cluster(1)


def more_of(name: str, count: int) -> CreatePartitionsRequest:
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    return CreatePartitionsRequest(topics=[topic])


def with_partitions(name: str, count: int) -> MetadataImage:
    head = with_topic(ONE, name, [1])
    return then(head, whole(create_partitions(head, more_of(name, count), Random(1))).records)


def request(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=7, validate_only=True)


def test_many_topics_are_decided_few_at_a_time() -> None:
    names = [f"t{number}" for number in range(23)]
    pieces = in_pieces(request(*names), CONFIG)
    assert [topic.name for piece in pieces for topic in piece.topics] == names
    assert max(len(piece.topics) for piece in pieces) == 5
    assert {(piece.timeout_ms, piece.validate_only) for piece in pieces} == {(7, True)}


def test_topics_of_one_name_stay_together_to_be_refused() -> None:
    names = [f"t{number}" for number in range(20)]
    pieces = in_pieces(request("twice", *names, "twice"), CONFIG)
    assert [[topic.name for topic in piece.topics].count("twice") for piece in pieces] == [2, 0, 0, 0, 0]


def test_topics_to_delete_are_decided_few_at_a_time() -> None:
    states = [DeleteTopicState(name=f"t{number}") for number in range(45)]
    pieces = to_delete(ONE, DeleteTopicsRequest(topics=states, timeout_ms=7))
    assert [topic for piece in pieces for topic in piece.topics] == states
    assert max(len(piece.topics) for piece in pieces) == 20
    assert {piece.timeout_ms for piece in pieces} == {7}


def test_all_entries_that_delete_one_topic_are_in_one_piece() -> None:
    """By its name and by its id: one of them alone would be deleted."""
    head = with_topic(ONE, "a", [1])
    others = [DeleteTopicState(name=f"t{number}") for number in range(45)]
    twice = [DeleteTopicState(name="a"), DeleteTopicState(topic_id=topic_id("a"))]
    pieces = to_delete(head, DeleteTopicsRequest(topics=[twice[0], *others, twice[1]]))
    assert [[state for state in piece.topics if state in twice] for piece in pieces] == [twice, [], []]


def test_names_of_older_versions_are_taken_apart_too() -> None:
    pieces = to_delete(ONE, DeleteTopicsRequest(topic_names=[f"t{number}" for number in range(45)]))
    assert [len(piece.topics) for piece in pieces] == [20, 20, 5]


def test_a_request_that_is_refused_as_a_whole_is_not_taken_apart() -> None:
    whole = request(*(f"t{number}" for number in range(20)), partitions=1_000)
    assert in_pieces(whole, CONFIG) == [whole]
    assert in_pieces(request(), CONFIG) == [request()]


@pytest.mark.parametrize(
    ("deciding", "passes"),
    [
        (create_topics(ONE, request("a", partitions=1_000), CONFIG, Random(1)), 3),
        (create_partitions(with_topic(ONE, "a", [1]), more_of("a", 1_001), Random(1)), 2),
        (elect_leaders(with_partitions("a", 1_000), ElectLeadersRequest(topic_partitions=None), CONFIG), 1),
    ],
)
def test_one_topic_of_many_partitions_is_decided_by_pieces(deciding: Deciding[Message], passes: int) -> None:
    """`passes` are made over them: to place them, to write them down, to count the bytes."""
    assert sum(1 for _ in deciding) >= passes * 1_000 // PIECE
