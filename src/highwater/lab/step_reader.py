"""A consumer, one fetch at a time. With a rack it reads where the leader sends it, and goes back to the leader."""

from __future__ import annotations

from highwater.client.client import Client
from highwater.client.failures import Disconnected, RequestTimeout
from highwater.client.fetched import Fetched
from highwater.errors import Code, KafkaError, code_of
from highwater.lab.frame import Read
from highwater.model import NodeId, TopicPartition
from highwater.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from highwater.wire.messages.fetch_response import FetchResponse, PartitionData
from highwater.wire.records import end_offset

FETCH_WAIT_MS = 200
FETCH_BYTES = 1 << 20


class StepReader:
    """Reads partition 0 of a topic from its beginning. Kafka's consumers do the same in the background (KIP-392).

    The consumer of `highwater.client` has no rack: it reads from leaders.
    """

    def __init__(self, client: Client, topic: str, rack: str = "") -> None:
        self._client = client
        self._partition = TopicPartition(topic, 0)
        self._rack = rack
        self._near: NodeId | None = None
        self.position = 0
        self.values: list[str] = []

    def fetch(self) -> Read:
        """One fetch from the replica to which the leader has sent us, else from the leader."""
        try:
            leader = self._client.leader(self._partition)
        except (KafkaError, Disconnected, RequestTimeout) as failed:
            return self._failed(-1, True, _name(failed))
        node = leader if self._near is None else self._near
        try:
            answer = self._client.ask_broker(node, self._request(), FetchResponse)
        except (KafkaError, Disconnected, RequestTimeout) as failed:
            return self._failed(node, node == leader, _name(failed))
        if answer.error_code != Code.NONE:
            return self._failed(node, node == leader, code_of(answer.error_code).name)
        [data] = [row for topic in answer.responses for row in topic.partitions]
        if data.error_code != Code.NONE:
            return self._failed(node, node == leader, code_of(data.error_code).name)
        return self._taken(node, node == leader, data)

    def _request(self) -> FetchRequest:
        wanted = FetchPartition(partition=0, fetch_offset=self.position, partition_max_bytes=FETCH_BYTES)
        topic = FetchTopic(topic_id=self._client.topic(self._partition.topic).id, partitions=[wanted])
        return FetchRequest(
            max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=FETCH_BYTES, topics=[topic], rack_id=self._rack
        )

    def _taken(self, node: NodeId, is_leader: bool, data: PartitionData) -> Read:
        start, watermark = self.position, data.high_watermark
        if data.preferred_read_replica >= 0:
            self._near = NodeId(data.preferred_read_replica)
            return Read(node, is_leader, start, 0, watermark, self._near)
        records = memoryview(data.records or b"")
        end = end_offset(records)
        if end is None or end <= start:
            return Read(node, is_leader, start, 0, watermark)
        fetched = Fetched(
            self._partition, start, end, watermark, data.last_stable_offset, data.log_start_offset, records
        )
        got = [(record.value or b"").decode() for record in fetched]
        self.values += got
        self.position = end
        return Read(node, is_leader, start, len(got), watermark)

    def _failed(self, node: int, is_leader: bool, error: str) -> Read:
        """Whatever the error is, the leader is asked next, and that with new metadata."""
        self._near = None
        self._client.forget(self._partition.topic)
        return Read(node, is_leader, self.position, 0, -1, error=error)


def _name(failed: KafkaError | Disconnected | RequestTimeout) -> str:
    return failed.code.name if isinstance(failed, KafkaError) else type(failed).__name__
