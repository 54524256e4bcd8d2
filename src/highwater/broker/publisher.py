"""Makes this node what a new metadata image says: replicas are made, given their roles, reconfigured and removed.

In this order, so that no step sees what a later one takes away: delete -> leaders -> followers -> settings -> tell.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from highwater.broker.broker import Broker
from highwater.config import FETCH_MAX_BYTES, LogConfig
from highwater.errors import KafkaError
from highwater.metadata.changes import Changes
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.configs import CLUSTER_DEFAULT, ResourceType, broker_resource, topic_resource
from highwater.metadata.topics import PartitionImage, TopicImage
from highwater.model import TopicPartition, Uuid
from highwater.partition.partition import Partition

CREATE_AT_ONCE = 4
SLICE = 20
"""Role changes between two turns of the loop."""
_log = logging.getLogger(__name__)


class Publisher:
    """Images come in order; while one is being applied the next ones are gathered into one step."""

    def __init__(self, broker: Broker, applied: Callable[[], None]) -> None:
        self._broker = broker
        self._applied = applied
        self._pending: tuple[MetadataImage, Changes] | None = None
        self._news = asyncio.Event()

    def offer(self, image: MetadataImage, changes: Changes) -> None:
        if self._pending is not None:
            changes = self._pending[1].then(changes)
        self._pending = (image, changes)
        self._broker.news()
        self._news.set()

    async def run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            if self._pending is not None:
                (image, changes), self._pending = self._pending, None
                await self.apply(image, changes)
            if self._pending is None:
                self._broker.applied()

    async def begin(self, image: MetadataImage) -> None:
        """The first image: what is on disk is set against it, strays are dropped, the rest is given its role."""
        broker = self._broker
        self._take_settings(image)
        await broker.store.open()
        for tp, log in list(broker.store.logs.items()):
            topic = image.topics.by_name.get(tp.topic)
            known = None if topic is None else topic.partitions.get(tp.partition)
            if topic is None or topic.id != log.topic_id or known is None or broker.node_id not in known.replicas:
                _log.warning("%s is not this broker's any more: dropped", tp)
                broker.store.delete(tp)
            else:
                broker.hosted.add(Partition(log))
        wanted = [(topic, index, part) for topic, index, part in image.topics.each_partition()]
        await self._place(wanted)
        self._tell(image)

    async def apply(self, image: MetadataImage, changes: Changes) -> None:
        for topic in changes.deleted:
            for index in topic.partitions:
                self._drop(topic.name, topic.id, index)
        wanted = []
        for topic_id, indexes in changes.partitions.items():
            topic = image.topics.by_id[topic_id]
            wanted += [(topic, index, topic.partitions[index]) for index in indexes]
        self._take_settings(image)
        await self._place(wanted)
        self._reconfigure(image, changes)
        self._tell(image)

    def _drop(self, name: str, topic_id: Uuid, index: int) -> None:
        partition = self._broker.hosted.find(topic_id, index)
        if partition is not None:
            self._broker.hosted.remove(partition)
            partition.close()
            self._broker.store.delete(TopicPartition(name, index))

    async def _place(self, wanted: list[tuple[TopicImage, int, PartitionImage]]) -> None:
        mine = [each for each in wanted if self._broker.node_id in each[2].replicas]
        missing = [each for each in mine if self._broker.hosted.find(each[0].id, each[1]) is None]
        for at in range(0, len(missing), CREATE_AT_ONCE):
            await asyncio.gather(*(self._create(topic, index) for topic, index, _ in missing[at : at + CREATE_AT_ONCE]))
        for at, (topic, index, image) in enumerate(mine):
            partition = self._broker.hosted.find(topic.id, index)
            if partition is not None:
                self._assign(partition, image)
            if at % SLICE == SLICE - 1:
                await asyncio.sleep(0)

    async def _create(self, topic: TopicImage, index: int) -> None:
        tp = TopicPartition(topic.name, index)
        try:
            log = await self._broker.store.create(tp, topic.id)
        except KafkaError as failed:
            _log.error("%s", failed)
            return
        self._broker.hosted.add(Partition(log))

    def _assign(self, partition: Partition, image: PartitionImage) -> None:
        local = self._broker.node_id
        if image.leader == local:
            partition.lead(local, image.leader_epoch, image.partition_epoch, image.replicas, image.isr)
        else:
            partition.step_down(image.leader, image.leader_epoch, image.partition_epoch, image.replicas)

    def _take_settings(self, image: MetadataImage) -> None:
        """What new logs are made with, and topic settings fall back on, comes before everything else."""
        broker = self._broker
        own, default = image.configs.of(broker_resource(broker.node_id)), image.configs.of(CLUSTER_DEFAULT)
        if broker.config.dynamic != own or broker.config.dynamic_default != default:
            broker.config = broker.config.with_dynamic(own, default)
            broker.fetch_max_bytes = broker.config.get(FETCH_MAX_BYTES)
        broker.settings_image = image

    def _reconfigure(self, image: MetadataImage, changes: Changes) -> None:
        mine = (CLUSTER_DEFAULT, broker_resource(self._broker.node_id))
        everything = any(resource in changes.configs for resource in mine)
        topics = {resource.name for resource in changes.configs if resource.type == ResourceType.TOPIC}
        for partition in self._broker.hosted:
            if everything or partition.tp.topic in topics:
                overrides = image.configs.of(topic_resource(partition.tp.topic))
                partition.reconfigure(LogConfig.resolve(self._broker.config, overrides))

    def _tell(self, image: MetadataImage) -> None:
        self._broker.image = image
        self._applied()
