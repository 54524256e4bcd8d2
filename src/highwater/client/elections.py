"""Requests leader elections."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from highwater.client.answers import check
from highwater.client.client import Client
from highwater.errors import KafkaError, code_of
from highwater.model import TopicPartition
from highwater.wire.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from highwater.wire.messages.elect_leaders_response import ElectLeadersResponse


class Election(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    client: Client, kind: Election, partitions: Sequence[TopicPartition] | None
) -> dict[TopicPartition, KafkaError | None]:
    """The result for each partition. If `partitions` is None, all are asked for, and those that need no election are
    left out."""
    topics: dict[str, TopicPartitions] = {}
    for tp in partitions or ():
        topics.setdefault(tp.topic, TopicPartitions(topic=tp.topic, partitions=[])).partitions.append(tp.partition)
    request = ElectLeadersRequest(
        election_type=kind,
        topic_partitions=None if partitions is None else list(topics.values()),
        timeout_ms=int(client.request_timeout * 1000),
    )

    def attempt() -> ElectLeadersResponse:
        response = client.ask(request, ElectLeadersResponse)
        check(response.error_code)
        return response

    response = client.retrying(attempt)
    return {
        TopicPartition(topic.topic, row.partition_id): (
            KafkaError(code_of(row.error_code), row.error_message) if row.error_code else None
        )
        for topic in response.replica_election_results
        for row in topic.partition_result
    }
