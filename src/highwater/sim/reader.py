"""A reader by offset on the virtual clock."""

from __future__ import annotations

from typing import NamedTuple

from highwater.audit import Read
from highwater.errors import Code, KafkaError, code_of
from highwater.model import TopicPartition
from highwater.net.client import CallFailed
from highwater.sim.client import Client
from highwater.wire import records
from highwater.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from highwater.wire.messages.fetch_response import FetchResponse
from highwater.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from highwater.wire.messages.list_offsets_response import ListOffsetsResponse

FETCH_BYTES = 1 << 16
EARLIEST = -2


class Page(NamedTuple):
    """The result of one fetch."""

    reads: list[Read]
    next_offset: int
    high_watermark: int
    log_start: int


class ServedDamage(KafkaError):
    """A batch with a wrong checksum came. A broker may report damage that it finds, but must not serve it."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.CORRUPT_MESSAGE, message)


class Reader:
    """Reads committed records from the leader, by offset."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def fetch(self, partition: TopicPartition, offset: int, seconds: float, wait_ms: int = 0) -> Page:
        """Raises KafkaError or CallFailed."""
        leader, topic_id = await self._client.leader(partition, seconds)
        wanted = FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        topic = FetchTopic(topic=partition.topic, topic_id=topic_id, partitions=[wanted])
        request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=FETCH_BYTES, topics=[topic])
        answer = await self._client.ask(leader, request, FetchResponse, seconds)
        code = answer.error_code or answer.responses[0].partitions[0].error_code
        if code:
            self._client.forget_leaders()
            raise KafkaError(code_of(code), f"{partition} at {offset}")
        row = answer.responses[0].partitions[0]
        data = memoryview(row.records or b"")
        reads: list[Read] = []
        after = offset
        for at, size, header in records.walk(data):
            if not records.is_intact(data[at : at + size]):
                raise ServedDamage(f"{partition} at {header.base_offset}: served with a bad checksum")
            after = header.last_offset + 1
            for record in records.iterate_all(data[at : at + size]):
                if record.offset >= offset:
                    reads.append(Read(partition, record.offset, bytes(record.value or b"")))
        return Page(reads, after, row.high_watermark, row.log_start_offset)

    async def earliest(self, partition: TopicPartition, seconds: float) -> int:
        """The start of the log, from ListOffsets. Raises KafkaError or CallFailed."""
        leader, _ = await self._client.leader(partition, seconds)
        wanted = ListOffsetsPartition(partition_index=partition.partition, timestamp=EARLIEST)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=partition.topic, partitions=[wanted])])
        answer = await self._client.ask(leader, request, ListOffsetsResponse, seconds)
        row = answer.topics[0].partitions[0]
        if row.error_code:
            self._client.forget_leaders()
            raise KafkaError(code_of(row.error_code), str(partition))
        return row.offset

    async def read_all(self, partition: TopicPartition, seconds: float) -> Page:
        """Reads from the log start to the high watermark, as they were when the reading began: retention may delete
        records meanwhile. Raises TimeoutError if that does not succeed in time."""
        deadline = self._client.now + seconds
        reads: list[Read] = []
        offset = begun = -1
        while self._client.now < deadline:
            try:
                if offset < 0:
                    offset = begun = await self.earliest(partition, seconds)
                page = await self.fetch(partition, offset, seconds)
            except (KafkaError, CallFailed) as failed:
                if isinstance(failed, KafkaError) and failed.code is Code.OFFSET_OUT_OF_RANGE:
                    offset = -1
                    reads.clear()
                await self._client.back_off()
                continue
            reads += page.reads
            offset = page.next_offset
            if offset >= page.high_watermark:
                return page._replace(reads=reads, log_start=begun)
        raise TimeoutError(f"{partition} could not be read to its end in {seconds} s")
