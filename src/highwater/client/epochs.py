"""The end of a leader epoch in the leader's log (KIP-320). With it a reader detects that its log has diverged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from highwater.client.answers import failure
from highwater.client.client import Client
from highwater.client.leaders import ask_leaders
from highwater.errors import Code, KafkaError
from highwater.model import NodeId, TopicPartition
from highwater.wire.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from highwater.wire.messages.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse


class EpochEnd(NamedTuple):
    """The largest epoch that is not above the requested one, and the offset after its last record; -1 if unknown."""

    epoch: int
    offset: int


def epoch_ends(client: Client, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd | KafkaError]:
    """Each partition has its own answer or error."""

    def question(leader: NodeId, led: list[TopicPartition]) -> dict[TopicPartition, EpochEnd | KafkaError]:
        topics: dict[str, OffsetForLeaderTopic] = {}
        for partition in led:
            topics.setdefault(partition.topic, OffsetForLeaderTopic(topic=partition.topic)).partitions.append(
                OffsetForLeaderPartition(partition=partition.partition, leader_epoch=epochs[partition])
            )
        # -1: a reader, not a replica. The field's own default, -2, is a debugging consumer's.
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=list(topics.values()))
        response = client.ask_broker(leader, request, OffsetForLeaderEpochResponse)
        return {
            TopicPartition(topic.topic, end.partition): EpochEnd(end.leader_epoch, end.end_offset)
            if end.error_code == Code.NONE
            else failure(end.error_code)
            for topic in response.topics
            for end in topic.partitions
        }

    return ask_leaders(client, epochs, question)
