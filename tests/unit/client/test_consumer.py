"""Reading by assignment from brokers that move, forget sessions and refuse."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from highwater.client import Client, Consumer, Disconnected
from highwater.client.offsets import EARLIEST
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition
from highwater.wire.messages.fetch_request import FetchRequest
from highwater.wire.messages.fetch_response import FetchResponse, PartitionData
from highwater.wire.messages.list_offsets_request import ListOffsetsRequest
from tests.unit.client.fake_broker import FakeBroker
from tests.unit.client.two_brokers import PARTITION, Cluster, batch, fetched, offsets_answer


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with FakeBroker() as one, FakeBroker() as two:
        yield Cluster(one, two)


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(str(cluster.brokers[1].endpoint), timeout=60, request_timeout=30) as client:
        yield client


class Moments:
    """The clock of the consumer: no time passes unless the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        pass


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> Moments:
    moments = Moments()
    monkeypatch.setattr("highwater.client.consumer.time", moments)
    return moments


def sessions(broker: FakeBroker) -> list[tuple[int, int]]:
    """Session and epoch of each fetch."""
    return [(request.session_id, request.session_epoch) for request in broker.requests(FetchRequest)]


def test_a_session_carries_only_what_changed(cluster: Cluster, client: Client) -> None:
    data = iter([PartitionData(records=batch(0, 3)), None, PartitionData(records=batch(3, 1))])
    broker = cluster.brokers[1]
    broker.answer(FetchRequest, lambda request, version: fetched(next(data), session=5))
    consumer = Consumer(client)
    consumer.assign({PARTITION: 0})

    got = [record.offset for _ in range(3) for each in consumer.poll(0) for record in each]

    assert got == [0, 1, 2, 3]
    requests = broker.requests(FetchRequest)
    assert [(r.session_id, r.session_epoch) for r in requests] == [(0, 0), (5, 1), (5, 2)]
    assert [[p.fetch_offset for t in r.topics for p in t.partitions] for r in requests] == [[0], [3], []]


def test_a_session_that_the_broker_forgot_begins_anew(cluster: Cluster, client: Client) -> None:
    answers = iter(
        [(None, 5, 0), (None, 0, Code.FETCH_SESSION_ID_NOT_FOUND), (PartitionData(records=batch(0, 1)), 6, 0)]
    )

    def answer(request: FetchRequest, version: int) -> FetchResponse:
        data, session, code = next(answers)
        return fetched(data, session, code)

    cluster.brokers[1].answer(FetchRequest, answer)
    consumer = Consumer(client)
    consumer.assign({PARTITION: 0})

    assert [len(list(each)) for _ in range(3) for each in consumer.poll(0)] == [1]
    assert [r.session_epoch for r in cluster.brokers[1].requests(FetchRequest)] == [0, 1, 0]


def test_records_before_the_position_are_left_out(cluster: Cluster, client: Client) -> None:
    cluster.brokers[1].answer(FetchRequest, lambda request, version: fetched(PartitionData(records=batch(0, 5))))
    consumer = Consumer(client, sessions=False)
    consumer.assign({PARTITION: 3})

    (found,) = consumer.poll(0)
    assert [record.offset for record in found] == [3, 4]
    assert next(found.columns()).column("offset").to_pylist() == [3, 4]
    assert consumer.positions == {PARTITION: 5}


def test_a_reader_follows_the_leader(cluster: Cluster, client: Client) -> None:
    def at_one(request: FetchRequest, version: int) -> FetchResponse:
        cluster.leader = 2
        return fetched(PartitionData(error_code=Code.NOT_LEADER_OR_FOLLOWER))

    cluster.brokers[1].answer(FetchRequest, at_one)
    cluster.brokers[2].answer(FetchRequest, lambda request, version: fetched(PartitionData(records=batch(0, 2))))
    consumer = Consumer(client)
    consumer.assign({PARTITION: 0})

    assert consumer.poll(0) == []
    assert [len(list(each)) for each in consumer.poll(0)] == [2]


@pytest.mark.parametrize("reset", [None, EARLIEST])
def test_a_position_that_is_gone_is_an_error_or_reset(cluster: Cluster, client: Client, reset: int | None) -> None:
    broker = cluster.brokers[1]
    broker.answer(FetchRequest, lambda request, version: fetched(PartitionData(error_code=Code.OFFSET_OUT_OF_RANGE)))
    broker.answer(ListOffsetsRequest, lambda request, version: offsets_answer(0, 30))
    consumer = Consumer(client, reset=reset)
    consumer.assign({PARTITION: 3})

    if reset is None:
        with pytest.raises(KafkaError) as raised:
            consumer.poll(0)
        assert raised.value.code == Code.OFFSET_OUT_OF_RANGE
    else:
        assert consumer.poll(0) == []
        assert consumer.positions == {PARTITION: 30}


def test_trouble_that_does_not_pass_is_raised_after_the_client_s_timeout(cluster: Cluster, client: Client) -> None:
    client.timeout = 0.1
    cluster.brokers[1].answer(FetchRequest, lambda request, version: None)
    consumer = Consumer(client)
    consumer.assign({PARTITION: 0})

    with pytest.raises(Disconnected):
        for _ in range(100):
            consumer.poll(0.01)


def test_a_corrupt_batch_is_not_given_out(cluster: Cluster, client: Client) -> None:
    broken = bytearray(batch(0, 1))
    broken[-1] ^= 1
    cluster.brokers[1].answer(FetchRequest, lambda request, version: fetched(PartitionData(records=bytes(broken))))
    consumer = Consumer(client)
    consumer.assign({PARTITION: 0})

    (found,) = consumer.poll(0)
    with pytest.raises(KafkaError) as raised:
        list(found)
    assert raised.value.code == Code.CORRUPT_MESSAGE


def test_a_session_begins_anew_after_its_connection_was_lost(cluster: Cluster, client: Client) -> None:
    answers = iter([fetched(None, session=5), None, fetched(PartitionData(records=batch(0, 1)), session=6)])
    broker = cluster.brokers[1]
    broker.answer(FetchRequest, lambda request, version: next(answers))
    consumer = Consumer(client)
    consumer.assign({PARTITION: 0})

    assert [len(list(each)) for _ in range(3) for each in consumer.poll(0)] == [1]
    assert sessions(broker) == [(0, 0), (5, 1), (0, 0)]


def test_a_session_begins_anew_after_an_error_of_a_partition(cluster: Cluster, client: Client) -> None:
    """A new session answers for every partition, so the partition is known to be well again."""
    refused, good = PartitionData(error_code=Code.LEADER_NOT_AVAILABLE), PartitionData(records=batch(0, 1))
    answers = iter([fetched(refused, session=5), fetched(good, session=6)])
    broker = cluster.brokers[1]
    broker.answer(FetchRequest, lambda request, version: next(answers))
    consumer = Consumer(client)
    consumer.assign({PARTITION: 0})

    assert [len(list(each)) for _ in range(2) for each in consumer.poll(0)] == [1]
    assert sessions(broker) == [(0, 0), (0, 0)]


def test_a_batch_that_was_read_before_is_not_given_out_again(cluster: Cluster, client: Client) -> None:
    cluster.brokers[1].answer(FetchRequest, lambda request, version: fetched(PartitionData(records=batch(0, 3))))
    consumer = Consumer(client, sessions=False)
    consumer.assign({PARTITION: 3})

    assert consumer.poll(0) == []
    assert consumer.positions == {PARTITION: 3}


def test_records_of_a_partition_that_is_not_assigned_are_left_out(cluster: Cluster, client: Client) -> None:
    stranger = PartitionData(partition_index=1, records=batch(0, 3))
    cluster.brokers[1].answer(FetchRequest, lambda request, version: fetched(stranger))
    consumer = Consumer(client)
    consumer.assign({PARTITION: 0})

    assert consumer.poll(0) == []
    assert consumer.positions == {PARTITION: 0}


def test_trouble_is_counted_from_the_last_good_answer(cluster: Cluster, client: Client, moments: Moments) -> None:
    refused = PartitionData(error_code=Code.LEADER_NOT_AVAILABLE)
    answers = iter([refused, PartitionData(), refused, refused])
    cluster.brokers[1].answer(FetchRequest, lambda request, version: fetched(next(answers)))
    consumer = Consumer(client)
    consumer.assign({PARTITION: 0})

    for _ in range(3):
        assert consumer.poll(0) == []
        moments.now += client.timeout + 1
    with pytest.raises(KafkaError) as raised:
        consumer.poll(0)
    assert raised.value.code == Code.LEADER_NOT_AVAILABLE


def test_a_lost_leader_is_no_trouble_of_partitions_that_another_one_leads(
    cluster: Cluster, client: Client, moments: Moments
) -> None:
    other = TopicPartition("t", 1)
    cluster.other_leaders = {1: 2}
    cluster.brokers[1].answer(FetchRequest, lambda request, version: None)
    cluster.brokers[2].answer(FetchRequest, lambda request, version: fetched(None, session=7))
    consumer = Consumer(client)
    consumer.assign({PARTITION: 0, other: 0})
    assert consumer.poll(0) == []

    consumer.positions.pop(PARTITION)
    cluster.brokers[2].answer(FetchRequest, lambda request, version: None)
    moments.now += client.timeout + 1
    assert consumer.poll(0) == [], "it has failed for no time"
