"""CreateTopics of many topics: each piece is decided in a turn of its own."""

from __future__ import annotations

from highwater.config import NodeConfig
from highwater.controller.topics import in_pieces
from highwater.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.unit.broker.living import PROPERTIES

CONFIG = NodeConfig.parse(PROPERTIES)


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
    assert [[topic.name for topic in piece.topics] for piece in pieces if piece.topics[0].name == "twice"] == [
        ["twice", "twice"]
    ]


def test_what_is_refused_as_a_whole_is_not_taken_apart() -> None:
    whole = request(*(f"t{number}" for number in range(20)), partitions=1_000)
    assert in_pieces(whole, CONFIG) == [whole]
    assert in_pieces(request(), CONFIG) == [request()]
