"""A fetch of several partitions, one of which has to be looked up on disk first."""

from __future__ import annotations

from highwater.errors import Code
from highwater.sim.knobs import Knobs
from highwater.wire import records
from highwater.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from highwater.wire.messages.fetch_response import FetchResponse, PartitionData
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import ProduceResponse
from tests.unit.broker.living import Living
from tests.unit.broker.test_waiting_fetches import Reader

NOTHING_IS_CACHED = Knobs(cold_read=1.0, warm_tail=0)


def produce(living: Living, partition: int, value: bytes) -> None:
    batch = records.build([(living.world.clock.wall_ms(), None, value, ())])
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=partition, records=batch)])
    answer = living.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), ProduceResponse, 9)
    assert answer.responses[0].partition_responses[0].error_code == Code.NONE


def fetch(living: Living, *wanted: FetchPartition) -> dict[int, PartitionData]:
    topic = FetchTopic(topic="t", partitions=list(wanted))
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=[topic])
    answer = living.ask(request, FetchResponse, 12)
    return {row.partition_index: row for row in answer.responses[0].partitions}


def wanted(partition: int, offset: int, last_fetched_epoch: int = -1) -> FetchPartition:
    return FetchPartition(
        partition=partition, fetch_offset=offset, last_fetched_epoch=last_fetched_epoch, partition_max_bytes=1 << 20
    )


def with_cold_logs(living: Living) -> Living:
    living.start()
    living.create_topic("t", partitions=2)
    for value in (b"a", b"b", b"c"):
        produce(living, 0, value)
    produce(living, 1, b"a")
    living.sim.knobs = NOTHING_IS_CACHED
    return living.reborn().start()


def test_a_divergence_is_answered_though_another_partition_is_still_being_looked_up() -> None:
    """Otherwise a follower would wait for news of a partition that has sent everything."""
    with with_cold_logs(Living()) as living:
        rows = fetch(living, wanted(0, 1), wanted(1, 5, last_fetched_epoch=0))
        assert (rows[1].diverging_epoch.epoch, rows[1].diverging_epoch.end_offset) == (0, 1)


def test_a_fetch_waits_for_a_partition_that_is_looked_up_on_disk() -> None:
    with with_cold_logs(Living()) as living:
        rows = fetch(living, wanted(0, 1), wanted(1, 1))
        found = [record.value for record in records.iterate_all(memoryview(rows[0].records or b""))]
        assert [bytes(value or b"") for value in found] == [b"b", b"c"]


def in_session(session_id: int, epoch: int, *named: FetchPartition, forgotten: int | None = None) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic="t", partitions=list(named))] if named else [],
        forgotten_topics_data=[] if forgotten is None else [ForgottenTopic(topic="t", partitions=[forgotten])],
    )


def test_a_partition_that_is_forgotten_while_it_is_looked_up_does_not_come_back() -> None:
    """A consumer loses the partition in a rebalance, or a replica moves away, while its position is read from disk."""
    with with_cold_logs(Living()) as living:
        reader = Reader(living)
        reader.ask(in_session(0, 0, wanted(1, 1)))
        session = reader.answers[0].session_id
        reader.ask(in_session(session, 1, wanted(0, 1)), in_session(session, 2, forgotten=0))
        assert [answer.responses for answer in reader.answers[1:]] == [[], []]
        for epoch in (3, 4):
            reader.ask(in_session(session, epoch))
            assert not reader.answers[-1].responses, "it sends records of a partition that nobody asks for"


def test_a_partition_that_is_named_anew_while_it_is_looked_up_is_answered_once() -> None:
    """Two rows for one partition: the old position's records would be taken for those of the new one."""
    with with_cold_logs(Living()) as living:
        reader = Reader(living)
        reader.ask(in_session(0, 0, wanted(1, 1)))
        session = reader.answers[0].session_id
        reader.ask(
            in_session(session, 1, wanted(0, 1)),
            in_session(session, 2, forgotten=0),
            in_session(session, 3, wanted(0, 3)),
        )
        produce(living, 0, b"d")
        reader.ask(in_session(session, 4))
        rows = [row for topic in reader.answers[-1].responses for row in topic.partitions]
        found = [record.offset for row in rows for record in records.iterate_all(memoryview(row.records or b""))]
        assert found == [3]
