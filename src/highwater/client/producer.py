"""A synchronous producer: it sends one batch to one partition and waits for the response. An idempotent one may
retry."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from highwater.client.answers import check
from highwater.client.client import Client
from highwater.client.failures import ClientFailure, Disconnected, RequestTimeout
from highwater.errors import Code, KafkaError
from highwater.model import ZERO_UUID, TopicPartition
from highwater.wire.compression import Codec
from highwater.wire.messages.init_producer_id_request import InitProducerIdRequest
from highwater.wire.messages.init_producer_id_response import InitProducerIdResponse
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import PartitionProduceResponse, ProduceResponse
from highwater.wire.records import NewRecord, build

ACKS_ALL = -1
NO_OFFSET = -1

_FIRST_VERSION_WITH_TOPIC_IDS = 13
_SEQUENCES = 2**31


@dataclass(frozen=True, slots=True)
class Identity:
    """A producer id and its epoch. Getting them takes one request to a broker."""

    producer_id: int
    epoch: int


class Producer:
    """Sends batches and waits for their acknowledgements. It retries when leaders change, until the client's timeout is
    over. If it is not idempotent, a retry after a lost response can store a batch twice."""

    def __init__(
        self,
        client: Client,
        *,
        acks: int = ACKS_ALL,
        codec: Codec = Codec.NONE,
        idempotent: bool = True,
        create_topics: bool = False,
    ) -> None:
        if acks not in (-1, 0, 1):
            raise ValueError(f"Invalid value {acks} for configuration acks: it must be -1, 0 or 1")
        if idempotent and acks != ACKS_ALL:
            raise ValueError("Must set acks to all in order to use the idempotent producer.")
        self.client = client
        self.acks = acks
        self.codec = codec
        self.idempotent = idempotent
        self.create_topics = create_topics
        self._identity: Identity | None = None
        self._sequences: dict[TopicPartition, int] = {}

    def send(self, partition: TopicPartition, records: Sequence[NewRecord]) -> int:
        """Stores (timestamp, key, value, headers) tuples as one batch. Returns its base offset; -1 with acks=0."""
        batch = self._sealed(partition, records)
        try:
            base_offset = self.client.retrying(lambda: self._asked(partition, batch), await_topic=True)
        except (KafkaError, ClientFailure):
            # Whether the batch was stored is unknown, so its sequence may not be used for another one.
            self._identity = None
            self._sequences.clear()
            raise
        if self.idempotent:
            sequence = self._sequences.get(partition, 0) + len(records)
            self._sequences[partition] = sequence % _SEQUENCES
        return base_offset

    def _sealed(self, partition: TopicPartition, records: Sequence[NewRecord]) -> bytearray:
        if not self.idempotent:
            return build(records, codec=self.codec)
        if self._identity is None:
            self._identity = self.client.retrying(lambda: new_identity(self.client))
        return build(
            records,
            codec=self.codec,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=self._sequences.get(partition, 0),
        )

    def _asked(self, partition: TopicPartition, batch: bytearray) -> int:
        """The leader may have changed: the next attempt looks for it again."""
        try:
            return self._attempt(partition, batch)
        except (Disconnected, RequestTimeout):
            self.client.forget(partition.topic)
            raise

    def _attempt(self, partition: TopicPartition, batch: bytearray) -> int:
        topic = self.client.topic(partition.topic, create=self.create_topics)
        leader = self.client.leader(partition)
        connection = self.client.broker_connection(leader)
        named = topic.id == ZERO_UUID
        version = connection.version(ProduceRequest, _FIRST_VERSION_WITH_TOPIC_IDS - 1 if named else None)
        by_id = version >= _FIRST_VERSION_WITH_TOPIC_IDS
        request = ProduceRequest(
            acks=self.acks,
            timeout_ms=int(self.client.request_timeout * 1000),
            topic_data=[
                TopicProduceData(
                    name="" if by_id else partition.topic,
                    topic_id=topic.id if by_id else ZERO_UUID,
                    partition_data=[PartitionProduceData(index=partition.partition, records=memoryview(batch))],
                )
            ],
        )
        if self.acks == 0:
            connection.send(request, version, answered=False)
            return NO_OFFSET
        response = connection.receive(connection.send(request, version), ProduceResponse)
        return self._settled(partition, response)

    def _settled(self, partition: TopicPartition, response: ProduceResponse) -> int:
        for topic in response.responses:
            for answer in topic.partition_responses:
                if answer.index == partition.partition:
                    return self._offset(partition, answer)
        raise KafkaError(Code.UNKNOWN_SERVER_ERROR, f"the answer does not mention {partition}")

    def _offset(self, partition: TopicPartition, answer: PartitionProduceResponse) -> int:
        if answer.error_code == Code.DUPLICATE_SEQUENCE_NUMBER:
            # An earlier attempt stored it, so long ago that the broker no longer knows where.
            return NO_OFFSET
        if answer.error_code != Code.NONE:
            self.client.forget(partition.topic)
        check(answer.error_code, answer.error_message)
        return answer.base_offset


def new_identity(client: Client) -> Identity:
    """A unique producer id, for a producer without transactions."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
    response = client.ask(request, InitProducerIdResponse)
    check(response.error_code)
    return Identity(response.producer_id, response.producer_epoch)


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of a key by Kafka's default partitioner: murmur2, without the sign bit, modulo the count."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 with Kafka's seed, as an unsigned number."""
    mixer, mask = 0x5BD1E995, 0xFFFFFFFF
    whole = len(data) & ~3
    value = 0x9747B28C ^ len(data)
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        word = word * mixer & mask
        word = (word ^ word >> 24) * mixer & mask
        value = value * mixer & mask ^ word
    if rest := data[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * mixer & mask
    value = (value ^ value >> 13) * mixer & mask
    return value ^ value >> 15
