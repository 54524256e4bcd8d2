"""Single requests to a running node, each answered as it is: no retry hides an error."""

from __future__ import annotations

from collections.abc import Sequence
from time import time_ns

from highwater.client import Admin, Client, NewTopic
from highwater.errors import Code, code_of
from highwater.model import TopicPartition
from highwater.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from highwater.wire.messages.fetch_response import FetchResponse
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import ProduceResponse
from highwater.wire.records import build, iterate_all
from tests.cluster.nodes import wait_until

_BY_NAME = 12
"""The last versions that name topics, not ids."""


def create(client: Client, topic: str, **configs: str) -> None:
    names = {name.replace("_", "."): value for name, value in configs.items()}
    Admin(client).create_topics([NewTopic(topic, partitions=1, configs=names)])
    wait_until(lambda: fetch(client, TopicPartition(topic, 0), max_wait_ms=0)[0] is Code.NONE)


def produce(
    client: Client, tp: TopicPartition, values: Sequence[bytes], *, timestamp: int | None = None, acks: int = -1
) -> tuple[Code, int]:
    """One batch, of this moment unless a time is given: the error and the base offset."""
    at = time_ns() // 1_000_000 if timestamp is None else timestamp
    batch = build([(at, None, value, ()) for value in values])
    data = TopicProduceData(
        name=tp.topic, partition_data=[PartitionProduceData(index=tp.partition, records=bytes(batch))]
    )
    request = ProduceRequest(transactional_id=None, acks=acks, timeout_ms=10_000, topic_data=[data])
    response = client.ask(request, ProduceResponse, cap=_BY_NAME)
    answer = response.responses[0].partition_responses[0]
    return code_of(answer.error_code), answer.base_offset


def fetch(client: Client, tp: TopicPartition, offset: int = 0, max_wait_ms: int = 500) -> tuple[Code, list[bytes]]:
    """One answer: the error and the values from `offset` on."""
    partition = FetchPartition(partition=tp.partition, fetch_offset=offset, partition_max_bytes=64 << 20)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=64 << 20,
        topics=[FetchTopic(topic=tp.topic, partitions=[partition])],
    )
    response = client.ask(request, FetchResponse, cap=_BY_NAME)
    answer = response.responses[0].partitions[0]
    found = iterate_all(answer.records or b"")
    return code_of(answer.error_code), [bytes(record.value or b"") for record in found if record.offset >= offset]
