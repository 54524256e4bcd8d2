"""An idempotent producer on the virtual clock, that knows what it does not know."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.audit import Outcome, Sent
from highwater.errors import Code, KafkaError, code_of, is_retriable
from highwater.model import Endpoint, TopicPartition, Uuid
from highwater.net.client import CallFailed
from highwater.sim.client import Client, NotConnected
from highwater.wire import records
from highwater.wire.messages.init_producer_id_request import InitProducerIdRequest
from highwater.wire.messages.init_producer_id_response import InitProducerIdResponse
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import ProduceResponse

AFTER_APPEND = frozenset(
    {
        Code.REQUEST_TIMED_OUT,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.KAFKA_STORAGE_ERROR,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.UNKNOWN_SERVER_ERROR,
    }
)
"""Answers that a produce request may also get after its batch was written."""


class Producer:
    """Idempotent, acks=all, one batch at a time: whoever sends values in order finds them in that order."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._id = -1
        self._sequences: dict[TopicPartition, int] = {}
        self.ids: list[int] = []
        """Every id that it was given."""
        self.topic_ids: dict[TopicPartition, Uuid] = {}
        """The topic that the last acknowledged batch of a partition was written to: a name may have several lives."""

    async def send(
        self, partition: TopicPartition, values: Sequence[bytes], seconds: float, key: bytes | None = None
    ) -> list[Sent]:
        """Retried until answered or out of time. A batch in doubt ends the producer's identity: no gap may follow."""
        deadline = self._client.now + seconds
        outcome, base = Outcome.FAILED, -1
        try:
            await self._identify(deadline)
            outcome, base = await self._deliver(partition, values, deadline, key)
        except TimeoutError:
            pass
        if outcome is Outcome.ACKED:
            self._sequences[partition] = self._sequences.get(partition, 0) + len(values)
        else:
            self._id = -1
        offsets = range(base, base + len(values)) if base >= 0 else [-1] * len(values)
        name = self._client.client_id
        return [Sent(partition, value, name, outcome, at) for value, at in zip(values, offsets, strict=True)]

    async def _identify(self, deadline: float) -> None:
        while self._id < 0:
            try:
                answer = await self._client.ask_any(
                    InitProducerIdRequest(transactional_id=None), InitProducerIdResponse, self._left(deadline)
                )
                if answer.error_code == Code.NONE:
                    self._id = answer.producer_id
                    self._sequences.clear()
                    self.ids.append(self._id)
                    return
            except CallFailed:
                pass
            await self._client.back_off()

    def _left(self, deadline: float) -> float:
        left = deadline - self._client.now
        if left <= 0:
            raise TimeoutError
        return left

    async def _deliver(
        self, partition: TopicPartition, values: Sequence[bytes], deadline: float, key: bytes | None
    ) -> tuple[Outcome, int]:
        now_ms = self._client.world.clock.wall_ms()
        batch = records.build(
            [(now_ms, key, value, ()) for value in values],
            producer_id=self._id,
            producer_epoch=0,
            base_sequence=self._sequences.get(partition, 0),
        )
        in_doubt = False
        while (left := deadline - self._client.now) > 0:
            try:
                code, base = await self._attempt(partition, bytes(batch), left)
            except NotConnected:
                code, base = Code.LEADER_NOT_AVAILABLE, -1
            except CallFailed:
                in_doubt = True
                code, base = Code.NETWORK_EXCEPTION, -1
            if code is Code.NONE or code is Code.DUPLICATE_SEQUENCE_NUMBER:
                return Outcome.ACKED, base
            in_doubt = in_doubt or code in AFTER_APPEND
            if not is_retriable(code):
                break
            self._client.forget_leaders()
            await self._client.back_off()
        return Outcome.UNKNOWN if in_doubt else Outcome.FAILED, -1

    async def _attempt(self, partition: TopicPartition, batch: bytes, seconds: float) -> tuple[Code, int]:
        try:
            leader, topic_id = await self._client.leader(partition, seconds)
        except KafkaError as failed:
            return failed.code, -1
        except CallFailed as failed:
            raise NotConnected(failed.reason, Endpoint("", 0)) from failed
        data = TopicProduceData(
            name=partition.topic,
            topic_id=topic_id,
            partition_data=[PartitionProduceData(index=partition.partition, records=batch)],
        )
        request = ProduceRequest(acks=-1, timeout_ms=round(seconds * 1000), topic_data=[data])
        answer = await self._client.ask(leader, request, ProduceResponse, seconds)
        self.topic_ids[partition] = topic_id
        row = answer.responses[0].partition_responses[0]
        return code_of(row.error_code), row.base_offset
