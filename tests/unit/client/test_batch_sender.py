"""Many batches on their way at once: what a leader answers to one of them decides what becomes of those behind it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from highwater.client.batch_sender import BatchSender
from highwater.client.client import FIRST_BACKOFF, Client
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition, Uuid
from highwater.wire.compression import Codec
from highwater.wire.messages.describe_configs_request import DescribeConfigsRequest
from highwater.wire.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
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
from highwater.wire.records import iterate, read_header
from tests.unit.client.fake_broker import FakeBroker

TOPIC_ID = Uuid(bytes(range(16)))
PARTITION = TopicPartition("t", 0)


class Leader:
    """Leads the only partition of topic t, and answers batches as `judge` says of their base sequence."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.endpoint = broker.endpoint
        """Where clients are sent to."""
        self.judge: Callable[[int], Code] = lambda sequence: Code.NONE
        self.max_bytes: int | None = None
        """Where it is set, the leader also stores nothing behind a gap in the sequences."""
        self.values: list[bytes | None] = []
        self.taken: list[int] = []
        """The sequences of the batches that were stored."""
        self.sequences: list[int] = []
        broker.answer(MetadataRequest, self.metadata)
        broker.answer(InitProducerIdRequest, lambda *_: InitProducerIdResponse(producer_id=7, producer_epoch=0))
        broker.answer(ProduceRequest, self.produced)

    @property
    def node(self) -> int:
        return 1 if self.endpoint == self.broker.endpoint else 2

    def metadata(self, request: Any, version: int) -> MetadataResponse:
        partition = MetadataResponsePartition(partition_index=0, leader_id=self.node, replica_nodes=[self.node])
        topic = MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=[partition])
        node = MetadataResponseBroker(node_id=self.node, host=self.endpoint.host, port=self.endpoint.port)
        return MetadataResponse(brokers=[node], topics=[topic])

    def produced(self, request: ProduceRequest, version: int) -> ProduceResponse:
        [topic] = request.topic_data
        [partition] = topic.partition_data
        assert partition.records is not None
        sequence = read_header(partition.records).base_sequence
        self.sequences.append(sequence)
        code = self.judge(sequence)
        if self.max_bytes is not None and len(partition.records) > self.max_bytes:
            code = Code.MESSAGE_TOO_LARGE
        elif self.max_bytes is not None and sequence not in (-1, len(self.values)):
            code = Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        if code is Code.NONE:
            self.taken.append(sequence)
            self.values += [record.value for record in iterate(partition.records)]
        answer = PartitionProduceResponse(index=0, error_code=code, base_offset=sequence)
        return ProduceResponse(responses=[TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=[answer])])


@pytest.fixture
def leader() -> Iterator[Leader]:
    with FakeBroker() as broker:
        yield Leader(broker)


@pytest.fixture
def client(leader: Leader) -> Iterator[Client]:
    with Client(str(leader.broker.endpoint), timeout=60, request_timeout=30) as client:
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


def test_answers_are_taken_as_they_come_and_each_stored_batch_is_reported(client: Client, leader: Leader) -> None:
    refused = []

    def judge(sequence: int) -> Code:
        if sequence == 0 and not refused:
            refused.append(sequence)
            return Code.NOT_LEADER_OR_FOLLOWER
        return Code.NONE

    leader.judge = judge
    stored: list[tuple[TopicPartition, int]] = []
    with BatchSender(client, on_stored=lambda *one: stored.append(one)) as sender:
        for count in (1, 2, 3):
            sender.add(PARTITION, [(0, None, b"x", ())] * count)
        begun = time.monotonic()
        while len(stored) < 3 and time.monotonic() - begun < 60:
            sender.settle(1.0)
    assert stored == [(PARTITION, 1), (PARTITION, 2), (PARTITION, 3)]


def test_a_refusal_is_reported_with_how_long_nothing_was_stored(client: Client, leader: Leader) -> None:
    heard: list[tuple[str, float]] = []
    client.on_delay = lambda failure, seconds: heard.append((str(failure), seconds))

    def judge(sequence: int) -> Code:
        return Code.NOT_ENOUGH_REPLICAS if sequence and leader.sequences.count(sequence) < 4 else Code.NONE

    leader.judge = judge
    with BatchSender(client) as sender:
        sender.add(PARTITION, [(0, None, b"0", ())])
        sender.flush()
        assert not heard
        begun = time.monotonic()
        sender.add(PARTITION, [(0, None, b"1", ())])
        sender.flush()
        lasted = time.monotonic() - begun
    assert [message.partition(": ")[0] for message, _ in heard] == ["t-0"] * 3
    waits = [seconds for _, seconds in heard]
    assert waits == sorted(waits) and waits[0] >= 0.0 and waits[-1] <= lasted, "the time before the batch counts"
    assert waits[-1] >= FIRST_BACKOFF + 2 * FIRST_BACKOFF, "only the time since the last attempt counts"


def test_a_batch_that_the_leader_has_already_is_stored(client: Client, leader: Leader) -> None:
    leader.judge = lambda sequence: Code.DUPLICATE_SEQUENCE_NUMBER if sequence == 1 else Code.NONE
    send(client, 3)
    assert leader.sequences == [0, 1, 2]


@pytest.mark.parametrize("code", [Code.MESSAGE_TOO_LARGE, Code.OUT_OF_ORDER_SEQUENCE_NUMBER])
def test_an_error_that_is_not_retriable_is_raised_and_ends_the_sender(
    client: Client, leader: Leader, code: Code
) -> None:
    leader.judge = lambda sequence: code
    with BatchSender(client) as sender:
        with pytest.raises(KafkaError, match="t-0: ") as refused:
            sender.add(PARTITION, [(0, None, b"x", ())])
            sender.flush()
        assert refused.value.code == code
        with pytest.raises(ValueError, match="the sender has failed before"):
            sender.add(PARTITION, [(0, None, b"y", ())])


def test_an_error_that_lasts_until_the_delivery_timeout_is_raised(client: Client, leader: Leader) -> None:
    leader.judge = lambda sequence: Code.NOT_ENOUGH_REPLICAS
    # A short one can pass as a whole while the machine pauses.
    for seconds in (0.5, 2.0, 8.0, 32.0):
        leader.sequences.clear()
        with pytest.raises(KafkaError) as refused:
            send(client, 1, delivery_timeout=seconds)
        assert refused.value.code == Code.NOT_ENOUGH_REPLICAS
        if len(leader.sequences) > 1:
            return
    raise AssertionError("it is not tried again")


def test_a_partition_that_the_answer_does_not_mention_is_an_error(client: Client, leader: Leader) -> None:
    leader.broker.answer(ProduceRequest, lambda *_: ProduceResponse(responses=[]))
    with pytest.raises(KafkaError, match="the answer does not mention the partition") as refused:
        send(client, 1)
    assert refused.value.code == Code.UNKNOWN_SERVER_ERROR


def test_a_batch_goes_to_the_next_leader_when_its_leader_has_moved(client: Client, leader: Leader) -> None:
    with FakeBroker() as other:
        moved = Leader(other)

        def judge(sequence: int) -> Code:
            leader.endpoint = other.endpoint
            return Code.NOT_LEADER_OR_FOLLOWER

        leader.judge = judge
        send(client, 3)
        assert (leader.taken, moved.taken) == ([], [0, 1, 2])


def numbered(count: int, size: int = 100) -> list[tuple[int, None, bytes, tuple[()]]]:
    return [(0, None, b"%d" % number + bytes(size), ()) for number in range(count)]


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_batch_that_is_too_large_is_cut_until_it_fits(
    client: Client, leader: Leader, codec: Codec, idempotent: bool
) -> None:
    leader.max_bytes = 500 if codec is Codec.NONE else 120
    records = numbered(40)
    with BatchSender(client, codec=codec, idempotent=idempotent, acks=-1 if idempotent else 1) as sender:
        sender.add(PARTITION, records[:20])
        sender.add(PARTITION, records[20:])
        sender.flush()
    assert leader.values == [value for _, _, value, _ in records]
    assert leader.taken == (sorted(leader.taken) if idempotent else [-1] * len(leader.taken))
    assert len(leader.taken) > 2, "it was cut"


def test_a_batch_size_that_was_refused_once_is_not_tried_again(client: Client, leader: Leader) -> None:
    leader.max_bytes = 500
    with BatchSender(client) as sender:
        sender.add(PARTITION, numbered(4))
        sender.flush()
        refused = len(leader.sequences)
        assert leader.sequences == [0, 0, 2], "the whole, then its halves"
        sender.add(PARTITION, numbered(8))
        sender.flush()
    assert leader.sequences[refused:] == [4, 6, 8, 10]


def test_batches_behind_one_that_is_cut_go_again_after_its_parts(client: Client, leader: Leader) -> None:
    leader.max_bytes = 500
    with BatchSender(client) as sender:
        sender.add(PARTITION, numbered(1))
        sender.flush()
        sender.add(PARTITION, numbered(4))
        sender.add(PARTITION, numbered(1))
        sender.flush()
    assert leader.values == [value for _, _, value, _ in numbered(1) + numbered(4) + numbered(1)]


def test_no_batch_is_sent_after_the_first_before_the_first_is_stored(client: Client, leader: Leader) -> None:
    """A leader that knows nothing of a producer takes any sequence for its first."""
    leader.judge = lambda _: Code.NOT_ENOUGH_REPLICAS if leader.sequences == [0] else Code.NONE
    send(client, 3)
    assert leader.sequences == [0, 0, 1, 2]


def test_a_record_that_is_too_large_by_itself_is_named_with_its_size_and_the_limit(
    client: Client, leader: Leader
) -> None:
    leader.max_bytes = 300
    setting = DescribeConfigsResourceResult(name="max.message.bytes", value="300", config_source=1)
    result = DescribeConfigsResult(resource_type=2, resource_name="t", configs=[setting])
    leader.broker.answer(DescribeConfigsRequest, lambda *_: DescribeConfigsResponse(results=[result]))
    with BatchSender(client) as sender:
        sender.add(PARTITION, [*numbered(3), *numbered(1, 1000)])
        text = r"t-0: a record that takes 1\d\d\d bytes is larger than max.message.bytes of the topic, 300 bytes"
        with pytest.raises(KafkaError, match=text):
            sender.flush()
    assert leader.values[:1] == [numbered(1)[0][2]]


def test_a_record_that_no_request_has_room_for_is_refused_before_it_is_sent(client: Client, leader: Leader) -> None:
    with BatchSender(client, max_request_bytes=450) as sender:
        text = r"t-0: a record that takes 1\d\d\d bytes is larger than max.request.size of the producer, 450 bytes"
        with pytest.raises(KafkaError, match=text):
            sender.add(PARTITION, numbered(1, 1000))
        assert leader.sequences == []
        sender.add(PARTITION, numbered(6))
        sender.flush()
    assert leader.values == [value for _, _, value, _ in numbered(6)], "and the others go in requests that are allowed"
    assert leader.taken == [0, 3], "of which none was refused"


def test_a_record_that_is_too_large_may_be_stood_for_by_a_smaller_one(client: Client, leader: Leader) -> None:
    leader.max_bytes = 500
    with BatchSender(client, shrink=lambda record: None if record[2] == b"" else (0, None, b"", ())) as sender:
        sender.add(PARTITION, [*numbered(2), *numbered(1, 1000), *numbered(2)])
        sender.flush()
    small = [value for _, _, value, _ in numbered(2)]
    assert leader.values == [*small, b"", *small]


def test_a_sender_without_sequences_sends_one_batch_at_a_time(client: Client, leader: Leader) -> None:
    """Otherwise the batch behind one that failed would be stored before it."""
    leader.judge = lambda _: Code.NOT_ENOUGH_REPLICAS if len(leader.sequences) == 2 else Code.NONE
    send(client, 4, idempotent=False, acks=1)
    assert leader.values == [b"0", b"1", b"2", b"3"]
    assert leader.sequences == [-1] * 5
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
