"""A client of a staged cluster: single requests to chosen nodes, and sends that are retried until they are done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from highwater.audit import Outcome, Read
from highwater.errors import Code, code_of
from highwater.model import TopicPartition, Uuid
from highwater.net.client import CallFailed
from highwater.sim.client import Client
from highwater.sim.cluster import SimCluster
from highwater.sim.producer import Producer
from highwater.sim.reader import Reader
from highwater.sim.world import SimWorld
from highwater.wire import records
from highwater.wire.codec import Message
from highwater.wire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.wire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from highwater.wire.messages.delete_records_response import DeleteRecordsResponse
from highwater.wire.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from highwater.wire.messages.elect_leaders_response import ElectLeadersResponse
from highwater.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from highwater.wire.messages.fetch_response import FetchResponse
from highwater.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from highwater.wire.messages.list_offsets_response import ListOffsetsResponse
from highwater.wire.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from highwater.wire.messages.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse
from highwater.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.wire.messages.produce_response import ProduceResponse

M = TypeVar("M", bound=Message)
ORDERS = TopicPartition("orders", 0)
"""The partition that is meant wherever a scenario names none."""
PATIENCE_SECONDS = 20.0
FETCH_BYTES = 1 << 20
LATEST, EARLIEST = -1, -2
PREFERRED, UNCLEAN = 0, 1


class OffsetAnswer(NamedTuple):
    """What a leader said of an offset: of ListOffsets, and of where an epoch ended."""

    code: Code
    offset: int
    epoch: int


class Fetched(NamedTuple):
    code: Code
    values: list[bytes]
    high_watermark: int
    log_start: int
    diverging: tuple[int, int] | None
    """(epoch, end offset) where the reader's history left the leader's."""
    preferred: int = -1
    """The follower from which the leader wants the reader to read."""


class Visitor:
    """All its methods are coroutines: `stage.run(…)` performs one to its end, `stage.begin(…)` begins it."""

    def __init__(self, world: SimWorld, cluster: SimCluster, topic_id: Callable[[str], Uuid]) -> None:
        self.world = world
        self.client = Client(world, cluster.bootstrap, world.name, PATIENCE_SECONDS)
        self._cluster = cluster
        self._topic_id = topic_id
        self._producer = Producer(self.client)

    async def ask(self, node: str, request: Message, response: type[M], highest: int | None = None) -> M:
        """Of this node's broker. CallFailed where the connection ends first. `highest` limits the version."""
        return await self.client.ask(self._cluster.members[node].broker, request, response, PATIENCE_SECONDS, highest)

    async def ask_any(self, request: Message, response: type[M]) -> M:
        """Of any broker; again where one was lost on the way."""
        while True:
            try:
                return await self.client.ask_any(request, response, PATIENCE_SECONDS)
            except CallFailed:
                await self.client.back_off()

    async def create(self, tp: TopicPartition, replicas: Sequence[int], configs: Mapping[str, str]) -> None:
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
            for index in range(tp.partition + 1)
        ]
        topic = CreatableTopic(
            name=tp.topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=assignments,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        answer = await self.ask_any(request, CreateTopicsResponse)
        assert not answer.topics[0].error_code, answer.topics[0].error_message

    async def elect(self, kind: int, tp: TopicPartition = ORDERS) -> Code:
        """ElectLeaders: PREFERRED or UNCLEAN."""
        partitions = [TopicPartitions(topic=tp.topic, partitions=[tp.partition])]
        request = ElectLeadersRequest(election_type=kind, topic_partitions=partitions, timeout_ms=10_000)
        answer = await self.ask_any(request, ElectLeadersResponse)
        if answer.error_code or not answer.replica_election_results:
            return code_of(answer.error_code)
        return code_of(answer.replica_election_results[0].partition_result[0].error_code)

    async def send(self, *values: bytes, tp: TopicPartition = ORDERS, seconds: float = 30.0) -> int:
        """One idempotent batch with acks=all, retried until it is acknowledged; its first offset."""
        sent = await self._producer.send(tp, values, seconds)
        assert sent[0].outcome is Outcome.ACKED, f"{values!r} was not acknowledged in {seconds} s"
        return sent[0].offset

    async def produce(
        self, node: str, *values: bytes, tp: TopicPartition = ORDERS, acks: int = -1, ms: int = 5_000
    ) -> OffsetAnswer:
        """One batch, asked once of this node; with its timeout in `ms`. With acks=0 there is no answer."""
        now_ms = self.world.clock.wall_ms()
        batch = records.build([(now_ms, None, value, ()) for value in values])
        data = TopicProduceData(
            name=tp.topic,
            topic_id=self._topic_id(tp.topic),
            partition_data=[PartitionProduceData(index=tp.partition, records=bytes(batch))],
        )
        request = ProduceRequest(acks=acks, timeout_ms=ms, topic_data=[data])
        answer = await self.ask(node, request, ProduceResponse)
        row = answer.responses[0].partition_responses[0]
        return OffsetAnswer(code_of(row.error_code), row.base_offset, -1)

    async def fetch(
        self,
        node: str,
        offset: int,
        *,
        tp: TopicPartition = ORDERS,
        epoch: int = -1,
        last_epoch: int = -1,
        replica: int = -1,
        broker_epoch: int = -1,
        wait_ms: int = 0,
        rack: str = "",
        committed_only: bool = False,
        highest: int | None = None,
    ) -> Fetched:
        """Without a session. As a consumer in `rack`, or as the follower `replica`; `epoch` is the leader's as the
        reader knows it, `last_epoch` that of its own last record."""
        wanted = FetchPartition(
            partition=tp.partition,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            partition_max_bytes=FETCH_BYTES,
            log_start_offset=0 if replica >= 0 else -1,
        )
        topic = FetchTopic(topic=tp.topic, topic_id=self._topic_id(tp.topic), partitions=[wanted])
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=replica, replica_epoch=broker_epoch),
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            topics=[topic],
            session_epoch=-1,
            rack_id=rack,
            isolation_level=int(committed_only),
        )
        answer = await self.ask(node, request, FetchResponse, highest)
        if answer.error_code:
            return Fetched(code_of(answer.error_code), [], -1, -1, None)
        row = answer.responses[0].partitions[0]
        values = [
            bytes(record.value or b"") for record in records.iterate_all(row.records or b"") if record.offset >= offset
        ]
        left = row.diverging_epoch
        diverging = (left.epoch, left.end_offset) if left.end_offset >= 0 else None
        preferred = row.preferred_read_replica
        return Fetched(code_of(row.error_code), values, row.high_watermark, row.log_start_offset, diverging, preferred)

    async def list_offset(
        self, node: str, when: int = LATEST, *, tp: TopicPartition = ORDERS, epoch: int = -1
    ) -> OffsetAnswer:
        wanted = ListOffsetsPartition(partition_index=tp.partition, timestamp=when, current_leader_epoch=epoch)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=tp.topic, partitions=[wanted])])
        answer = await self.ask(node, request, ListOffsetsResponse)
        row = answer.topics[0].partitions[0]
        return OffsetAnswer(code_of(row.error_code), row.offset, row.leader_epoch)

    async def epoch_end(self, node: str, asked: int, *, tp: TopicPartition = ORDERS, epoch: int = -1) -> OffsetAnswer:
        """OffsetForLeaderEpoch, as a consumer asks: the largest epoch not above `asked`, and where it ended."""
        wanted = OffsetForLeaderPartition(partition=tp.partition, current_leader_epoch=epoch, leader_epoch=asked)
        topics = [OffsetForLeaderTopic(topic=tp.topic, partitions=[wanted])]
        answer = await self.ask(
            node, OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), OffsetForLeaderEpochResponse
        )
        row = answer.topics[0].partitions[0]
        return OffsetAnswer(code_of(row.error_code), row.end_offset, row.leader_epoch)

    async def delete_records(self, node: str, offset: int, tp: TopicPartition = ORDERS) -> Code:
        """Up to `offset`; answered once every live replica has done so."""
        partition = DeleteRecordsPartition(partition_index=tp.partition, offset=offset)
        topic = DeleteRecordsTopic(name=tp.topic, partitions=[partition])
        answer = await self.ask(node, DeleteRecordsRequest(topics=[topic], timeout_ms=5_000), DeleteRecordsResponse)
        return code_of(answer.topics[0].partitions[0].error_code)

    async def read(self, tp: TopicPartition = ORDERS, seconds: float = 30.0) -> list[Read]:
        """All that is committed, from the leader, wherever that is now."""
        self.client.forget_leaders()
        return (await Reader(self.client).read_all(tp, seconds)).reads
