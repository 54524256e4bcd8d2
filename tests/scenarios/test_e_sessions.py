"""Scenarios of group E: fetch sessions (KIP-227)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from highwater.errors import Code, code_of
from highwater.model import TopicPartition
from highwater.wire import records
from highwater.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from highwater.wire.messages.fetch_response import FetchResponse
from tests.scenarios.mishaps import decided
from tests.scenarios.stage import ORDERS, Stage
from tests.scenarios.visitor import PREFERRED, Visitor

PAGE_BYTES = 2_000


class Answer(NamedTuple):
    code: Code
    session: int
    found: dict[int, list[bytes]]
    refused: dict[int, Code]


async def fetch(
    visitor: Visitor, node: str, topic_id: bytes, session: int, turn: int, wanted: Mapping[int, int], epoch: int = -1
) -> Answer:
    """`wanted` is where to read from, by partition, of those that are new to the session or have moved."""
    rows = [
        FetchPartition(partition=index, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=PAGE_BYTES)
        for index, offset in wanted.items()
    ]
    topics = [FetchTopic(topic_id=topic_id, partitions=rows)] if rows else []  # type: ignore[arg-type]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=PAGE_BYTES, session_id=session, session_epoch=turn, topics=topics
    )
    answer = await visitor.ask(node, request, FetchResponse)
    answered_rows = [row for topic in answer.responses for row in topic.partitions]
    found = {
        row.partition_index: [
            bytes(record.value or b"")
            for at, size, _ in records.walk(memoryview(row.records or b""))
            for record in records.iterate_all(memoryview(row.records or b"")[at : at + size])
        ]
        for row in answered_rows
        if row.records
    }
    refused = {row.partition_index: code_of(row.error_code) for row in answered_rows if row.error_code}
    return Answer(code_of(answer.error_code), answer.session_id, found, refused)


def test_e10_no_partition_starves_in_a_session_whose_answers_are_always_full() -> None:
    """Setup: a session reads two partitions; one of them has more than fits into an answer, again and again. Must
    hold: the other is not passed over for ever, though nothing is said of it any more (KAFKA-12330)."""
    with Stage(3) as stage:
        stage.create(TopicPartition(ORDERS.topic, 1), replicas=(2, 3))
        topic = stage.truth.topics.by_name[ORDERS.topic].id
        for number in range(12):
            stage.send(b"%d" % number * 1500)
        stage.send(b"seldom", tp=TopicPartition(ORDERS.topic, 1))
        first = stage.run(fetch(stage.client, "n2", topic, 0, 0, {0: 0, 1: 0}))
        assert (first.code, list(first.found)) == (Code.NONE, [0])
        seen, at = set(first.found), len(first.found[0])
        for turn in range(1, 5):
            answer = stage.run(fetch(stage.client, "n2", topic, first.session, turn, {0: at}))
            at += len(answer.found.get(0, ()))
            seen |= set(answer.found)
        assert seen == {0, 1}
        assert at > 2, "and the other went on"


def test_e10_a_session_is_held_to_leader_epochs_and_to_its_own() -> None:
    """Setup: a session follows a partition of leader 2. Fault: 3 leads and then 2 again, while the session lives. Must
    hold: an incremental fetch that says nothing of the partition is fenced all the same (KAFKA-9338); an epoch out of
    order and a session that is not there have errors of their own."""
    with Stage(3) as stage:
        stage.create(replicas=(2, 3))
        topic = stage.truth.topics.by_name[ORDERS.topic].id
        stage.send(b"a")
        first = stage.run(fetch(stage.client, "n2", topic, 0, 0, {0: 0}, epoch=0))
        assert first.found == {0: [b"a"]}
        stage.isolate("n2")
        stage.until(lambda: stage.leader() == "n3")
        stage.heal()
        stage.until(lambda: set(decided(stage).isr) == {2, 3})
        assert stage.run(stage.client.elect(PREFERRED)) is Code.NONE
        stage.until(lambda: stage.leads("n2"))
        again = stage.run(fetch(stage.client, "n2", topic, first.session, 1, {}))
        assert again.refused == {0: Code.FENCED_LEADER_EPOCH}
        wrong = stage.run(fetch(stage.client, "n2", topic, first.session, 7, {}))
        assert wrong.code is Code.INVALID_FETCH_SESSION_EPOCH
        nowhere = stage.run(fetch(stage.client, "n2", topic, first.session ^ 1, 1, {}))
        assert nowhere.code is Code.FETCH_SESSION_ID_NOT_FOUND
