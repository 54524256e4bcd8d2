"""Many batches on their way at once: what a leader answers to one of them decides what becomes of those behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from highwater.client.batch_sender import BatchSender
from highwater.client.client import Client
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition, Uuid
from highwater.wire.messages.init_producer_id_request import InitProducerIdRequest
from highwater.wire.messages.init_producer_id_response import InitProducerIdResponse
from highwater.wire.messages.metadata_request import MetadataRequest
from highwater.wire.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from highwater.wire.messages.produce_request import ProduceRequest
from highwater.wire.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from highwater.wire.records import read_header
from tests.unit.client.fake_broker import FakeBroker

TOPIC_ID = Uuid(bytes(range(16)))
PARTITION = TopicPartition("t", 0)


class Leader:
    """Leads the only partition of topic t, and answers batches as `judge` says of their base sequence."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.judge: Callable[[int], Code] = lambda sequence: Code.NONE
        self.sequences: list[int] = []
        broker.answer(MetadataRequest, self.metadata)
        broker.answer(InitProducerIdRequest, lambda *_: InitProducerIdResponse(producer_id=7, producer_epoch=0))
        broker.answer(ProduceRequest, self.produced)

    def metadata(self, request: Any, version: int) -> MetadataResponse:
        partition = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1])
        topic = MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=[partition])
        endpoint = self.broker.endpoint
        node = MetadataResponseBroker(node_id=1, host=endpoint.host, port=endpoint.port)
        return MetadataResponse(brokers=[node], topics=[topic])

    def produced(self, request: ProduceRequest, version: int) -> ProduceResponse:
        [topic] = request.topic_data
        [partition] = topic.partition_data
        assert partition.records is not None
        sequence = read_header(partition.records).base_sequence
        self.sequences.append(sequence)
        answer = PartitionProduceResponse(index=0, error_code=self.judge(sequence), base_offset=sequence)
        return ProduceResponse(responses=[TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=[answer])])


@pytest.fixture
def leader() -> Iterator[Leader]:
    with FakeBroker() as broker:
        yield Leader(broker)


@pytest.fixture
def client(leader: Leader) -> Iterator[Client]:
    with Client(str(leader.broker.endpoint), timeout=5, request_timeout=5) as client:
        yield client


def send(client: Client, batches: int, **settings: Any) -> None:
    """One record in each batch, so that a batch's sequence is its number."""
    with BatchSender(client, **settings) as sender:
        for number in range(batches):
            sender.add(PARTITION, [(0, None, b"%d" % number, ())])
        sender.flush()


def test_batches_go_in_order_with_consecutive_sequences(client: Client, leader: Leader) -> None:
    send(client, 20)
    assert leader.sequences == list(range(20))


def test_a_batch_that_failed_goes_again_with_all_that_were_behind_it(client: Client, leader: Leader) -> None:
    failed: list[int] = []

    def judge(sequence: int) -> Code:
        """As a leader does that lost its place for a moment: what follows a gap is out of order."""
        if sequence == 3 and not failed:
            failed.append(sequence)
            return Code.NOT_LEADER_OR_FOLLOWER
        behind = failed and leader.sequences.count(3) < 2 and sequence > 3
        return Code.OUT_OF_ORDER_SEQUENCE_NUMBER if behind else Code.NONE

    leader.judge = judge
    send(client, 10)
    again = leader.sequences.index(3, leader.sequences.index(3) + 1)
    assert leader.sequences[again:] == list(range(3, 10))


def test_a_batch_that_the_leader_has_already_is_stored(client: Client, leader: Leader) -> None:
    leader.judge = lambda sequence: Code.DUPLICATE_SEQUENCE_NUMBER if sequence == 1 else Code.NONE
    send(client, 3)
    assert leader.sequences == [0, 1, 2]


@pytest.mark.parametrize("code", [Code.MESSAGE_TOO_LARGE, Code.OUT_OF_ORDER_SEQUENCE_NUMBER])
def test_what_no_retry_can_mend_is_raised_and_ends_the_sender(client: Client, leader: Leader, code: Code) -> None:
    leader.judge = lambda sequence: code
    with BatchSender(client) as sender:
        with pytest.raises(KafkaError, match="t-0: ") as refused:
            sender.add(PARTITION, [(0, None, b"x", ())])
            sender.flush()
        assert refused.value.code == code
        with pytest.raises(ValueError, match="the sender has failed before"):
            sender.add(PARTITION, [(0, None, b"y", ())])


def test_what_fails_until_the_delivery_timeout_is_raised(client: Client, leader: Leader) -> None:
    leader.judge = lambda sequence: Code.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError) as refused:
        send(client, 1, delivery_timeout=0.5)
    assert refused.value.code == Code.NOT_ENOUGH_REPLICAS
    assert len(leader.sequences) > 1


def test_without_sequences_one_batch_waits_for_the_other(client: Client, leader: Leader) -> None:
    send(client, 3, idempotent=False, acks=1)
    assert leader.sequences == [-1, -1, -1]
    assert not leader.broker.requests(InitProducerIdRequest)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"acks": 0}, "acks is 0: it must be all"),
        ({"acks": 1}, "acks must be all for the idempotent producer"),
        ({"max_in_flight": 6}, "max_in_flight is 6: it must be 1 to 5"),
    ],
)
def test_settings_under_which_batches_could_be_lost_or_change_places_are_refused(
    client: Client, settings: dict[str, int], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        BatchSender(client, **settings)  # type: ignore[arg-type]
