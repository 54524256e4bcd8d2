"""A cluster of two brokers that answer as a test says, and the answers that tests of the client share."""

from __future__ import annotations

from highwater.model import TopicPartition, Uuid
from highwater.wire.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from highwater.wire.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from highwater.wire.messages.metadata_request import MetadataRequest
from highwater.wire.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from highwater.wire.records import build
from tests.unit.client.fake_broker import FakeBroker

TOPIC_ID = Uuid(bytes(range(16)))
PARTITION = TopicPartition("t", 0)


class Cluster:
    """Two brokers that agree on the leaders of topic t."""

    def __init__(self, one: FakeBroker, two: FakeBroker) -> None:
        self.brokers = {1: one, 2: two}
        self.leader = 1
        """The leader of partition 0."""
        self.other_leaders: dict[int, int] = {}
        """Those of further partitions, if there are any."""
        for broker in (one, two):
            broker.answer(MetadataRequest, lambda request, version: self.metadata(version))

    def metadata(self, version: int) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=leader, replica_nodes=[1, 2])
            for index, leader in {0: self.leader, **self.other_leaders}.items()
        ]
        topic = MetadataResponseTopic(name="t", partitions=partitions)
        if version >= 10:
            topic.topic_id = TOPIC_ID
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node, host=broker.endpoint.host, port=broker.endpoint.port)
                for node, broker in self.brokers.items()
            ],
            topics=[topic],
        )


def offsets_answer(code: int, offset: int = 0) -> ListOffsetsResponse:
    found = ListOffsetsPartitionResponse(partition_index=0, error_code=code, offset=offset, timestamp=-1)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])


def fetched(data: PartitionData | None, session: int = 0, code: int = 0) -> FetchResponse:
    topics = []
    if data is not None:
        topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])]
    return FetchResponse(error_code=code, session_id=session, responses=topics)


def batch(base_offset: int, count: int) -> bytes:
    return bytes(build([(i, None, b"%d" % i, ()) for i in range(count)], base_offset=base_offset))
