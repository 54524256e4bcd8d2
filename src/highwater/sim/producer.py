"""An idempotent producer on the virtual clock. It knows for which batches the result is unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from highwater.audit import Outcome, Sent
from highwater.errors import Code, KafkaError, code_of, is_retriable
from highwater.model import ZERO_UUID, Endpoint, TopicPartition, Uuid
from highwater.net.client import CallFailed
from highwater.sim.client import Client, NotConnected
from highwater.wire import records
from highwater.wire.messages.init_producer_id_request import InitProducerIdRequest
from highwater.wire.messages.init_producer_id_response import InitProducerIdResponse
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import PartitionProduceResponse, ProduceResponse

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
"""Errors that a produce request may get even if its batch was written."""


class _Batch:
    """A batch for one partition, and its result."""

    def __init__(self, at: TopicPartition, values: Sequence[bytes]) -> None:
        self.at = at
        self.values = values
        self.data = b""
        self.topic_id = ZERO_UUID
        """The life of the topic to which it was last sent."""
        self.base = -1
        self.is_acked = False
        self._is_refused = False
        self._in_doubt = False

    @property
    def is_over(self) -> bool:
        return self.is_acked or self._is_refused

    @property
    def outcome(self) -> Outcome:
        if self.is_acked:
            return Outcome.ACKED
        return Outcome.UNKNOWN if self._in_doubt else Outcome.FAILED

    def doubt(self) -> None:
        """It was sent, and the result is unknown."""
        self._in_doubt = True

    def settle(self, row: PartitionProduceResponse) -> None:
        code = code_of(row.error_code)
        if code is Code.NONE or code is Code.DUPLICATE_SEQUENCE_NUMBER:
            self.is_acked, self.base = True, row.base_offset
            return
        self._in_doubt = self._in_doubt or code in AFTER_APPEND
        self._is_refused = not is_retriable(code)

    def sent(self, producer: str) -> list[Sent]:
        offsets = range(self.base, self.base + len(self.values)) if self.base >= 0 else [-1] * len(self.values)
        return [
            Sent(self.at, value, producer, self.outcome, offset)
            for value, offset in zip(self.values, offsets, strict=True)
        ]


class Producer:
    """Idempotent, with acks=all, and with one batch of a partition in flight: so values stay in the order of
    sending."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._id = -1
        self._sequences: dict[TopicPartition, int] = {}
        self.ids: list[int] = []
        """Every producer id that it got."""
        self.topic_ids: dict[TopicPartition, Uuid] = {}
        """The topic id to which the last acknowledged batch of a partition was written: a name may have several
        lives."""

    async def send(
        self, partition: TopicPartition, values: Sequence[bytes], seconds: float, key: bytes | None = None
    ) -> list[Sent]:
        """See `send_all`."""
        sent: list[Sent] = []
        await self.send_all({partition: values}, seconds, sent.extend, key)
        return sent

    async def send_all(
        self,
        values: Mapping[TopicPartition, Sequence[bytes]],
        seconds: float,
        took: Callable[[list[Sent]], None],
        key: bytes | None = None,
    ) -> None:
        """Sends one batch for each partition; batches for one leader go into one request.

        It retries until it gets a response or the time is over. `took` is called with each batch as soon as its result
        is known. A batch with an unknown result ends the producer's identity: no gap may follow.
        """
        deadline = self._client.now + seconds
        batches = [_Batch(at, each) for at, each in values.items()]
        settle = partial(self._settle, took=took)
        try:
            await self._identify(deadline)
            await self._deliver(batches, deadline, settle, key)
        except TimeoutError:
            pass
        for batch in batches:
            if not batch.is_acked:
                settle(batch)

    def _settle(self, batch: _Batch, took: Callable[[list[Sent]], None]) -> None:
        if batch.is_acked:
            self._sequences[batch.at] = self._sequences.get(batch.at, 0) + len(batch.values)
            self.topic_ids[batch.at] = batch.topic_id
        else:
            self._id = -1
        took(batch.sent(self._client.client_id))

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
        self, batches: Sequence[_Batch], deadline: float, settle: Callable[[_Batch], None], key: bytes | None
    ) -> None:
        now_ms = self._client.world.clock.wall_ms()
        for batch in batches:
            built = records.build(
                [(now_ms, key, value, ()) for value in batch.values],
                producer_id=self._id,
                producer_epoch=0,
                base_sequence=self._sequences.get(batch.at, 0),
            )
            batch.data = bytes(built)
        while True:
            for leader, led in (await self._by_leader(batches, deadline)).items():
                await self._attempt(leader, led, self._left(deadline))
                for batch in led:
                    if batch.is_acked:
                        settle(batch)
            batches = [batch for batch in batches if not batch.is_over]
            if not batches:
                return
            self._client.forget_leaders()
            await self._client.back_off()

    async def _by_leader(self, batches: Sequence[_Batch], deadline: float) -> dict[Endpoint, list[_Batch]]:
        """Without those that have none now."""
        found: dict[Endpoint, list[_Batch]] = {}
        for batch in batches:
            try:
                leader, batch.topic_id = await self._client.leader(batch.at, self._left(deadline))
            except (KafkaError, CallFailed):
                continue
            found.setdefault(leader, []).append(batch)
        return found

    async def _attempt(self, leader: Endpoint, batches: Sequence[_Batch], seconds: float) -> None:
        topics: dict[Uuid, TopicProduceData] = {}
        for batch in batches:
            empty = TopicProduceData(name=batch.at.topic, topic_id=batch.topic_id, partition_data=[])
            topic = topics.setdefault(batch.topic_id, empty)
            topic.partition_data.append(PartitionProduceData(index=batch.at.partition, records=batch.data))
        request = ProduceRequest(acks=-1, timeout_ms=round(seconds * 1000), topic_data=[*topics.values()])
        try:
            answer = await self._client.ask(leader, request, ProduceResponse, seconds)
        except NotConnected:
            return
        except CallFailed:
            for batch in batches:
                batch.doubt()
            return
        rows = [((topic.topic_id, row.index), row) for topic in answer.responses for row in topic.partition_responses]
        by_place = dict(rows)
        wanted = {(batch.topic_id, batch.at.partition): batch for batch in batches}
        if sorted(place for place, _ in rows) != sorted(wanted):
            asked, named = [str(batch.at) for batch in batches], [index for (_, index), _ in rows]
            self._client.complain(f"the answer to a Produce of {', '.join(asked)} names the partitions {named}")
        for place, batch in wanted.items():
            if place in by_place:
                batch.settle(by_place[place])
            else:
                batch.doubt()
