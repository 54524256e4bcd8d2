"""Clients at work on a cluster that crashes: producers, a reader at the tail, and an administrator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from highwater.errors import Code, KafkaError, code_of
from highwater.model import Endpoint, TopicPartition
from highwater.net.client import CallFailed
from highwater.sim import Simulation
from highwater.sim.client import Client
from highwater.sim.producer import Producer
from highwater.sim.reader import Reader
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
from highwater.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from highwater.wire.messages.describe_configs_response import DescribeConfigsResponse
from highwater.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from highwater.wire.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from tests.sim.witness import Witness

SECONDS = 5.0
ATTEMPT_SECONDS = 0.4
PATIENCE = 60.0
TOPIC_RESOURCE = 2
SETTING = "delete.retention.ms"


class Workload:
    def __init__(
        self,
        sim: Simulation,
        witness: Witness,
        bootstrap: Endpoint,
        topics: Mapping[str, Mapping[str, str]],
        partitions: Sequence[TopicPartition],
    ) -> None:
        self._sim = sim
        self._witness = witness
        self._bootstrap = bootstrap
        self._topics = topics
        self._partitions = partitions
        self._over = False
        self._tasks: list[asyncio.Task[None]] = []
        self._made = 0

    def begin(self) -> None:
        self._spawn("p1", self._produce)
        self._spawn("p2", self._produce)
        self._spawn("reader", self._follow)
        self._spawn("admin", self._administer)

    def _spawn(self, name: str, work: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        world = self._sim.world(name)
        client = world.call(Client, world, [self._bootstrap], name, ATTEMPT_SECONDS)
        self._tasks.append(world.spawn(name, work(client)))

    async def end(self) -> None:
        """No new work; what is under way is finished."""
        self._over = True
        await asyncio.gather(*self._tasks)

    # Producing and reading

    async def _produce(self, client: Client) -> None:
        producer, random = Producer(client), client.world.random("work")
        while not self._over:
            partition = random.choice(self._partitions)
            values = [self._value(client.client_id, random.randint(1, 120)) for _ in range(random.randint(1, 4))]
            self._witness.sends(client.client_id, partition, values)
            sent = await producer.send(partition, values, SECONDS)
            self._witness.sent(sent, producer.ids)
            await asyncio.sleep(random.uniform(0.001, 0.03))
        client.close()

    def _value(self, producer: str, size: int) -> bytes:
        self._made += 1
        return f"{producer} {self._made}".encode().ljust(size, b".")

    async def _follow(self, client: Client) -> None:
        reader, random = Reader(client), client.world.random("work")
        offsets = dict.fromkeys(self._partitions, 0)
        while not self._over:
            partition, asked = random.choice(self._partitions), self._sim.now
            try:
                page = await reader.fetch(partition, offsets[partition], SECONDS, wait_ms=random.choice((0, 20)))
            except KafkaError as failed:
                if failed.code is Code.OFFSET_OUT_OF_RANGE:
                    offsets[partition] = await self._find_start(reader, partition, offsets[partition])
                elif failed.code is Code.CORRUPT_MESSAGE:
                    self._witness.complain(failed.message)
                await client.back_off()
            except CallFailed:
                await client.back_off()
            else:
                self._witness.read(page, partition, asked)
                offsets[partition] = page.next_offset if random.random() < 0.9 else page.log_start
                await asyncio.sleep(random.uniform(0.001, 0.03))
        client.close()

    async def _find_start(self, reader: Reader, partition: TopicPartition, otherwise: int) -> int:
        try:
            return await reader.earliest(partition, SECONDS)
        except (KafkaError, CallFailed):
            return otherwise

    async def read_everything(self) -> None:
        world = self._sim.world("auditor")
        client = world.call(Client, world, [self._bootstrap], "auditor", ATTEMPT_SECONDS)
        await world.perform(self._read_everything(client))

    async def _read_everything(self, client: Client) -> None:
        for partition in self._partitions:
            asked = self._sim.now
            page = await Reader(client).read_all(partition, PATIENCE)
            self._witness.read_whole(page, partition, asked)
        await self._look_at_topics(client)
        client.close()

    # Administration

    async def _administer(self, client: Client) -> None:
        random = client.world.random("work")
        for topic, configs in self._topics.items():
            while not await self._create(client, topic, 2, configs):
                await client.back_off()
        while not self._over:
            work = random.choice((self._add, self._add, self._drop, self._alter, self._alter, self._delete_records))
            try:
                await work(client)
                await self._look_at_topics(client)
            except (KafkaError, CallFailed) as failed:
                self._witness.note(client.client_id, f"{work.__name__}: {failed}")
                await client.back_off()
            await asyncio.sleep(random.uniform(0.005, 0.05))
        client.close()

    async def _create(self, client: Client, name: str, partitions: int, configs: Mapping[str, str]) -> bool:
        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        self._witness.topics.creates(name)
        try:
            request = CreateTopicsRequest(topics=[wanted], timeout_ms=round(SECONDS * 1000))
            answer = await client.ask_any(request, CreateTopicsResponse, SECONDS)
        except CallFailed as failed:
            self._witness.note(client.client_id, f"create {name}: {failed}")
            return False
        row = answer.topics[0]
        self._witness.topics.created(name, code_of(row.error_code), row.topic_id)
        return row.error_code in (Code.NONE, Code.TOPIC_ALREADY_EXISTS)

    async def _add(self, client: Client) -> None:
        random = client.world.random("work")
        gone = self._witness.topics.deleted_names()
        if gone and random.random() < 0.3:
            name = random.choice(gone)
        else:
            name = f"t{self._witness.topics.count}"
        await self._create(client, name, random.randint(1, 2), {})

    async def _drop(self, client: Client) -> None:
        names = [name for name in self._witness.topics.present_names() if name not in self._topics]
        if not names:
            return
        name = client.world.random("work").choice(names)
        self._witness.topics.deletes(name)
        states = [DeleteTopicState(name=name)]
        request = DeleteTopicsRequest(topics=states, topic_names=[name], timeout_ms=round(SECONDS * 1000))
        answer = await client.ask_any(request, DeleteTopicsResponse, SECONDS)
        self._witness.topics.deleted(name, code_of(answer.responses[0].error_code))

    async def _alter(self, client: Client) -> None:
        random = client.world.random("work")
        names = self._witness.topics.present_names()
        if not names:
            return
        name, value = random.choice(names), str(random.randint(1, 10**9))
        self._witness.topics.alters(name, value)
        change = AlterableConfig(name=SETTING, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configs=[change])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        answer = await client.ask_any(request, IncrementalAlterConfigsResponse, SECONDS)
        self._witness.topics.altered(name, code_of(answer.responses[0].error_code), value)

    async def _delete_records(self, client: Client) -> None:
        random = client.world.random("work")
        partition = random.choice(self._partitions)
        end = self._witness.known_end(partition)
        offset = random.randint(0, end) if random.random() < 0.9 else -1
        leader, _ = await client.leader(partition, SECONDS)
        self._witness.deletes(partition, offset)
        wanted = DeleteRecordsPartition(partition_index=partition.partition, offset=offset)
        topic = DeleteRecordsTopic(name=partition.topic, partitions=[wanted])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=round(SECONDS * 1000))
        answer = await client.ask(leader, request, DeleteRecordsResponse, SECONDS)
        row = answer.topics[0].partitions[0]
        self._witness.deleted(partition, code_of(row.error_code), row.low_watermark)

    async def _look_at_topics(self, client: Client) -> None:
        """What is said of topics must be what was promised."""
        asked = self._sim.now
        answer = await client.metadata(SECONDS)
        seen = {topic.name or "": topic.topic_id for topic in answer.topics if topic.error_code == Code.NONE}
        self._witness.topics.saw(seen, asked)
        names = self._witness.topics.present_names()
        if not names:
            return
        resources = [
            DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=[SETTING])
            for name in names
        ]
        asked = self._sim.now
        described = await client.ask_any(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse, SECONDS)
        for result in described.results:
            if result.error_code == Code.NONE:
                self._witness.topics.saw_setting(result.resource_name, result.configs[0].value or "", asked)
