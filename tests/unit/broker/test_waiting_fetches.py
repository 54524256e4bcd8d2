"""Fetches that wait for records: which are woken, how long they wait, and what is left when the reader is gone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater.errors import Code
from highwater.model import METADATA_TOPIC_ID, Endpoint, TopicPartition
from highwater.net.client import CallFailed, ClientConnection, Gone
from highwater.net.deadlines import DeadlineQueue
from highwater.net.line import MAX_WAIT_MS
from highwater.partition.partition import Partition
from highwater.sim.knobs import Knobs
from highwater.wire import records
from highwater.wire.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from highwater.wire.messages.fetch_response import FetchResponse
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import ProduceResponse
from tests.unit.broker.living import NODE, Living

FOR_EVER = 2**31 - 1
NOTHING_IS_CACHED = Knobs(cold_read=1.0, warm_tail=0)
VERSION = 12


class Reader:
    """A connection that stays, and what was answered on it."""

    made = 0

    def __init__(self, living: Living, port: int = 9092) -> None:
        self._living = living
        Reader.made += 1
        self._world = living.sim.world(f"reader-{Reader.made}")
        self.answers: list[FetchResponse] = []
        self.gone: list[Gone] = []
        opened: list[bool] = []
        self._connection = self._world.call(
            ClientConnection,
            self._world,
            Endpoint(NODE, port),
            "reader",
            DeadlineQueue(self._world.clock),
            self.gone.append,
        )
        self._world.call(self._connection.open, lambda: opened.append(True), 60.0)
        living.sim.run(living.sim.until(lambda: bool(opened)))

    def ask(self, *requests: FetchRequest, version: int = VERSION, after: Callable[[], None] | None = None) -> None:
        for request in requests:
            self._world.call(self._connection.send, request, version, FetchResponse, self._answered, 1e9)
        if after is not None:
            after()
        self._living.sim.advance(0.5)

    def end(self) -> None:
        """It says no more, and goes on listening."""
        assert self._connection._transport is not None
        self._world.call(self._connection._transport.write_eof)

    def _answered(self, answer: FetchResponse | CallFailed) -> None:
        if isinstance(answer, FetchResponse):
            self.answers.append(answer)

    def close(self) -> None:
        self._world.call(self._connection.close)
        self._living.sim.run(self._living.sim.until(lambda: bool(self.gone)))
        self._living.sim.advance(1.0)


def wanted(offset: int = 0, max_wait_ms: int = FOR_EVER, **changes: object) -> FetchRequest:
    row = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic="t", partitions=[row])],
    )
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def produce(living: Living, value: bytes, index: int = 0) -> None:
    batch = records.build([(living.world.clock.wall_ms(), None, value, ())])
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=index, records=batch)])
    answer = living.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), ProduceResponse, 9)
    assert answer.responses[0].partition_responses[0].error_code == Code.NONE


def values(answer: FetchResponse) -> list[bytes]:
    data = memoryview(answer.responses[0].partitions[0].records or b"")
    return [bytes(record.value or b"") for record in records.iterate_all(data)]


def begun(**settings: str) -> Living:
    living = Living(**settings).start()
    living.create_topic("t", partitions=1)
    return living


def partition(living: Living) -> Partition:
    broker = living.node.broker
    assert broker is not None
    found = broker.hosted.get(TopicPartition("t", 0))
    assert found is not None
    return found


def sessions(living: Living) -> int:
    assert living.node.broker is not None
    return len(living.node.broker.sessions)


def test_a_fetch_waits_no_longer_than_its_connection() -> None:
    with begun() as living:
        reader = Reader(living)
        before = len(living.node.deadlines)
        reader.ask(*[wanted() for _ in range(50)])
        assert len(partition(living)._readers) == 1
        reader.close()
        assert not partition(living)._readers
        assert len(living.node.deadlines) <= before


def test_fetches_that_may_not_wait_for_the_memory_that_it_takes_are_answered_at_once() -> None:
    """Each partition that they name takes memory, many times that of the request. Followers always may."""
    with begun() as living:
        assert living.node.broker is not None
        waiting = living.node.broker.sessions._waiting
        waiting.most = 2
        first, second, third = (Reader(living) for _ in range(3))
        first.ask(wanted())
        second.ask(wanted())
        third.ask(wanted())
        assert [len(each.answers) for each in (first, second, third)] == [0, 0, 1]
        first.close()
        produce(living, b"news")
        living.sim.run(living.sim.until(lambda: (len(second.answers), waiting.taken) == (1, 0)))
        third.ask(wanted(offset=1))
        assert (len(third.answers), waiting.taken) == (1, 1), "it waits"


def test_a_fetch_of_many_partitions_without_memory_for_them_is_answered_with_nothing() -> None:
    with begun() as living:
        assert living.node.broker is not None
        waiting = living.node.broker.sessions._waiting
        waiting.most = 500
        rows = [FetchPartition(partition=index, partition_max_bytes=1) for index in range(300)]
        many = wanted(topics=[FetchTopic(topic="t", partitions=rows)])
        reader = Reader(living)
        reader.ask(many)
        assert [len(each.responses[0].partitions) for each in reader.answers] == [300]
        assert waiting.taken == 0
        waiting.most = 299
        reader.ask(many)
        assert reader.answers[1].responses == []
        assert reader.answers[1].error_code == Code.NONE


def test_only_one_of_a_connections_pipelined_fetches_waits_and_all_are_answered() -> None:
    with begun() as living:
        reader = Reader(living)
        reader.ask(*[wanted() for _ in range(100)])
        assert len(partition(living)._readers) == 1
        assert not reader.answers
        produce(living, b"news")
        living.sim.run(living.sim.until(lambda: len(reader.answers) == 100))
        assert {tuple(values(answer)) for answer in reader.answers} == {(b"news",)}


def test_a_session_ends_with_its_connection() -> None:
    with begun() as living:
        reader, other = Reader(living), Reader(living)
        reader.ask(wanted(session_epoch=0, max_wait_ms=100))
        other.ask(wanted(session_epoch=0, max_wait_ms=100))
        assert sessions(living) == 2
        reader.close()
        assert sessions(living) == 1
        other.ask(FetchRequest(max_wait_ms=0, session_id=other.answers[0].session_id, session_epoch=1))
        assert [answer.error_code for answer in other.answers] == [0, 0]
        other.close()
        assert sessions(living) == 0
        assert not partition(living)._readers


@pytest.mark.parametrize("more", [2, 400], ids=["at once", "by turns"])
def test_a_session_that_would_grow_beyond_bounds_ends(more: int) -> None:
    with begun() as living:
        reader = Reader(living)
        reader.ask(wanted(session_epoch=0, max_wait_ms=0))
        assert living.node.broker is not None
        living.node.broker.sessions._count.most = more
        request = wanted(session_epoch=1, session_id=reader.answers[0].session_id, max_wait_ms=0)
        rows = request.topics[0].partitions
        request.topics[0].partitions = [FetchPartition(partition=index) for index in range(1, more + 1)]
        reader.ask(request)
        assert reader.answers[1].error_code == Code.FETCH_SESSION_ID_NOT_FOUND
        assert sessions(living) == 0
        request.topics[0].partitions, request.session_id, request.session_epoch = rows, 0, 0
        reader.ask(request)
        assert (reader.answers[2].error_code, sessions(living)) == (0, 1), "it begins anew"


def test_a_followers_session_ends_with_its_connection() -> None:
    with begun() as living:
        reader = Reader(living)
        for replica in (7, 8, 9):
            state = ReplicaState(replica_id=replica, replica_epoch=1)
            request = wanted(session_epoch=0, max_wait_ms=0, replica_state=state)
            request.topics[0].topic_id = partition(living).topic_id
            reader.ask(request, version=17)
        assert sessions(living) == len(partition(living)._followers) == 3
        reader.close()
        assert sessions(living) == 0
        assert not partition(living)._followers


def test_a_session_without_a_waiting_fetch_is_notified_of_news_once() -> None:
    with begun() as living:
        reader = Reader(living)
        reader.ask(*[wanted(session_epoch=0, max_wait_ms=0) for _ in range(20)])
        assert len(partition(living)._readers) == 20
        produce(living, b"one")
        assert not partition(living)._readers
        produce(living, b"two")
        resumed = FetchRequest(
            max_wait_ms=1000, min_bytes=1, max_bytes=1 << 20, session_id=reader.answers[0].session_id, session_epoch=1
        )
        reader.ask(resumed)
        assert values(reader.answers[-1]) == [b"one", b"two"]
        assert len(partition(living)._readers) == 1


def test_a_session_that_waits_is_notified_each_time_until_there_is_enough() -> None:
    with begun() as living:
        reader = Reader(living)
        reader.ask(wanted(session_epoch=0, min_bytes=200))
        for number in range(2):
            produce(living, b"%d" % number)
            living.sim.advance(0.5)
            assert not reader.answers
        produce(living, b"2")
        living.sim.run(living.sim.until(lambda: bool(reader.answers)))
        assert values(reader.answers[0]) == [b"0", b"1", b"2"]


def test_a_fetch_does_not_wait_for_days() -> None:
    with begun() as living:
        reader = Reader(living)
        reader.ask(wanted())
        living.sim.advance(MAX_WAIT_MS / 1000 - 1)
        assert not reader.answers
        living.sim.advance(1)
        assert values(reader.answers[0]) == []


def test_a_fetch_does_not_wait_for_more_bytes_than_the_response_may_have() -> None:
    with begun() as living:
        produce(living, bytes(2000))
        reader = Reader(living)
        reader.ask(wanted(min_bytes=1 << 30, max_bytes=1000))
        assert len(values(reader.answers[0])) == 1


def of_both(**limits: int) -> FetchRequest:
    each = limits.pop("each", 1 << 20)
    rows = [FetchPartition(partition=index, partition_max_bytes=each) for index in (0, 1)]
    return wanted(topics=[FetchTopic(topic="t", partitions=rows)], **limits)


def test_a_fetch_does_not_wait_for_bytes_that_do_not_fit_into_the_response() -> None:
    """The first batch of the second partition is too large for what the first one leaves."""
    with Living().start() as living:
        living.create_topic("t", partitions=2)
        for index in (0, 1):
            produce(living, bytes(600), index)
        reader = Reader(living)
        reader.ask(of_both(min_bytes=1000, max_bytes=1000))
        assert len(values(reader.answers[0])) == 1


def test_a_fetch_waits_if_the_other_partitions_may_send_too_little() -> None:
    """There is more to send, but no more than the limit of the partition counts, as in Kafka."""
    with Living().start() as living:
        living.create_topic("t", partitions=2)
        for index in (0, 1):
            produce(living, bytes(600), index)
        reader = Reader(living)
        reader.ask(of_both(min_bytes=1000, max_bytes=2000, each=100))
        assert not reader.answers


def test_a_fetch_at_the_end_of_an_older_segment_does_not_wait_for_more_bytes_than_that_has() -> None:
    with begun() as living:
        produce(living, bytes(600))
        living.world.call(partition(living).log.roll)
        produce(living, bytes(600))
        reader = Reader(living)
        reader.ask(wanted(min_bytes=1000))
        assert len(values(reader.answers[0])) == 1
        reader.ask(wanted(1, min_bytes=1000))
        assert len(reader.answers) == 1, "the last segment may still grow"


def test_a_fetch_of_the_metadata_log_waits_no_longer_than_its_connection_nor_for_days() -> None:
    with begun(metadata_max_idle_interval_ms="0") as living:
        raft = living.node.raft
        row = FetchPartition(
            partition=0,
            current_leader_epoch=raft.epoch,
            fetch_offset=raft.log.written_end,
            last_fetched_epoch=raft.log.last_epoch,
            partition_max_bytes=1 << 20,
            high_watermark=raft.log.written_end,
        )
        topic = FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[row])
        request = FetchRequest(max_wait_ms=FOR_EVER, min_bytes=1, session_epoch=-1, topics=[topic])
        gone, stays = [Reader(living, 9093) for _ in range(20)], Reader(living, 9093)
        before = len(living.node.deadlines)
        for reader in gone:
            reader.ask(request, request, version=18)
        stays.ask(request, version=18)
        assert len(living.node.deadlines) >= before + 20
        for reader in gone:
            reader.close()
        assert len(living.node.deadlines) < before + 10
        living.sim.advance(MAX_WAIT_MS / 1000)
        assert [answer.error_code for answer in stays.answers] == [0]


def test_followers_that_nobody_has_registered_leave_no_doubt_behind() -> None:
    """A lost session of a follower is a hint that its broker died. Ids that a client invents would be kept for ever."""
    with begun() as living:
        topic = FetchTopic(topic_id=partition(living).topic_id, partitions=[FetchPartition(partition=0)])
        for follower in (1, 77, 78):
            reader = Reader(living)
            state = ReplicaState(replica_id=follower, replica_epoch=5)
            reader.ask(FetchRequest(max_wait_ms=1, session_epoch=0, replica_state=state, topics=[topic]), version=17)
            assert len(reader.answers) == 1
            reader.close()
        assert living.node.broker is not None
        assert list(living.node.broker.doubts._hinted) == [1]


def test_a_half_closed_client_gets_what_is_on_disk_and_waits_no_longer() -> None:
    living = begun()
    produce(living, b"some")
    living.sim.knobs = NOTHING_IS_CACHED
    with living.reborn().start() as living:
        reader = Reader(living)
        reader.ask(wanted(), wanted(offset=1), after=reader.end)
        living.sim.run(living.sim.until(lambda: len(reader.answers) == 2, limit=2.0))
        assert [values(answer) for answer in reader.answers] == [[b"some"], []]


def test_a_partition_that_leaves_its_session_while_its_position_is_looked_up_is_not_answered_any_more() -> None:
    """Otherwise each such look-up leaves one more row for the partition in every later answer, at an old position. A
    follower whose leader has deleted that position would begin anew without end."""
    living = begun()
    for number in range(5):
        produce(living, b"%d" % number)
    living.sim.knobs = NOTHING_IS_CACHED
    with living.reborn().start() as living:
        reader = Reader(living)
        reader.ask(wanted(offset=5, max_wait_ms=1, session_epoch=0))
        [first] = reader.answers
        session = {"session_id": first.session_id, "max_wait_ms": 1}
        asked = wanted(offset=3, session_epoch=1, session_id=first.session_id)
        left = wanted(**session, session_epoch=2, topics=[])
        left.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[0])]
        reader.ask(asked, left)
        reader.ask(wanted(**session, session_epoch=3, topics=[]))
        assert [answer.error_code for answer in reader.answers] == [Code.NONE] * 4
        assert reader.answers[3].responses == []
