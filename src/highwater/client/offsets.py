"""Requests about offsets that only the leader of a partition answers: look-ups, and the deletion of records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from highwater.client.answers import failure
from highwater.client.client import Client
from highwater.client.leaders import ask_leaders
from highwater.errors import Code, KafkaError
from highwater.model import NodeId, TopicPartition
from highwater.wire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from highwater.wire.messages.delete_records_response import DeleteRecordsResponse
from highwater.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from highwater.wire.messages.list_offsets_response import ListOffsetsResponse

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


class FoundOffset(NamedTuple):
    """Offset -1 if no record matches."""

    offset: int
    timestamp: int
    leader_epoch: int


def list_offsets(
    client: Client,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation: int = READ_UNCOMMITTED,
    await_topic: bool = False,
) -> dict[TopicPartition, FoundOffset | KafkaError]:
    """The offset at a time (ms), or at one of the constants above; each partition has its own answer or error."""
    timeout_ms = int(client.request_timeout * 1000)

    def question(leader: NodeId, led: list[TopicPartition]) -> dict[TopicPartition, FoundOffset | KafkaError]:
        topics: dict[str, ListOffsetsTopic] = {}
        for name, index in led:
            topics.setdefault(name, ListOffsetsTopic(name=name)).partitions.append(
                ListOffsetsPartition(partition_index=index, timestamp=wanted[TopicPartition(name, index)])
            )
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=isolation, topics=list(topics.values()), timeout_ms=timeout_ms
        )
        response = client.ask_broker(leader, request, ListOffsetsResponse)
        return {
            TopicPartition(topic.name, found.partition_index): FoundOffset(
                found.offset, found.timestamp, found.leader_epoch
            )
            if found.error_code == Code.NONE
            else failure(found.error_code)
            for topic in response.topics
            for found in topic.partitions
        }

    return ask_leaders(client, wanted, question, await_topic=await_topic)


def delete_records(client: Client, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | KafkaError]:
    """Deletes the records before each offset (-1 is the high watermark). Returns the new log starts."""
    timeout_ms = int(client.request_timeout * 1000)

    def question(leader: NodeId, led: list[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
        topics: dict[str, DeleteRecordsTopic] = {}
        for name, index in led:
            topics.setdefault(name, DeleteRecordsTopic(name=name)).partitions.append(
                DeleteRecordsPartition(partition_index=index, offset=before[TopicPartition(name, index)])
            )
        request = DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=timeout_ms)
        response = client.ask_broker(leader, request, DeleteRecordsResponse)
        return {
            TopicPartition(topic.name, done.partition_index): done.low_watermark
            if done.error_code == Code.NONE
            else failure(done.error_code)
            for topic in response.topics
            for done in topic.partitions
        }

    return ask_leaders(client, before, question)
