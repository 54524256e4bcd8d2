"""A whole node in the simulated world, and a client beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from pathlib import PurePath
from random import Random
from typing import TypeVar

from highwater.config import NodeConfig
from highwater.model import Endpoint, NodeId, Uuid
from highwater.net.client import CallFailed, ClientConnection, Gone
from highwater.net.deadlines import DeadlineQueue
from highwater.node import Node
from highwater.raft_node.format import Format, InitialVoter, format_directories
from highwater.sim import Knobs, Simulation
from highwater.wire.codec import Message
from highwater.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.world import Disk, Step
from highwater.world.jobs import finished

M = TypeVar("M", bound=Message)
NODE, CLIENT = "10.0.0.1", "10.0.0.2"
"""Machines are named by address: forwarded requests carry the client's."""
DIRECTORY = PurePath("/data")
METADATA = DIRECTORY / "__cluster_metadata-0"
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": f"PLAINTEXT://{NODE}:9092,CONTROLLER://{NODE}:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "controller.quorum.bootstrap.servers": f"{NODE}:9093",
    "log.dirs": str(DIRECTORY),
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
}


def _format(disk: Disk) -> Generator[Step, None, None]:
    yield Step()
    voter = InitialVoter(NodeId(1), Endpoint(NODE, 9093), Uuid(bytes(range(16))))
    plan = Format(CLUSTER, NodeId(1), [DIRECTORY], DIRECTORY, "CONTROLLER", [voter])
    format_directories(disk, plan, now_ms=1, random=Random(1))


class Living:
    """As a context manager: the end closes the simulation."""

    def __init__(self, seed: int = 1, knobs: Knobs | None = None, **settings: str) -> None:
        self.sim = Simulation(seed, knobs)
        self.failed: list[BaseException] = []
        self._properties = {**PROPERTIES, **{name.replace("_", "."): value for name, value in settings.items()}}
        self.world = self.sim.world(NODE)
        self._client = self.sim.world(CLIENT)
        self.sim.storage(NODE).provide(DIRECTORY)
        self.sim.run(self.world.perform(finished(self.world, _format)))
        self.progress: Callable[[], None] = lambda: None
        self.node = self._make()

    def __enter__(self) -> Living:
        return self

    def __exit__(self, *_: object) -> None:
        self.sim.close()

    def _make(self) -> Node:
        config = NodeConfig.parse(self._properties)
        opened = Node.open(self.world, config, self.failed.append, lambda: self.progress())
        return self.sim.run(self.world.perform(opened))

    def start(self) -> Living:
        self.sim.run(self.world.perform(self.node.start()))
        return self

    def stop(self) -> None:
        self.sim.run(self.world.perform(self.node.stop()))

    def reborn(self, **settings: str) -> Living:
        """The next life on the same disk, not started yet."""
        self._properties.update({name.replace("_", "."): value for name, value in settings.items()})
        self.world = self.sim.restart(NODE)
        self.node = self._make()
        return self

    def ask(self, request: Message, response: type[M], version: int) -> M:
        return self.sim.run(self._client.perform(self._ask(request, response, version)))

    async def _ask(self, request: Message, response: type[M], version: int) -> M:
        answered: asyncio.Future[M | CallFailed] = asyncio.get_running_loop().create_future()
        ended: asyncio.Future[Gone] = asyncio.get_running_loop().create_future()
        deadlines = DeadlineQueue(self._client.clock)
        connection = ClientConnection(self._client, Endpoint(NODE, 9092), "test", deadlines, ended.set_result)
        connection.open(lambda: connection.send(request, version, response, answered.set_result, 60.0), 60.0)
        answer = await answered
        connection.close()
        await ended
        assert not isinstance(answer, CallFailed), answer
        return answer

    def create_topic(self, name: str, partitions: int = 1) -> None:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        answer = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), CreateTopicsResponse, 7)
        assert [each.error_code for each in answer.topics] == [0]
        broker = self.node.broker
        self.sim.run(self.sim.until(lambda: len([tp for tp in broker.store.logs if tp.topic == name]) == partitions))
        self.sim.run(self.sim.until(lambda: name in broker.metadata.image.topics.by_name))
