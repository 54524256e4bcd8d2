"""Requests of few but long elements: refused where no client needs them, and few are passed on at a time."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from functools import partial
from typing import Any

import pytest

from highwater.errors import Code
from highwater.model import Endpoint
from highwater.net.client import CallFailed, ClientConnection, Gone
from highwater.net.context import RequestContext
from highwater.net.deadlines import DeadlineQueue
from highwater.net.registry import MOST_BYTES
from highwater.net.turns import Work
from highwater.sim import Knobs
from highwater.wire.codec import Message
from highwater.wire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.wire.messages.envelope_request import EnvelopeRequest
from highwater.wire.messages.envelope_response import EnvelopeResponse
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.wire.messages.metadata_response import MetadataResponse
from highwater.wire.messages.request_header import RequestHeader
from tests.unit.broker.living import NODE, Living

pytestmark = pytest.mark.slow

BROKER, CONTROLLER = 9092, 9093
LONGEST = 32_000
"""Of strings that any request may have."""
NAMES = 16 << 10
"""More than the rest of such a request has."""


def topic_of(size: int, name: str = "long") -> CreateTopicsRequest:
    """A topic to check whose values, no numbers, have so many characters in all."""
    lengths = [LONGEST] * (size // LONGEST) + [size % LONGEST]
    values = [CreatableTopicConfig(name="retention.ms", value="x" * length) for length in lengths]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=values)
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=True)


def enclosed(request: CreateTopicsRequest) -> EnvelopeRequest:
    header = RequestHeader(request_api_key=19, request_api_version=7, correlation_id=1, client_id="test")
    data = header.encode(2) + request.encode(7)
    return EnvelopeRequest(request_data=data, request_principal=None, client_host_address=bytes(4))


def asked(
    living: Living, request: Message, response: type[Message], version: int, port: int = BROKER
) -> Message | CallFailed:
    """The answer, or that there was none; on a connection of its own."""

    async def ask() -> Message | CallFailed:
        over: asyncio.Future[Message | CallFailed] = asyncio.get_running_loop().create_future()
        ended: asyncio.Future[Gone] = asyncio.get_running_loop().create_future()
        deadlines = DeadlineQueue(living._client.clock)
        connection = ClientConnection(living._client, Endpoint(NODE, port), "test", deadlines, ended.set_result)
        connection.open(lambda: connection.send(request, version, response, over.set_result, 60.0), 60.0)
        answer = await over
        connection.close()
        await ended
        return answer

    return living.sim.run(living._client.perform(ask()))


def test_a_request_inside_an_envelope_has_no_more_bytes_than_one_without() -> None:
    with Living().start() as living:
        small = asked(living, enclosed(topic_of(MOST_BYTES - NAMES)), EnvelopeResponse, 0, CONTROLLER)
        assert isinstance(small, EnvelopeResponse)
        assert small.error_code == Code.NONE
        large = asked(living, enclosed(topic_of(MOST_BYTES + 1)), EnvelopeResponse, 0, CONTROLLER)
        assert isinstance(large, EnvelopeResponse)
        assert large.error_code == Code.INVALID_REQUEST


def test_an_envelope_that_no_request_needs_ends_its_connection() -> None:
    with Living().start() as living:
        large = asked(living, enclosed(topic_of(2 * MOST_BYTES)), EnvelopeResponse, 0, CONTROLLER)
        assert isinstance(large, CallFailed)
        assert large.reason is Gone.LOST


def test_the_largest_request_of_a_client_is_passed_on_whole() -> None:
    with Living().start() as living:
        answer = asked(living, topic_of(MOST_BYTES - NAMES), CreateTopicsResponse, 7)
        assert isinstance(answer, CreateTopicsResponse)
        assert [topic.error_code for topic in answer.topics] == [Code.INVALID_CONFIG]


@pytest.mark.parametrize("length", [249, 60])
def test_clients_that_name_ten_thousand_topics_are_answered(length: int) -> None:
    topics = [MetadataRequestTopic(name=f"{at:0{length}d}") for at in range(10_000)]
    with Living().start() as living:
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        answer = asked(living, request, MetadataResponse, 9)
        assert isinstance(answer, MetadataResponse)
        assert len(answer.topics) == len(topics)


async def at_once(living: Living, requests: list[CreateTopicsRequest]) -> list[Message | CallFailed]:
    """Each on a connection of its own."""
    loop = asyncio.get_running_loop()
    deadlines = DeadlineQueue(living._client.clock)
    over: list[asyncio.Future[Message | CallFailed]] = [loop.create_future() for _ in requests]
    ended: list[asyncio.Future[Gone]] = [loop.create_future() for _ in requests]
    opened = []
    for request, answer, end in zip(requests, over, ended, strict=True):
        connection = ClientConnection(living._client, Endpoint(NODE, BROKER), "test", deadlines, end.set_result)
        send = partial(connection.send, request, 7, CreateTopicsResponse, answer.set_result, 60.0)
        connection.open(send, 60.0)
        opened.append(connection)
    answers = [await each for each in over]
    for connection, end in zip(opened, ended, strict=True):
        connection.close()
        await end
    return answers


def test_few_bytes_of_large_requests_are_passed_on_at_a_time() -> None:
    """And as few are taken out of envelopes, until they are decided: many topics take many turns."""
    many = [CreatableTopic(name=f"{number:0249d}", num_partitions=1, replication_factor=1) for number in range(1_000)]
    requests = [topic_of(MOST_BYTES - NAMES) for _ in range(3)]
    requests += [CreateTopicsRequest(topics=many, timeout_ms=10_000, validate_only=True) for _ in range(2)]
    with Living().start() as living:
        turns = living.node.server.turns
        most = [0, 0]

        def look(event: object) -> None:
            most[:] = max(most[0], turns.passed_on.taken), max(most[1], turns.opened.taken)

        living.sim.on_event(look)
        answers = living.sim.run(living._client.perform(at_once(living, requests)))
        assert all(isinstance(each, CreateTopicsResponse) for each in answers)
        assert MOST_BYTES - 2 * NAMES < most[0] <= MOST_BYTES
        assert 100_000 < most[1] <= MOST_BYTES
        assert (turns.passed_on.taken, turns.opened.taken) == (0, 0)


def test_a_large_envelope_leaves_its_place_if_its_connection_ends_while_it_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answer has as many rows as the request, and takes several turns. The broker may be gone by then."""
    many = [CreatableTopic(name=f"{number:0249d}", num_partitions=1, replication_factor=1) for number in range(300)]
    request = enclosed(CreateTopicsRequest(topics=many, timeout_ms=10_000, validate_only=True))
    still_taken: list[int] = []
    true = RequestContext.carry_out

    def cut_off(self: RequestContext, work: Work) -> None:
        true(self, work)
        if self.api_key == CreateTopicsRequest.API_KEY:
            living.node.world.clock.call_later(0.05, lose, self.connection)

    def lose(connection: Any) -> None:
        still_taken.append(opened.taken)
        connection.connection_lost(None)

    monkeypatch.setattr(RequestContext, "carry_out", cut_off)
    with Living(knobs=Knobs(slow_code=1.0)).start() as living:
        opened = living.node.server.turns.opened
        deadlines = DeadlineQueue(living._client.clock)

        async def send() -> None:
            connection = ClientConnection(
                living._client, Endpoint(NODE, CONTROLLER), "test", deadlines, lambda reason: None
            )
            connection.open(lambda: connection.send(request, 0, EnvelopeResponse, lambda answer: None, 60.0), 60.0)

        living.sim.run(living._client.perform(send()))
        living.sim.loop.run_until(lambda: bool(still_taken))
        assert still_taken[0] > 0, "it is not answered yet"
        living.sim.loop.run_to(living.sim.now + 5.0)
        assert not opened.taken


def test_a_forwarded_request_is_freed_once_it_is_answered() -> None:
    """Neither by a deadline that is not over yet, nor in a circle that is found now and then."""
    with Living().start() as living:
        asked(living, topic_of(MOST_BYTES - NAMES), CreateTopicsResponse, 7)
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            for _ in range(2):
                asked(living, topic_of(MOST_BYTES - NAMES), CreateTopicsResponse, 7)
            assert tracemalloc.get_traced_memory()[0] < MOST_BYTES // 2
        finally:
            tracemalloc.stop()
            gc.enable()
