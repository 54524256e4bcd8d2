"""Batches that take long to check are checked off the loop: in their place among the others of their connection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from highwater.broker.k00_produce import ADMIN_CLIENT
from highwater.errors import Code
from highwater.model import Endpoint
from highwater.net.client import CallFailed, ClientConnection
from highwater.net.deadlines import DeadlineQueue
from highwater.wire import compression, records
from highwater.wire.compression import Codec
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import PartitionProduceResponse, ProduceResponse
from highwater.wire.records.append import APPEND_LIMIT, AT_ONCE
from tests.unit.broker.living import NODE, Living
from tests.wire.locks import CountedLock

VERSION = 9


def batch(living: Living, value: bytes, codec: int = Codec.NONE) -> bytes:
    return bytes(records.build([(living.world.clock.wall_ms(), None, value, ())], codec=codec))


def large(living: Living) -> bytes:
    return batch(living, bytes(AT_ONCE + 1), Codec.ZSTD)


def request(*rows: tuple[int, bytes], acks: int = -1, topic: str = "t") -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records) for index, records in rows]
    return ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


def sent(
    living: Living, requests: Sequence[ProduceRequest], client_id: str = "t"
) -> list[list[PartitionProduceResponse]]:
    """All at once on one connection; the rows of each answer."""

    async def ask() -> list[list[PartitionProduceResponse]]:
        client, loop = living._client, asyncio.get_running_loop()
        answers: list[asyncio.Future[ProduceResponse | CallFailed]] = [loop.create_future() for _ in requests]
        connection = ClientConnection(
            client, Endpoint(NODE, 9092), client_id, DeadlineQueue(client.clock), lambda gone: None
        )

        def send() -> None:
            for each, answer in zip(requests, answers, strict=True):
                connection.send(each, VERSION, ProduceResponse, answer.set_result, 30.0)

        connection.open(send, 60.0)
        responses = []
        for answer in answers:
            response = await answer
            assert not isinstance(response, CallFailed), response
            responses.append(response.responses[0].partition_responses)
        connection.close()
        return responses

    return living.sim.run(living._client.perform(ask()))


def test_batches_of_one_connection_keep_their_order_though_the_first_takes_long() -> None:
    with Living().start() as living:
        living.create_topic("t")
        small = batch(living, b"small")
        answers = sent(living, [request((0, large(living))), request((0, small)), request((0, large(living)))])
        assert [(rows[0].error_code, rows[0].base_offset) for rows in answers] == [(0, 0), (0, 1), (0, 2)]


def test_partitions_of_one_request_are_all_written_though_one_of_them_takes_long() -> None:
    with Living().start() as living:
        living.create_topic("t", 3)
        small = batch(living, b"small")
        (rows,) = sent(living, [request((0, small), (1, large(living)), (2, small))])
        assert [(row.index, row.error_code, row.base_offset) for row in rows] == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]


def test_a_batch_that_inflates_beyond_the_limit_is_refused_off_the_loop_too() -> None:
    with Living().start() as living:
        living.create_topic("t")
        bomb = batch(living, bytes(APPEND_LIMIT + 1), Codec.ZSTD)
        answers = sent(living, [request((0, bomb)), request((0, batch(living, b"small")))])
        assert [rows[0].error_code for rows in answers] == [Code.MESSAGE_TOO_LARGE, Code.NONE]


def test_a_batch_that_inflates_to_much_is_checked_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look-ups inflate, too, in a thread of their own."""
    lock = CountedLock()
    monkeypatch.setattr(compression, "ALONE", lock)
    with Living().start() as living:
        living.create_topic("t")
        sent(living, [request((0, batch(living, bytes(1_000), Codec.ZSTD)))])
        assert lock.times == 0
        sent(living, [request((0, large(living)))])
        assert lock.times == 1


def test_a_batch_for_a_coordinator_may_inflate_to_less_than_others() -> None:
    """A coordinator has to load it at each start."""
    with Living().start() as living:
        living.create_topic("__consumer_offsets")
        now = living.world.clock.wall_ms()
        few, many = (
            bytes(records.build([(now, b"k", bytes(size), ())], codec=Codec.ZSTD)) for size in (1_000, AT_ONCE + 1)
        )
        asked = [request((0, each), topic="__consumer_offsets") for each in (few, many)]
        answers = sent(living, asked, ADMIN_CLIENT)
        assert [rows[0].error_code for rows in answers] == [Code.NONE, Code.MESSAGE_TOO_LARGE]


def test_a_batch_that_is_compressed_anew_is_stored_as_the_topic_wants_it() -> None:
    with Living(compression_type="gzip").start() as living:
        living.create_topic("t")
        (rows,) = sent(living, [request((0, batch(living, bytes(100_000))))])
        assert (rows[0].error_code, rows[0].base_offset) == (0, 0)
        broker = living.node.broker
        assert broker is not None
        partition = next(iter(broker.hosted))
        assert partition.log.segments[0].size < 10_000


def test_a_partition_that_is_named_twice_is_written_once() -> None:
    with Living().start() as living:
        living.create_topic("t")
        small = batch(living, b"small")
        (rows,) = sent(living, [request((0, small), (0, small))])
        assert [(row.error_code, row.base_offset) for row in rows] == [(Code.NONE, 0), (Code.INVALID_REQUEST, -1)]
