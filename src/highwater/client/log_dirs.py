"""The log directories of brokers, and the sizes of the logs in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from highwater.client.answers import check
from highwater.client.client import Client
from highwater.errors import Code, code_of
from highwater.model import NodeId, TopicPartition
from highwater.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest
from highwater.wire.messages.describe_log_dirs_response import DescribeLogDirsResponse


class LogSize(NamedTuple):
    partition: TopicPartition
    size: int
    lag: int
    is_future: bool
    """Whether it is a copy that will replace the log in another directory."""


class LogDir(NamedTuple):
    path: str
    error: Code
    logs: list[LogSize]
    total_bytes: int = -1
    """Of its file system; -1 if the broker does not say."""
    usable_bytes: int = -1

    @property
    def sizes(self) -> dict[TopicPartition, int]:
        """The bytes of each replica, without copies that are being moved here from another directory."""
        return {each.partition: each.size for each in self.logs if not each.is_future}


def describe_log_dirs(client: Client, brokers: Iterable[NodeId]) -> dict[NodeId, list[LogDir]]:
    """Raises KafkaError and ClientFailure."""
    found = {}
    for broker in brokers:
        response = client.ask_broker(broker, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
        check(response.error_code)
        found[broker] = [
            LogDir(
                each.log_dir,
                code_of(each.error_code),
                [
                    LogSize(
                        TopicPartition(topic.name, row.partition_index),
                        row.partition_size,
                        row.offset_lag,
                        row.is_future_key,
                    )
                    for topic in each.topics
                    for row in topic.partitions
                ],
                each.total_bytes,
                each.usable_bytes,
            )
            for each in response.results
        ]
    return found
