from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from highwater.client import (
    Admin,
    Client,
    NewTopic,
    Producer,
    Unreachable,
    describe_topics,
    list_offsets,
)
from highwater.client import client as client_module
from highwater.client.client import parse_bootstrap_servers
from highwater.client.offsets import EARLIEST, LATEST, FoundOffset
from highwater.client.producer import murmur2, partition_for_key
from highwater.errors import Code, KafkaError
from highwater.model import Endpoint, NodeId, TopicPartition
from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.api_versions_response import ApiVersionsResponse
from highwater.wire.messages.create_topics_request import CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from highwater.wire.messages.delete_topics_request import DeleteTopicsRequest
from highwater.wire.messages.delete_topics_response import DeleteTopicsResponse
from highwater.wire.messages.init_producer_id_request import InitProducerIdRequest
from highwater.wire.messages.init_producer_id_response import InitProducerIdResponse
from highwater.wire.messages.list_offsets_request import ListOffsetsRequest
from highwater.wire.messages.list_offsets_response import (
    ListOffsetsResponse,
)
from highwater.wire.messages.metadata_request import MetadataRequest
from highwater.wire.messages.produce_request import ProduceRequest
from highwater.wire.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from highwater.wire.records import read_header
from tests.unit.client.fake_broker import FakeBroker, nobody
from tests.unit.client.two_brokers import PARTITION, TOPIC_ID, Cluster, offsets_answer


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with FakeBroker() as one, FakeBroker() as two:
        yield Cluster(one, two)


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(str(cluster.brokers[1].endpoint), timeout=60, request_timeout=30) as client:
        yield client


@pytest.mark.parametrize(
    ("text", "endpoints"),
    [
        ("a:1", [Endpoint("a", 1)]),
        ("a:1, b:2", [Endpoint("a", 1), Endpoint("b", 2)]),
        ("[::1]:9092", [Endpoint("::1", 9092)]),
        (["a:1", "b:2"], [Endpoint("a", 1), Endpoint("b", 2)]),
        ("PLAINTEXT://a:1,http://[::1]:2", [Endpoint("a", 1), Endpoint("::1", 2)]),
    ],
)
def test_bootstrap_servers_are_read(text: str, endpoints: list[Endpoint]) -> None:
    assert parse_bootstrap_servers(text) == endpoints


@pytest.mark.parametrize("text", ["", "a", "a:", ":1", "a:x", "a:70000", "http://a", "x/a:1"])
def test_bad_bootstrap_servers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="bootstrap"):
        parse_bootstrap_servers(text)


def test_a_cluster_never_reached_fails_at_once() -> None:
    began = time.monotonic()
    with nobody() as gone, Client(str(gone), timeout=60) as client:
        with pytest.raises(Unreachable, match="Connection refused"):
            client.refresh([])
        assert time.monotonic() - began < client.timeout / 2


def test_another_bootstrap_server_serves_as_well(cluster: Cluster) -> None:
    with nobody() as gone, Client(f"{gone},{cluster.brokers[2].endpoint}") as client:
        client.refresh([])
        assert sorted(client.view.brokers) == [1, 2]


def test_a_server_that_accepts_and_says_nothing_does_not_keep_the_others_waiting(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    much = 60.0
    monkeypatch.setattr(client_module, "DIAL_TIMEOUT", much)
    asked = threading.Event()
    silent, other = cluster.brokers.values()

    def before_the_other(request: ApiVersionsRequest, version: int) -> ApiVersionsResponse | None:
        return silent.versions() if asked.wait(2 * much) else None

    def at_the_other(request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        asked.set()
        return other.versions()

    silent.answer(ApiVersionsRequest, before_the_other)
    other.answer(ApiVersionsRequest, at_the_other)
    began = time.monotonic()
    with Client(f"{silent.endpoint},{other.endpoint}", request_timeout=much) as client:
        client.refresh([])
        assert sorted(client.view.brokers) == [1, 2]
    assert time.monotonic() - began < much


def test_a_server_that_accepts_and_says_nothing_is_reported(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stopped:
        mute = f"127.0.0.1:{stopped.getsockname()[1]}"
        with Client(mute, timeout=0.5, request_timeout=0.2) as client, pytest.raises(Unreachable, match="no answer"):
            client.refresh([])


def test_a_question_follows_the_leader(cluster: Cluster, client: Client) -> None:
    def at_one(request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        cluster.leader = 2
        return offsets_answer(Code.NOT_LEADER_OR_FOLLOWER)

    cluster.brokers[1].answer(ListOffsetsRequest, at_one)
    cluster.brokers[2].answer(ListOffsetsRequest, lambda request, version: offsets_answer(0, 42))

    assert list_offsets(client, {PARTITION: LATEST}) == {PARTITION: FoundOffset(42, -1, -1)}


def test_a_leader_that_hangs_up_is_looked_for_again(cluster: Cluster, client: Client) -> None:
    def at_one(request: ListOffsetsRequest, version: int) -> None:
        cluster.leader = 2

    cluster.brokers[1].answer(ListOffsetsRequest, at_one)
    cluster.brokers[2].answer(ListOffsetsRequest, lambda request, version: offsets_answer(0, 7))

    found = list_offsets(client, {PARTITION: EARLIEST})[PARTITION]
    assert isinstance(found, FoundOffset)
    assert found.offset == 7


def test_an_error_that_stays_is_the_answer_when_time_is_up(cluster: Cluster, client: Client) -> None:
    client.timeout = 0.2
    cluster.brokers[1].answer(ListOffsetsRequest, lambda request, version: offsets_answer(Code.OFFSET_NOT_AVAILABLE))

    found = list_offsets(client, {PARTITION: LATEST, TopicPartition("t", 9): LATEST})
    assert {partition.partition: error.code for partition, error in found.items() if isinstance(error, KafkaError)} == {
        0: Code.OFFSET_NOT_AVAILABLE,
        9: Code.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_a_command_is_repeated_until_the_controller_is_found(cluster: Cluster, client: Client) -> None:
    codes = iter([Code.NOT_CONTROLLER, Code.NONE])
    cluster.brokers[1].answer(
        CreateTopicsRequest,
        lambda request, version: CreateTopicsResponse(topics=[CreatableTopicResult(name="n", error_code=next(codes))]),
    )
    Admin(client).create_topics([NewTopic("n")])
    assert len(cluster.brokers[1].requests(CreateTopicsRequest)) == 2


def test_a_change_that_the_controller_cannot_write_is_not_repeated(cluster: Cluster, client: Client) -> None:
    full = CreatableTopicResult(name="n", error_code=Code.KAFKA_STORAGE_ERROR, error_message="no room")
    cluster.brokers[1].answer(CreateTopicsRequest, lambda request, version: CreateTopicsResponse(topics=[full]))
    with pytest.raises(KafkaError, match="no room"):
        Admin(client).create_topics([NewTopic("n")])
    assert len(cluster.brokers[1].requests(CreateTopicsRequest)) == 1


def test_a_refusal_is_raised_with_the_server_s_own_words(cluster: Cluster, client: Client) -> None:
    refusal = CreatableTopicResult(
        name="n", error_code=Code.TOPIC_ALREADY_EXISTS, error_message="Topic 'n' already exists."
    )
    cluster.brokers[1].answer(CreateTopicsRequest, lambda request, version: CreateTopicsResponse(topics=[refusal]))

    with pytest.raises(KafkaError, match="Topic 'n' already exists.") as raised:
        Admin(client).create_topics([NewTopic("n")])
    assert raised.value.code == Code.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("newest", [5, 6])
def test_topics_to_delete_are_named_as_the_version_wants_it(cluster: Cluster, client: Client, newest: int) -> None:
    broker = cluster.brokers[1]
    broker.answer(DeleteTopicsRequest, lambda request, version: DeleteTopicsResponse())
    broker.ranges[DeleteTopicsRequest.API_KEY] = (1, newest)
    Admin(client).delete_topics(["a", "b"])

    (request,) = broker.requests(DeleteTopicsRequest)
    assert (request.topic_names or [topic.name for topic in request.topics]) == ["a", "b"]


def test_topics_are_described_by_metadata_where_nothing_better_is_offered(cluster: Cluster, client: Client) -> None:
    (topic,) = describe_topics(client, ["t"])

    assert (topic.name, topic.topic_id) == ("t", TOPIC_ID)
    assert [(p.leader_id, p.replica_nodes, p.eligible_leader_replicas) for p in topic.partitions] == [(1, [1, 2], None)]


def produced(code: int = 0, offset: int = 0) -> ProduceResponse:
    partition = PartitionProduceResponse(index=0, error_code=code, base_offset=offset)
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])


def test_an_idempotent_batch_is_retried_with_its_own_sequence(cluster: Cluster, client: Client) -> None:
    answers = iter([None, produced(Code.NOT_LEADER_OR_FOLLOWER), produced(0, 5), produced(0, 7)])
    broker = cluster.brokers[1]
    broker.answer(
        InitProducerIdRequest, lambda request, version: InitProducerIdResponse(producer_id=9, producer_epoch=3)
    )
    broker.answer(ProduceRequest, lambda request, version: named(request, next(answers)))
    producer = Producer(client)

    assert producer.send(PARTITION, [(1, b"k", b"v", ()), (2, b"k", b"v", ())]) == 5
    assert producer.send(PARTITION, [(3, b"k", b"v", ())]) == 7
    headers = [
        read_header(request.topic_data[0].partition_data[0].records) for request in broker.requests(ProduceRequest)
    ]
    assert [header.base_sequence for header in headers] == [0, 0, 0, 2]
    assert {(header.producer_id, header.producer_epoch) for header in headers} == {(9, 3)}


def named(request: ProduceRequest, response: ProduceResponse | None) -> ProduceResponse | None:
    if response is not None and request.topic_data[0].topic_id == TOPIC_ID:
        response.responses[0].name, response.responses[0].topic_id = "", TOPIC_ID
    return response


def test_after_a_failure_the_producer_takes_a_new_identity(cluster: Cluster, client: Client) -> None:
    """The failed batch may be stored: its sequence must not be given to another."""
    identities = iter([9, 10])
    broker = cluster.brokers[1]
    broker.answer(InitProducerIdRequest, lambda request, version: InitProducerIdResponse(producer_id=next(identities)))
    broker.answer(ProduceRequest, lambda request, version: named(request, produced(Code.MESSAGE_TOO_LARGE)))
    producer = Producer(client)
    with pytest.raises(KafkaError) as raised:
        producer.send(PARTITION, [(1, None, b"v", ())])
    assert raised.value.code == Code.MESSAGE_TOO_LARGE

    broker.answer(ProduceRequest, lambda request, version: named(request, produced()))
    producer.send(PARTITION, [(1, None, b"v", ())])
    last = broker.requests(ProduceRequest)[-1]
    assert read_header(last.topic_data[0].partition_data[0].records).producer_id == 10


def test_without_topic_ids_names_are_used(cluster: Cluster, client: Client) -> None:
    broker = cluster.brokers[1]
    broker.ranges[MetadataRequest.API_KEY] = (0, 9)
    broker.answer(ProduceRequest, lambda request, version: produced(0, 1))
    assert Producer(client, idempotent=False).send(PARTITION, [(1, None, b"v", ())]) == 1
    ((request, version),) = [(r, v) for r, v in broker.seen if isinstance(r, ProduceRequest)]
    assert (version, request.topic_data[0].name) == (12, "t")


@pytest.mark.parametrize(("acks", "idempotent"), [(2, False), (1, True), (0, True)])
def test_producers_that_cannot_keep_their_promise_are_refused(client: Client, acks: int, idempotent: bool) -> None:
    with pytest.raises(ValueError, match="acks"):
        Producer(client, acks=acks, idempotent=idempotent)


def test_a_broker_that_is_unknown_is_asked_for_once(cluster: Cluster, client: Client) -> None:
    with pytest.raises(KafkaError) as raised:
        client.broker_connection(NodeId(77))
    assert raised.value.code == Code.BROKER_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_are_hashed_as_java_hashes_them(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF
    assert partition_for_key(key, 7) == (hashed & 0x7FFFFFFF) % 7
