"""Answers that are held back for their reader's own good: for a bounded time, and never at another request's cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from highwater.broker.doubts import ACQUAINTED_SECONDS, DOUBT_SECONDS, PATIENCE_SECONDS
from highwater.broker.forwarding import UNREACHED_SECONDS
from highwater.errors import Code
from highwater.model import TopicPartition
from highwater.wire.codec import Message
from highwater.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.wire.messages.find_coordinator_request import FindCoordinatorRequest
from highwater.wire.messages.find_coordinator_response import FindCoordinatorResponse
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.wire.messages.metadata_response import MetadataResponse
from tests.scenarios.stage import Pending, Stage

AT_ONCE = 0.03
"""A request's way to a node and back."""
LEFT = "n3"
"""The broker that the client asks."""
OTHERS = TopicPartition("others", 0)
COORDINATOR = FindCoordinatorRequest(key_type=0, coordinator_keys=["readers"])
M = TypeVar("M", bound=Message)


def about(*topics: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics])


def begin(stage: Stage, request: Message, response: type[M]) -> Pending[tuple[M, float]]:
    """Ask LEFT, on the client's one connection to it; the answer, and when it came."""

    async def heard() -> tuple[M, float]:
        answer = await stage.client.ask(LEFT, request, response)
        return answer, stage.now

    return stage.begin(heard())


def answered_in(stage: Stage, request: Message, response: type[M]) -> tuple[M, float]:
    begun, pending = stage.now, begin(stage, request, response)
    stage.until(lambda: pending.done)
    assert pending.result is not None
    return pending.result[0], pending.result[1] - begun


@contextmanager
def last_of_three() -> Iterator[Stage]:
    """n3 leads `orders` and followed n2 in `others`; n1, the controller, and n2 are dead for good."""
    with Stage(3, voters=3) as stage:
        stage.create(replicas=(3,))
        stage.create(OTHERS, replicas=(2, 3))
        stage.send(b"m1")
        stage.send(b"m1", tp=OTHERS)
        answered_in(stage, about("orders"), MetadataResponse)
        stage.pass_time(2 * ACQUAINTED_SECONDS)
        assert stage.node(LEFT).raft.leader_id == 1
        stage.kill("n1", "n2")
        yield stage


def fetch(stage: Stage) -> Pending[float]:
    """Read `orders` from LEFT behind whatever was asked before, on the same connection; when the record came."""

    async def read() -> float:
        fetched = await stage.client.fetch(LEFT, 0)
        assert fetched.values == [b"m1"]
        return stage.now

    return stage.begin(read())


@pytest.mark.parametrize("dead_for", [0.0, 0.1, 1.0, 5.0])
def test_without_a_controller_a_group_hears_at_once_that_there_is_no_coordinator(dead_for: float) -> None:
    with last_of_three() as stage:
        stage.pass_time(dead_for)
        answer, seconds = answered_in(stage, COORDINATOR, FindCoordinatorResponse)
        assert answer.coordinators[0].error_code == Code.COORDINATOR_NOT_AVAILABLE
        assert seconds < AT_ONCE


@pytest.mark.parametrize("dead_for", [0.0, 0.1, 1.0, 5.0])
def test_a_consumer_that_finds_no_coordinator_keeps_reading_from_the_live_leader(dead_for: float) -> None:
    with last_of_three() as stage:
        stage.pass_time(dead_for)
        begun, looking = stage.now, begin(stage, COORDINATOR, FindCoordinatorResponse)
        reading = fetch(stage)
        stage.until(lambda: reading.done)
        assert reading.result is not None and reading.result - begun < AT_ONCE
        assert looking.done


@pytest.mark.parametrize("dead_for", [0.0, 0.1, 1.0, 5.0])
def test_a_consumer_of_a_dead_leader_keeps_reading_from_a_live_one(dead_for: float) -> None:
    with last_of_three() as stage:
        stage.pass_time(dead_for)
        begun, asking = stage.now, begin(stage, about("orders", "others"), MetadataResponse)
        reading = fetch(stage)
        stage.until(lambda: reading.done)
        assert reading.result is not None and reading.result - begun < AT_ONCE
        assert asking.done


def test_a_fetch_that_waits_for_records_and_metadata_behind_it_are_answered_together() -> None:
    with last_of_three() as stage:

        async def wait_for_records() -> float:
            await stage.client.fetch(LEFT, 1, wait_ms=200)
            return stage.now

        waiting = stage.begin(wait_for_records())
        asking = begin(stage, about("orders", "others"), MetadataResponse)
        stage.until(lambda: waiting.done and asking.done)
        assert waiting.result is not None and asking.result is not None
        assert asking.result[1] - waiting.result < AT_ONCE / 10


def test_a_metadata_request_does_not_wait_for_a_proof_that_cannot_come() -> None:
    """The last broker dials the dead one again and again; it learns nothing new by that."""
    with last_of_three() as stage:
        stage.pass_time(PATIENCE_SECONDS + DOUBT_SECONDS)
        for _ in range(3):
            assert answered_in(stage, about("others"), MetadataResponse)[1] < AT_ONCE
            stage.pass_time(DOUBT_SECONDS)


@pytest.mark.parametrize("dead_for", [0.0, 0.1, 1.0, 5.0])
def test_a_topic_that_no_controller_can_make_is_answered_as_unknown_at_once(dead_for: float) -> None:
    with last_of_three() as stage:
        stage.pass_time(dead_for)
        answer, seconds = answered_in(stage, about("new"), MetadataResponse)
        assert answer.topics[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
        assert seconds < AT_ONCE


@pytest.mark.parametrize("request_", [COORDINATOR, about("new")], ids=["FindCoordinator", "Metadata"])
def test_while_a_topic_is_being_made_nothing_waits_behind_the_question_for_it(request_: Message) -> None:
    with Stage(3, voters=1) as stage:
        stage.create(replicas=(3,))
        stage.send(b"m1")
        stage.cut(LEFT, "n1")
        response = FindCoordinatorResponse if request_ is COORDINATOR else MetadataResponse
        begun = stage.now
        begin(stage, request_, response)
        reading = fetch(stage)
        stage.until(lambda: reading.done)
        assert stage.now - begun < AT_ONCE


def test_a_group_that_comes_first_learns_its_coordinator_in_one_answer() -> None:
    with Stage(3, voters=1) as stage:
        answer, _ = answered_in(stage, COORDINATOR, FindCoordinatorResponse)
        assert answer.coordinators[0].error_code == Code.NONE


def test_questions_for_one_missing_topic_are_put_to_the_controller_once() -> None:
    with Stage(3, voters=1) as stage:
        first, second = (begin(stage, about("new"), MetadataResponse) for _ in range(2))
        stage.until(lambda: first.done and second.done)
        assert first.result is not None and second.result is not None
        assert [first.result[0].topics[0].error_code, second.result[0].topics[0].error_code] == [Code.NONE, Code.NONE]


@pytest.mark.parametrize("dead_for", [0.0, 5.0])
def test_a_topic_to_create_is_refused_when_no_controller_comes(dead_for: float) -> None:
    """A controller may be elected: it is waited for through several elections, and no longer."""
    topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    with last_of_three() as stage:
        stage.pass_time(dead_for)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
        begun, pending = stage.now, begin(stage, request, CreateTopicsResponse)
        stage.pass_time(UNREACHED_SECONDS + 2)
        assert pending.result is not None
        answer, at = pending.result
        assert answer.topics[0].error_code == Code.REQUEST_TIMED_OUT
        assert UNREACHED_SECONDS <= at - begun < UNREACHED_SECONDS + 1
