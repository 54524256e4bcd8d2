"""What one client can do to all others: small requests that cost much. Others are served meanwhile.

What counts is the processor time that the node takes between two answers to a bystander: the bystander asks again as
soon as it is answered, so that neither a slow machine nor a busy one changes much about it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from threading import Thread
from time import time_ns

import pytest

from highwater.wire.codec import Message
from highwater.wire.compression import Codec
from highwater.wire.messages.api_versions_request import ApiVersionsRequest
from highwater.wire.messages.api_versions_response import ApiVersionsResponse
from highwater.wire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from highwater.wire.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from highwater.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from highwater.wire.messages.find_coordinator_request import FindCoordinatorRequest
from highwater.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.wire.messages.metadata_response import MetadataResponse
from highwater.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.records import build
from tests.cluster.nodes import Node
from tests.cluster.peer import Peer, asked
from tests.cluster.test_memory_bounds import LIMIT, peak, processor_seconds

WIDE, NARROW, PACKED = "wide", "narrow", "packed"
NOW = time_ns() // 1_000_000
SECONDS_PER_ANSWER = 0.05
STARTED = 0.3
"""Processor seconds that any of them may take: less than a third of the least that the loop was held for before."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    made = Node.fresh(tmp_path_factory.mktemp("attacks"))
    try:
        made.start()
        with Peer(made.port) as peer:
            packing = {"compression.type": "zstd", "compression.zstd.level": "22"}
            topics = [
                CreatableTopic(name=WIDE, num_partitions=1_000, replication_factor=1),
                CreatableTopic(name=NARROW, num_partitions=10, replication_factor=1),
                CreatableTopic(
                    name=PACKED,
                    num_partitions=1,
                    replication_factor=1,
                    configs=[CreatableTopicConfig(name=name, value=value) for name, value in packing.items()],
                ),
            ]
            created = peer.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7, CreateTopicsResponse)
            assert [each.error_code for each in created.topics] == [0, 0, 0]
            everything = MetadataRequest(topics=[MetadataRequestTopic(name=WIDE), MetadataRequestTopic(name=NARROW)])
            while any(
                part.leader_id < 0
                for topic in peer.ask(everything, 9, MetadataResponse).topics
                for part in topic.partitions
            ):
                """Not all of them are led yet."""
        yield made
        assert "Traceback" not in made.output, made.output[-3000:]
        assert peak(made) < LIMIT
    finally:
        made.kill()


@cache
def bomb() -> bytes:
    return bytes(build([(NOW, None, bytes(60 << 20), ())], codec=Codec.ZSTD))


def produced(topic: str, *rows: tuple[int, bytes]) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records) for index, records in rows]
    return ProduceRequest(acks=1, timeout_ms=60_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


def fetched(partitions: int) -> FetchRequest:
    wanted = [FetchPartition(partition=index, partition_max_bytes=1) for index in range(partitions)]
    topics = [FetchTopic(topic=NARROW, partitions=wanted)]
    return FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1, topics=topics)


def described(partitions: Iterable[int]) -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=[TopicRequest(name=WIDE, partition_indexes=list(partitions))])


ATTACKS: dict[str, Callable[[], tuple[Message, int]]] = {
    "Metadata names one topic of many partitions again and again": lambda: (
        MetadataRequest(topics=[MetadataRequestTopic(name=WIDE)] * 400),
        1,
    ),
    "Produce names one partition again and again": lambda: (produced(NARROW, *[(0, bomb())] * 50), 9),
    "Produce brings batches that inflate": lambda: (produced(NARROW, *((index, bomb()) for index in range(8))), 9),
    "Produce brings a batch that is to be compressed anew": lambda: (
        produced(PACKED, (0, bytes(build([(NOW, None, os.urandom(900_000), ())])))),
        9,
    ),
    "DescribeConfigs names one broker again and again": lambda: (
        DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=4, resource_name="1")] * 200),
        4,
    ),
    "Fetch names very many partitions": lambda: (fetched(50_000), 4),
    "Fetch names more partitions than any request may": lambda: (fetched(250_000), 4),
    "DescribeProducers names as many partitions as it may": lambda: (described(range(19_900)), 0),
    "DescribeProducers names more partitions than it may": lambda: (described(range(1_500_000)), 0),
    "OffsetFetch names as many partitions as it may": lambda: (
        OffsetFetchRequest(
            group_id="many",
            topics=[OffsetFetchRequestTopic(name=WIDE, partition_indexes=list(range(19_900)))],
        ),
        1,
    ),
    "FindCoordinator has very long names": lambda: (
        FindCoordinatorRequest(key_type=0, coordinator_keys=[f"{index:032000d}" for index in range(60)]),
        4,
    ),
    "CreateTopics has few but very long settings": lambda: (
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="long",
                    num_partitions=1,
                    replication_factor=1,
                    configs=[CreatableTopicConfig(name="retention.ms", value="1" * 32_000)] * 3_000,
                )
            ],
            validate_only=True,
        ),
        7,
    ),
    "ListOffsets has batches inflated": lambda: (
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=NARROW,
                    partitions=[ListOffsetsPartition(partition_index=index, timestamp=NOW) for index in range(8)],
                )
            ],
        ),
        5,
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_other_clients_are_served_during_the_attack(node: Node, name: str) -> None:
    message, version = ATTACKS[name]()
    frame = asked(message, version)
    with Peer(node.port) as attacker, Peer(node.port) as bystander:
        bystander.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        before, answers = processor_seconds(node), 0

        def attack() -> None:
            attacker.send(frame)
            attacker.answer()

        attacking = Thread(target=attack)
        attacking.start()
        while attacking.is_alive():
            bystander.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
            answers += 1
        attacking.join()
        taken = processor_seconds(node) - before
    assert taken < STARTED + SECONDS_PER_ANSWER * answers, f"{taken:.2f} s for {answers} answers"


def test_logs_are_as_they_were(node: Node) -> None:
    assert Path(node.log_dir).exists()
    with Peer(node.port) as peer:
        metadata = peer.ask(MetadataRequest(topics=[MetadataRequestTopic(name=NARROW)]), 9, MetadataResponse)
        assert {part.error_code for part in metadata.topics[0].partitions} == {0}
