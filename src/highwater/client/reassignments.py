"""Moving partitions to other replicas (AlterPartitionReassignments, KIP-455)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from highwater.client.answers import check
from highwater.client.client import Client
from highwater.errors import KafkaError, code_of
from highwater.model import TopicPartition
from highwater.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from highwater.wire.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse


def alter_reassignments(
    client: Client, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, KafkaError]:
    """Begin to move each partition to these replicas; None cancels the move that is under way. Returns the errors."""
    topics: dict[str, ReassignableTopic] = {}
    for (topic, index), replicas in targets.items():
        wanted = ReassignablePartition(partition_index=index, replicas=None if replicas is None else list(replicas))
        topics.setdefault(topic, ReassignableTopic(name=topic, partitions=[])).partitions.append(wanted)
    request = AlterPartitionReassignmentsRequest(
        topics=list(topics.values()), timeout_ms=int(client.request_timeout * 1000)
    )

    def attempt() -> AlterPartitionReassignmentsResponse:
        response = client.ask(request, AlterPartitionReassignmentsResponse)
        check(response.error_code, response.error_message)
        return response

    return {
        TopicPartition(topic.name, row.partition_index): KafkaError(code_of(row.error_code), row.error_message)
        for topic in client.retrying(attempt).responses
        for row in topic.partitions
        if row.error_code
    }
