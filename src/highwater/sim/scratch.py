"""Topics that are created and deleted beside those of the load. They have few names, so that names are used again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TypeVar

from highwater.audit import Outcome
from highwater.errors import Code, code_of
from highwater.metadata.cluster import MetadataImage
from highwater.model import TopicPartition, Uuid
from highwater.net.client import CallFailed
from highwater.sim.client import Client, NotConnected
from highwater.sim.cluster import SimCluster
from highwater.sim.producer import Producer
from highwater.sim.reader import Reader
from highwater.sim.view import SCRATCH
from highwater.wire.codec import Message
from highwater.wire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from highwater.wire.messages.create_partitions_response import CreatePartitionsResponse
from highwater.wire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.wire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from highwater.wire.messages.delete_records_response import DeleteRecordsResponse
from highwater.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from highwater.wire.messages.delete_topics_response import DeleteTopicsResponse

M = TypeVar("M", bound=Message)
NAMES = (f"{SCRATCH}-a", f"{SCRATCH}-b")
UP_TO_HIGH_WATERMARK = -1


class Scratch:
    """Remembers what must be true of each name: whether the topic exists, and what was acknowledged in each of its
    lives. A request without a response leaves that in doubt."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._there: dict[str, bool | None] = dict.fromkeys(NAMES, False)
        """None if it is unknown."""
        self._life: Counter[str] = Counter()
        self._acked: dict[TopicPartition, dict[Uuid, list[bytes]]] = {}
        """By topic id. Brokers that do not know of a deletion yet still accept writes to the old topic, and these are
        deleted with it."""
        self._partitions: dict[str, int] = {}
        self._unanswered: set[str] = set()
        """Names of which a creation or deletion got no response. A node may still forward it, after requests that were
        answered: whether such a topic is there cannot be judged."""

    async def turn_over(self, client: Client, dice: Random, seconds: float) -> bool:
        """Deletes an existing topic, or creates a missing one."""
        name = dice.choice(NAMES)
        if self._there[name]:
            return await self._delete(client, name, seconds)
        return await self._create(client, name, dice, seconds)

    async def _create(self, client: Client, name: str, dice: Random, seconds: float) -> bool:
        """Creates a topic, and writes to it when it is there."""
        brokers = sum(member.is_broker for member in self._cluster.members.values())
        topic = CreatableTopic(
            name=name,
            num_partitions=2,
            replication_factor=min(brokers, dice.choice((2, 3))),
            configs=[CreatableTopicConfig(name="flush.messages", value="1")],
        )
        was = self._there[name]
        if was is False:
            self._begin(name)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
        answer = await self._ask(client, name, request, CreateTopicsResponse, seconds)
        code = code_of(answer.topics[0].error_code)
        if code is Code.NONE:
            if was is not False:
                self._begin(name)
            self._there[name], self._partitions[name] = True, 2
            await self.write(client, TopicPartition(name, dice.randrange(2)), seconds)
        elif code is Code.TOPIC_ALREADY_EXISTS:
            self._there[name] = True
        return code is Code.NONE

    def _begin(self, name: str) -> None:
        """A new life of the name: it must show nothing of the life before."""
        self._there[name] = None
        self._life[name] += 1

    async def write(self, client: Client, at: TopicPartition, seconds: float) -> None:
        client.forget_leaders()
        values = [f"{at.topic} {self._life[at.topic]} {number}".encode() for number in range(3)]
        producer = Producer(client)
        sent = await producer.send(at, values, seconds)
        if sent[0].outcome is Outcome.ACKED:
            self._acked.setdefault(at, {}).setdefault(producer.topic_ids[at], []).extend(values)

    async def _delete(self, client: Client, name: str, seconds: float) -> bool:
        self._there[name] = None
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=1000)
        answer = await self._ask(client, name, request, DeleteTopicsResponse, seconds)
        code = code_of(answer.responses[0].error_code)
        if code in (Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION):
            self._there[name] = False
            self._acked = {at: lives for at, lives in self._acked.items() if at.topic != name}
        return code is Code.NONE

    async def _ask(self, client: Client, name: str, request: Message, response: type[M], seconds: float) -> M:
        try:
            return await client.ask_any(request, response, seconds)
        except NotConnected:
            raise  # no node has got the request
        except CallFailed:
            self._unanswered.add(name)
            raise

    async def add_partitions(self, client: Client, dice: Random, seconds: float) -> bool:
        name = dice.choice([name for name, there in self._there.items() if there] or NAMES)
        count = dice.randint(3, 5)
        topics = [CreatePartitionsTopic(name=name, count=count, assignments=None)]
        request = CreatePartitionsRequest(topics=topics, timeout_ms=1000)
        answer = await client.ask_any(request, CreatePartitionsResponse, seconds)
        added = answer.results[0].error_code == Code.NONE
        if added and self._there[name]:
            self._partitions[name] = count
            await self.write(client, TopicPartition(name, count - 1), seconds)
        return added

    async def delete_records(self, client: Client, dice: Random, seconds: float) -> bool:
        """Deletes all records: the log start stays in a checkpoint after the topic is deleted."""
        written = [at for at in self._acked if self._there[at.topic]]
        if not written:
            return False
        at = dice.choice(written)
        del self._acked[at]
        partition = DeleteRecordsPartition(partition_index=at.partition, offset=UP_TO_HIGH_WATERMARK)
        topics = [DeleteRecordsTopic(name=at.topic, partitions=[partition])]
        leader, _ = await client.leader(at, seconds)
        answer = await client.ask(
            leader, DeleteRecordsRequest(topics=topics, timeout_ms=1000), DeleteRecordsResponse, seconds
        )
        return answer.topics[0].partitions[0].error_code == Code.NONE

    # At the end

    def wrong(self, truth: MetadataImage) -> Iterator[str]:
        for name, there in self._there.items():
            if name in self._unanswered:
                continue
            topic = truth.topics.by_name.get(name)
            if there is not None and there != (topic is not None):
                yield f"{name}: {'created' if there else 'deleted'}, and {'is there' if topic else 'is not there'}"
            if there and topic is not None and len(topic.partitions) < self._partitions.get(name, 0):
                yield f"{name}: {len(topic.partitions)} partitions, {self._partitions[name]} were acknowledged"

    async def audit(self, client: Client, truth: MetadataImage, seconds: float) -> list[str]:
        """The records of existing topics belong to their last life, and include everything that was acknowledged in it,
        even if the last creation or deletion got no response."""
        found = []
        for name in NAMES:
            topic = truth.topics.by_name.get(name)
            if topic is None:
                continue
            for index in sorted(topic.partitions):
                at = TopicPartition(name, index)
                page = await Reader(client).read_all(at, seconds)
                values = [read.value for read in page.reads]
                acked = self._acked.get(at, {}).get(topic.id, [])
                lost = [value for value in acked if value not in values]
                alien = [value for value in values if not value.startswith(f"{name} {self._life[name]} ".encode())]
                if lost or alien:
                    found.append(f"{at}: lost {lost[:3]}, of an earlier life {alien[:3]}")
        return found
