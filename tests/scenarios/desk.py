"""A leader of ORDERS on broker 1 that asks for changes of its ISR, and a controller that answers when the scenario says
so: with the real decision, on the head image that the scenario gives it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Self

from highwater.broker.controller_channel import ControllerChannel
from highwater.broker.isr_changes import IsrChanges
from highwater.broker.replica_image import broker_epochs
from highwater.controller.alter_partition import alter_partition
from highwater.errors import Code, code_of
from highwater.metadata.cluster import MetadataImage
from highwater.model import NodeId
from highwater.partition.in_sync import InSync
from highwater.partition.partition import Partition
from highwater.replication.follower_progress import Contact
from highwater.replication.leader import Leader
from highwater.sim.simulation import Simulation
from highwater.wire.codec import Message
from highwater.wire.messages.alter_partition_request import AlterPartitionRequest
from highwater.wire.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from tests.scenarios.visitor import ORDERS
from tests.unit.controller.clusters import epoch, node_config, then, topic_id
from tests.unit.log.bench import START_MS, Bench, batch, create_log, settings

ME = NodeId(1)
LAG_SECONDS = 1.0
DIRECTORY = PurePath("/data")
LATEST = 3
"""The version of AlterPartition that is asked in."""


class _Channel(ControllerChannel):
    """Holds what is asked."""

    def __init__(self) -> None:
        self.asked: deque[tuple[Message, Callable[[Any], None]]] = deque()

    def ask(self, request: Message, response: type[Any], done: Callable[[Any], None], seconds: float) -> None:
        self.asked.append((request, done))


class Desk:
    """Time goes by in `pass_time` alone. `head` is what the controller decides on; the leader knows only what
    it got by `lead`, by an answer, or by fetches."""

    def __init__(self, head: MetadataImage, min_insync_replicas: int = 1) -> None:
        self.head = head
        self._sim = Simulation(1)
        self._world = self._sim.world("leader")
        self._sim.storage("leader").provide(DIRECTORY)
        self._bench = Bench(self._world, DIRECTORY, settings(min_insync_replicas=min_insync_replicas))
        self._channel = _Channel()

    def __enter__(self) -> Self:
        changes = IsrChanges(self._world, ME, self._channel, lambda: epoch(ME))
        in_sync = InSync(self._world.clock.monotonic, lambda: LAG_SECONDS, changes.ask)

        async def create() -> None:
            await self._bench.store.open()
            await create_log(self._bench.store, ORDERS, topic_id(ORDERS.topic))

        self._sim.run(self._world.perform(create()))
        self.partition = Partition(self._bench.log, in_sync)
        self.lead(head=self.head)
        return self

    def __exit__(self, *_: object) -> None:
        self._sim.close()

    # The leader

    @property
    def leader(self) -> Leader:
        return self.partition.require_leader()

    def lead(self, head: MetadataImage) -> None:
        """The leader learns what metadata says."""
        known = head.topics.by_name[ORDERS.topic].partitions[ORDERS.partition]
        assert known.leader == ME
        epochs = broker_epochs(head, known, known.replicas)
        self._world.call(
            self.partition.lead, ME, known.leader_epoch, known.partition_epoch, known.replicas, known.isr, epochs
        )

    def write(self, value: bytes) -> list[Code]:
        """With acks=all; its outcome appears in the list."""
        codes: list[Code] = []
        appended = self._world.call(self.partition.append, memoryview(batch((value,))), -1, 9, START_MS)
        self._world.call(self.partition.when_committed, appended.last_offset + 1, codes.append)
        return codes

    def fetch(self, replica: int, offset: int) -> None:
        """The follower has everything below `offset`."""
        contact = Contact(self._world.clock.monotonic())
        self._world.call(self.partition.follower_fetched, NodeId(replica), offset, 0, epoch(replica), contact)

    def look_for_laggards(self) -> None:
        self._world.call(self.partition.tick)
        self.pass_time(0.001)

    # The controller

    def pass_time(self, seconds: float) -> None:
        self._sim.advance(seconds)

    @property
    def asked(self) -> list[int]:
        """The ISR that is asked for now; nothing if none is."""
        if not self._channel.asked:
            return []
        request = self._channel.asked[0][0]
        assert isinstance(request, AlterPartitionRequest)
        return [member.broker_id for member in request.topics[0].partitions[0].new_isr_with_epochs]

    def learn(self) -> None:
        """The leader has applied the head."""
        self.lead(self.head)

    def decide(self, on: MetadataImage | None = None, codes: bool = True) -> Code:
        """Decide on what is asked: on the head, which moves, or on the image of a controller that is none any more.
        The answer is lost unless `codes` is true."""
        request, done = self._channel.asked.popleft()
        assert isinstance(request, AlterPartitionRequest)
        decision = alter_partition(self.head if on is None else on, request, LATEST, node_config())
        if on is None:
            self.head = then(self.head, decision.records)
        self._world.call(done, decision.response if codes else None)
        return code_of(decision.response.error_code or decision.response.topics[0].partitions[0].error_code)

    def refuse(self, code: Code) -> None:
        """Answer what is asked with this error, for each partition."""
        request, done = self._channel.asked.popleft()
        assert isinstance(request, AlterPartitionRequest)
        topics = [
            TopicData(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(partition_index=each.partition_index, error_code=code) for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        self._world.call(done, AlterPartitionResponse(topics=topics))
