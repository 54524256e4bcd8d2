"""The log directories of brokers, and the size of each replica in them (DescribeLogDirs, KIP-113)."""

from __future__ import annotations

from collections.abc import Iterable

from highwater.client.answers import check
from highwater.client.client import Client
from highwater.errors import KafkaError, code_of
from highwater.model import NodeId, TopicPartition
from highwater.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest
from highwater.wire.messages.describe_log_dirs_response import DescribeLogDirsResponse

Directory = dict[TopicPartition, int] | KafkaError
"""The bytes of each replica in a directory, or why it cannot be read. A replica that is being moved to another
directory of the same broker is left out of the second one."""


def describe_log_dirs(client: Client, brokers: Iterable[NodeId]) -> dict[NodeId, dict[str, Directory]]:
    """The directories of each of these brokers, by path."""

    def of(broker: NodeId) -> dict[str, Directory]:
        response = client.broker_connection(broker).request(
            DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse
        )
        check(response.error_code)
        found: dict[str, Directory] = {}
        for directory in response.results:
            if directory.error_code:
                found[directory.log_dir] = KafkaError(code_of(directory.error_code))
                continue
            found[directory.log_dir] = {
                TopicPartition(topic.name, row.partition_index): row.partition_size
                for topic in directory.topics
                for row in topic.partitions
                if not row.is_future_key
            }
        return found

    return {broker: client.retrying(lambda broker=broker: of(broker)) for broker in brokers}  # type: ignore[misc]
