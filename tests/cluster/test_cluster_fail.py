"""Calls that fail on purpose: which ones, how many, and what the client sees."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer as ConfluentProducer

from highwater import Cluster
from highwater.client import Admin, Client, Consumer, Disconnected, NewTopic, Producer, delete_records, list_offsets
from highwater.client.admin import ResourceType
from highwater.client.offsets import LATEST
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition

names = (f"topic-{number}" for number in itertools.count())


@pytest.fixture(scope="module", params=["threads", "processes"])
def running(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(brokers=2, controllers=1, processes=request.param == "processes") as cluster:
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    yield running
    running.restore()


@pytest.fixture
def partition(cluster: Cluster) -> TopicPartition:
    name = next(names)
    cluster.create_topic(name, assignment=[[1, 2]])
    return TopicPartition(name, 0)


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    """Gives up at the first retriable error."""
    with cluster.client() as client:
        client.refresh([])
        client.timeout = 0.0
        yield client


def outcomes(client: Client, partition: TopicPartition, count: int) -> list[Code]:
    """What each of so many Produce requests is answered with."""
    producer = Producer(client, idempotent=False)
    codes = []
    for _ in range(count):
        try:
            producer.send(partition, [(0, None, b"v", ())])
            codes.append(Code.NONE)
        except KafkaError as failed:
            codes.append(failed.code)
    return codes


def test_the_next_call_fails_once(cluster: Cluster, client: Client, partition: TopicPartition) -> None:
    failure = cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER").once()
    assert failure.fired == 0
    assert outcomes(client, partition, 3) == [Code.NOT_LEADER_OR_FOLLOWER, Code.NONE, Code.NONE]
    assert failure.fired == 1
    assert [each.offset for each in cluster.records(partition.topic)] == [0, 1], "the refused one was not appended"


def test_times_lets_that_many_calls_fail_and_no_more(
    cluster: Cluster, client: Client, partition: TopicPartition
) -> None:
    failure = cluster.fail("Produce", "INVALID_RECORD").times(2)
    assert outcomes(client, partition, 4) == [Code.INVALID_RECORD, Code.INVALID_RECORD, Code.NONE, Code.NONE]
    assert failure.fired == 2


def test_the_call_with_this_number_fails(cluster: Cluster, client: Client, partition: TopicPartition) -> None:
    failure = cluster.fail("Produce", "NOT_ENOUGH_REPLICAS").on_call(3)
    assert outcomes(client, partition, 2) == [Code.NONE, Code.NONE]
    assert (failure.calls, failure.fired) == (2, 0)
    assert outcomes(client, partition, 2) == [Code.NOT_ENOUGH_REPLICAS, Code.NONE]
    assert failure.fired == 1


def test_calls_fail_until_the_cluster_heals(cluster: Cluster, client: Client, partition: TopicPartition) -> None:
    failure = cluster.fail("Produce", "INVALID_RECORD").always()
    assert outcomes(client, partition, 3) == [Code.INVALID_RECORD] * 3
    cluster.heal()
    assert outcomes(client, partition, 1) == [Code.NONE]
    assert failure.fired == 3


def test_calls_are_counted_over_all_nodes_or_on_one(cluster: Cluster, client: Client) -> None:
    name = next(names)
    cluster.create_topic(name, assignment=[[1], [2]])
    anywhere = cluster.fail("Produce", "INVALID_RECORD").on_call(2)
    assert outcomes(client, TopicPartition(name, 0), 1) == [Code.NONE]
    assert outcomes(client, TopicPartition(name, 1), 1) == [Code.INVALID_RECORD]
    on_two = cluster.fail("Produce", "INVALID_RECORD", node=2).once()
    assert outcomes(client, TopicPartition(name, 0), 1) == [Code.NONE]
    assert outcomes(client, TopicPartition(name, 1), 1) == [Code.INVALID_RECORD]
    assert (anywhere.fired, on_two.fired) == (1, 1)


def test_a_failure_outlives_the_restart_of_its_node(cluster: Cluster) -> None:
    failure = cluster.fail("Produce", "INVALID_RECORD", node=2).once()
    cluster.kill(1, 2)
    cluster.start(1, 2)
    name = next(names)
    cluster.create_topic(name, assignment=[[1], [2]])
    with cluster.client() as client:
        assert outcomes(client, TopicPartition(name, 0), 1) == [Code.NONE]
        assert outcomes(client, TopicPartition(name, 1), 2) == [Code.INVALID_RECORD, Code.NONE]
    assert failure.fired == 1


def test_a_closed_connection_is_a_failure_too(cluster: Cluster, client: Client, partition: TopicPartition) -> None:
    failure = cluster.fail("Produce", "close_connection").once()
    producer = Producer(client, idempotent=False)
    with pytest.raises(Disconnected):
        producer.send(partition, [(0, None, b"v", ())])
    assert producer.send(partition, [(0, None, b"v", ())]) == 0
    assert failure.fired == 1


def test_followers_are_spared_when_fetches_fail(cluster: Cluster, client: Client, partition: TopicPartition) -> None:
    failure = cluster.fail("Fetch", "UNKNOWN_SERVER_ERROR").always()
    assert outcomes(client, partition, 2) == [Code.NONE, Code.NONE], "acknowledged by all replicas"
    assert failure.fired == 0
    consumer = Consumer(client)
    consumer.assign({partition: 0})
    with pytest.raises(KafkaError) as caught:
        consumer.poll()
    assert caught.value.code is Code.UNKNOWN_SERVER_ERROR
    assert failure.fired == 1


Call = Callable[[Client, TopicPartition], object]


def first_error(answers: dict[TopicPartition, object]) -> None:
    for answer in answers.values():
        if isinstance(answer, KafkaError):
            raise answer


CALLS: dict[str, Call] = {
    "ListOffsets": lambda client, partition: first_error(dict(list_offsets(client, {partition: LATEST}))),
    "Metadata": lambda client, partition: client.topic(next(names)),
    "InitProducerId": lambda client, partition: Producer(client).send(partition, [(0, None, b"v", ())]),
    "CreateTopics": lambda client, partition: Admin(client).create_topics([NewTopic(next(names), 1, 1)]),
    "CreatePartitions": lambda client, partition: Admin(client).create_partitions({partition.topic: 2}),
    "DeleteTopics": lambda client, partition: Admin(client).delete_topics([partition.topic]),
    "DeleteRecords": lambda client, partition: first_error(dict(delete_records(client, {partition: 0}))),
    "DescribeConfigs": lambda client, partition: Admin(client).describe_configs(ResourceType.TOPIC, [partition.topic]),
    "IncrementalAlterConfigs": lambda client, partition: Admin(client).alter_configs(
        ResourceType.TOPIC, partition.topic, put={"retention.ms": "1"}
    ),
    "DescribeCluster": lambda client, partition: Admin(client).describe_cluster(),
    "DescribeQuorum": lambda client, partition: Admin(client).describe_quorum(),
}


@pytest.mark.parametrize("api", CALLS)
def test_every_kind_of_answer_has_a_place_for_the_error(
    cluster: Cluster, client: Client, partition: TopicPartition, api: str
) -> None:
    client.leader(partition)
    failure = cluster.fail(api, "POLICY_VIOLATION").once()
    with pytest.raises(KafkaError) as caught:
        CALLS[api](client, partition)
    assert caught.value.code is Code.POLICY_VIOLATION
    assert failure.fired == 1


def test_apis_of_controllers_can_fail_too(cluster: Cluster) -> None:
    failure = cluster.fail("BrokerHeartbeat", "NOT_CONTROLLER").once()
    cluster.wait_until(lambda: failure.fired == 1)
    assert cluster.view().brokers == {1, 2}


def test_a_librdkafka_producer_retries_over_the_failures_and_doubles_nothing(
    cluster: Cluster, partition: TopicPartition
) -> None:
    failure = cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER").times(3)
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "retry.backoff.ms": 10}
    producer = ConfluentProducer(settings)
    for number in range(10):
        producer.produce(partition.topic, value=b"%d" % number, partition=0)
    assert producer.flush(120) == 0
    assert failure.fired == 3
    assert [each.value for each in cluster.records(partition.topic)] == [b"%d" % number for number in range(10)]


def test_a_failure_that_cannot_happen_is_refused_when_asked_for(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="no API 'Prodcue'"):
        cluster.fail("Prodcue", "INVALID_RECORD")
    with pytest.raises(ValueError, match="no error 'INVALID'"):
        cluster.fail("Produce", "INVALID")
    with pytest.raises(ValueError, match="answered by no node"):
        cluster.fail("DescribeDelegationToken", "INVALID_RECORD")
    with pytest.raises(ValueError, match="counted from 1"):
        cluster.fail("Produce", "INVALID_RECORD").on_call(0)
    with pytest.raises(ValueError, match="already set"):
        cluster.fail("Produce", "INVALID_RECORD").once().times(2)
