"""Applies a new metadata image to this node: replicas are created, get their roles, are reconfigured and removed.

The order is such that no step needs what a later one removes:

1. the settings of the node itself;
2. deleted replicas are removed;
3. the settings of topics: an ISR is valid only with the settings under which it was decided;
4. missing replicas are created, and then roles are given, leaders first;
5. fetchers follow leaders whose address changed;
6. requests are answered from the new image, and groups learn of deleted topics.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from highwater.broker.broker import Broker
from highwater.broker.missing import MissingReplicas
from highwater.broker.reasons import why_changed
from highwater.broker.refilled import Refilled
from highwater.broker.replica_image import broker_epochs, is_counted_on, is_dispensable, is_lost
from highwater.errors import KafkaError
from highwater.log.loaded import CorruptLog
from highwater.metadata.changes import NOTHING, Changes
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.configs import CLUSTER_DEFAULT, ResourceType, broker_resource
from highwater.metadata.topics import PartitionImage, TopicImage
from highwater.model import NO_NODE, Endpoint, TopicPartition, Uuid
from highwater.partition.partition import Partition
from highwater.world.boundary import Boundary, as_os_error

CREATE_AT_ONCE = 4
"""The number of parallel jobs that create files."""
CREATE_SLICE = 16
"""The number of partitions that one such job creates."""
SETTLE_SECONDS = 1.0
"""How long in total other partitions wait for logs that are being cut."""
LOOKED_AT = 200
"""The number of partitions of an image that are checked between two turns of the loop."""
SLICE = 20
"""The number of role changes between two turns of the loop."""
_log = logging.getLogger(__name__)


class Publisher:
    """Images come in order. While one is being applied, the next ones are merged into one step."""

    def __init__(self, broker: Broker, applied: Callable[[], None]) -> None:
        """`applied` is called after each image."""
        self._broker = broker
        self._metadata = broker.metadata
        self._directories = broker.directories
        self._applied = applied
        self._pending: tuple[MetadataImage, Changes] | None = None
        self._news = asyncio.Event()
        self._settle_until = 0.0
        self._missing = MissingReplicas(broker, self._news.set)
        self._refilled = Refilled(broker.world.clock, broker.fetchers.ask_for_ends, self._look_again)

    def offer(self, image: MetadataImage, changes: Changes) -> None:
        if self._pending is not None:
            changes = self._pending[1].then(changes)
        self._pending = (image, changes)
        self._metadata.newer_is_known()
        self._news.set()

    async def run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            if self._pending is not None:
                (image, changes), self._pending = self._pending, None
                await self.apply(image, changes)
            if self._missing.due:
                image = self._metadata.image
                await self._place(image, await self._missing.take_due(image))
                self._directories.report()
            if self._pending is None:
                self._broker.auto_creation.settle()
                self._metadata.all_is_applied()

    async def begin(self, image: MetadataImage, progress: Callable[[], None] = lambda: None) -> None:
        """Applies the first image: opens the logs on disk, deletes those of other partitions, and gives the rest their
        roles. `progress` is called while the logs are opened."""
        broker = self._broker
        self._take_settings(image)
        await broker.store.open(progress)
        for tp, log in list(broker.store.logs.items()):
            topic = image.topics.by_name.get(tp.topic)
            known = None if topic is None else topic.partitions.get(tp.partition)
            with self._around(tp):
                if topic is None or topic.id != log.topic_id or known is None or broker.node_id not in known.replicas:
                    _log.warning("%s is no longer assigned to this broker: its log is deleted", tp)
                    broker.store.delete(tp)
                else:
                    broker.hosted.add(Partition(log, self._broker.in_sync))
                    if log.incomplete is not None and len(known.replicas) > 1:
                        broker.store.found.broker_epoch = -1  # another replica may have what this one lacks
        for tp in list(broker.store.unloaded):
            topic = image.topics.by_name.get(tp.topic)
            known = None if topic is None else topic.partitions.get(tp.partition)
            with self._around(tp):
                if topic is None or known is None or await broker.store.topic_of_unloaded(tp) not in (None, topic.id):
                    _log.warning("the log of %s could not be opened, and its topic was deleted: the log is deleted", tp)
                    broker.store.delete(tp)
        wanted = [(topic, index, part) for topic, index, part in image.topics.each_partition()]
        self._forget_strangers(image)
        await self._place(image, wanted)
        self._publish(image)

    def _forget_strangers(self, image: MetadataImage) -> None:
        """Deletes copies that were put aside, if their partition is no longer on this broker."""
        for topic_id, index in self._broker.store.retired.kept():
            topic = image.topics.by_id.get(topic_id)
            part = None if topic is None else topic.partitions.get(index)
            if part is None or self._broker.node_id not in part.replicas:
                self._broker.store.replaced(TopicPartition("" if topic is None else topic.name, index), topic_id)

    async def apply(self, image: MetadataImage, changes: Changes) -> None:
        self._take_settings(image)  # first, because `_look_again` uses the image that is being applied
        for topic in changes.deleted:
            for at, index in enumerate(topic.partitions):
                self._drop(topic.name, topic.id, index, is_deleted=True)
                if at % SLICE == SLICE - 1:
                    await asyncio.sleep(0)
        wanted = []
        for topic_id, indexes in changes.partitions.items():
            topic = image.topics.by_id[topic_id]
            wanted += [(topic, index, topic.partitions[index]) for index in indexes]
        self._reconfigure(image, changes)  # before the roles: an ISR is valid only with the settings of its decision
        await self._place(image, wanted)
        self._reach_moved_leaders(image, changes)
        self._publish(image, changes)
        self._broker.groups.topics_deleted(changes.deleted)

    def _drop(self, name: str, topic_id: Uuid, index: int, is_deleted: bool = False) -> None:
        tp, store = TopicPartition(name, index), self._broker.store
        self._missing.forget(tp, topic_id)
        partition = self._broker.hosted.find(topic_id, index)
        if partition is not None:
            with self._around(tp):
                self._out_of_service(partition, is_deleted)
                store.delete(tp)
        elif tp in store.unloaded:
            store.delete(tp)
        store.replaced(tp, topic_id)

    def _out_of_service(self, partition: Partition, is_deleted: bool = False) -> None:
        self._broker.hosted.remove(partition)
        self._refilled.forget(partition)
        self._broker.fetchers.unfollow(partition)
        self._broker.groups.removed(partition)
        partition.close(is_deleted)

    async def _place(self, image: MetadataImage, wanted: list[tuple[TopicImage, int, PartitionImage]]) -> None:
        local, hosted = self._broker.node_id, self._broker.hosted
        mine, missing = [], []
        for at, (topic, index, part) in enumerate(wanted):
            if local not in part.replicas:
                self._drop(topic.name, topic.id, index)
            else:
                mine.append((topic, index, part))
                if hosted.find(topic.id, index) is None:
                    self._give_up_unloaded(topic, index, part)
                    if self._may_make(topic, index, part):
                        missing.append((TopicPartition(topic.name, index), topic.id))
            if at % LOOKED_AT == LOOKED_AT - 1:
                await asyncio.sleep(0)
        await self._create(missing)
        mine.sort(key=lambda each: each[2].leader != local)
        self._settle_until = self._broker.world.clock.monotonic() + SETTLE_SECONDS
        for at, (topic, index, part) in enumerate(mine):
            partition = hosted.find(topic.id, index)
            if partition is not None:
                with self._at(partition):
                    await self._assign(image, partition, part)
            if at % SLICE == SLICE - 1:
                await asyncio.sleep(0)

    def _around(self, tp: TopicPartition) -> Boundary:
        """The boundary around a partition without a role: a failure does not affect the others."""
        return self._broker.world.failures.boundary("partition", str(tp))

    def _at(self, partition: Partition) -> Boundary:
        """The boundary around a partition with a role. After an unexpected failure its role is unknown, so its log goes
        offline and other replicas lead."""
        log, failures = partition.log, self._broker.world.failures
        return failures.boundary("partition", str(partition.tp), lambda failed: log.storage_failed(as_os_error(failed)))

    def _may_make(self, topic: TopicImage, index: int, part: PartitionImage) -> bool:
        """False if metadata counts on a log that is gone with its disk: an empty log would be taken for it."""
        tp = TopicPartition(topic.name, index)
        if tp in self._broker.store.unloaded or not self._directories.is_elsewhere(part):
            return True
        _log.error("%s is not created: its log was on a disk that is missing, and the cluster counts on that log", tp)
        return False

    def _give_up_unloaded(self, topic: TopicImage, index: int, part: PartitionImage) -> None:
        """A log with damaged data that had been synced is fetched again, if another replica has everything."""
        store, tp = self._broker.store, TopicPartition(topic.name, index)
        if not isinstance(store.unloaded.get(tp), CorruptLog):
            return
        if is_dispensable(part, self._broker.node_id):
            _log.warning("%s is damaged, and is fetched again from broker %d", tp, part.leader)
            store.put_aside(tp, topic.id)
        elif not is_lost(part, self._broker.node_id):
            self._directories.lose(topic.id, index, lasting=True)

    def _is_refilled(self, partition: Partition, part: PartitionImage) -> bool:
        """Whether the replica replaces a damaged log. It stays "lost" until it has every committed record: with fewer
        records it could be elected uncleanly, and would make other replicas cut theirs. A replica in the ISR or ELR had
        everything before it was lost. It may be the last copy, and then no leader could send it more."""
        local = self._broker.node_id
        is_kept = self._broker.store.retired.keeps(partition.topic_id, partition.tp.partition)
        return is_kept and is_lost(part, local) and not is_counted_on(part, local)

    def _is_last_that_came_back(self, partition: Partition, part: PartitionImage) -> bool:
        """Whether a log with damage or a gap is the last copy, and had failed before: what can be read is served."""
        local = self._broker.node_id
        is_last = is_counted_on(part, local) and {*part.isr, *part.elr} <= {local}
        return partition.log.offline is None and is_lost(part, local) and is_last

    def troubled(self, partition: Partition) -> None:
        """The log failed or is damaged. Asks the controller to let other replicas take over."""
        self._broker.store.report_trouble(partition.log)

    async def _begun_anew(self, partition: Partition, part: PartitionImage) -> Partition | None:
        """Replaces a damaged log by an empty one. That needs two things: the replica is in no list of possible leaders,
        and there is a leader epoch in which the damaged log never fetched. Otherwise a fetch of the damaged log that is
        still on its way would count for the empty one. None if the new log cannot be made."""
        broker, tp = self._broker, partition.tp
        dispensable = partition.log.offline is None and is_dispensable(part, broker.node_id)
        if not dispensable or part.leader_epoch <= partition.epoch:
            if dispensable or not is_lost(part, broker.node_id):
                self.troubled(partition)
            return partition
        why = f"fetched again from broker {part.leader}: {partition.log.trouble}"
        self._out_of_service(partition)
        broker.store.put_aside(tp, partition.topic_id)
        await self._create([(tp, partition.topic_id)])
        made = broker.hosted.find(partition.topic_id, tp.partition)
        if made is not None:
            made.log_change(why)
        return made

    async def _create(self, missing: list[tuple[TopicPartition, Uuid]]) -> None:
        slices = iter([missing[at : at + CREATE_SLICE] for at in range(0, len(missing), CREATE_SLICE)])

        async def one_after_another() -> None:
            for wanted in slices:
                made = await self._broker.store.create_all(wanted)
                for (tp, topic_id), log in zip(wanted, made, strict=True):
                    if isinstance(log, KafkaError):
                        self._missing.note(tp, topic_id, log)
                        continue
                    with self._around(tp):
                        self._missing.forget(tp, topic_id)
                        self._broker.hosted.add(Partition(log, self._broker.in_sync))

        await asyncio.gather(*(one_after_another() for _ in range(min(CREATE_AT_ONCE, len(missing)))))

    async def _assign(self, image: MetadataImage, partition: Partition, part: PartitionImage) -> None:
        broker = self._broker
        if partition.log.trouble is not None:
            replaced = await self._begun_anew(partition, part)
            if replaced is None:
                return
            partition = replaced
        if partition.log.trouble is None:
            if self._is_refilled(partition, part) and not self._refilled.has_what_is_committed(partition):
                self._refilled.wait_for(partition)
            else:
                self._directories.look(partition.topic_id, partition.tp.partition, part)
            if broker.node_id in part.isr and part.leader not in (broker.node_id, NO_NODE):
                broker.store.replaced(partition.tp, partition.topic_id, partition.log.log_end)
        elif self._is_last_that_came_back(partition, part):
            self._directories.look(partition.topic_id, partition.tp.partition, part)
        why = why_changed(image, partition, part)
        leads = part.leader == broker.node_id
        if leads and self._is_registered(image):
            broker.fetchers.unfollow(partition)
            if not await self._settled(partition):
                return
            epochs = broker_epochs(image, part, part.replicas)
            partition.lead(
                broker.node_id, part.leader_epoch, part.partition_epoch, part.replicas, part.isr, epochs, why, part.elr
            )
            broker.groups.role_changed(partition, image)
            return
        leader = NO_NODE if leads else part.leader
        same = (partition.leader_id, partition.epoch) == (leader, part.leader_epoch)
        if same and broker.fetchers.follows(partition):
            partition.partition_epoch = part.partition_epoch
            partition.replicas = part.replicas
            return
        broker.fetchers.unfollow(partition)
        if not await self._settled(partition):
            return
        partition.step_down(leader, part.leader_epoch, part.partition_epoch, part.replicas, why)
        broker.groups.role_changed(partition, image)
        self._follow(image, partition)

    def _leads_on(self, image: MetadataImage, partition: Partition) -> bool:
        """Whether the replica stays leader in its present epoch."""
        topic = image.topics.by_id.get(partition.topic_id)
        part = None if topic is None else topic.partitions.get(partition.tp.partition)
        if part is None or (part.leader, part.leader_epoch) != (self._broker.node_id, partition.epoch):
            return False
        return self._is_registered(image)

    def _is_registered(self, image: MetadataImage) -> bool:
        """Whether this incarnation is registered. Before that the broker leads nothing. The leader epoch is that of its
        last incarnation, which may have lost records that other replicas have. A new record at the same offset and in
        the same epoch could not be distinguished from a lost one. The registration raises the epoch of all partitions
        that the last incarnation led."""
        known = image.brokers.get(self._broker.node_id)
        return known is not None and known.incarnation == self._broker.lifecycle.incarnation

    async def _settled(self, partition: Partition) -> bool:
        """Waits until the log is no longer being cut: no role may change meanwhile. A full disk may delay that for
        hours, so other partitions do not wait, and this one is tried again when the cut has ended."""
        cutting = partition.cutting
        if cutting is not None and not cutting.done():
            left = self._settle_until - self._broker.world.clock.monotonic()
            await asyncio.wait([cutting], timeout=max(left, 0.0))
            if not cutting.done():
                cutting.add_done_callback(lambda _: self._look_again(partition))
                return False
        partition.cutting = None
        return True

    def _look_again(self, partition: Partition) -> None:
        image = self._metadata.coming_image if self._pending is None else self._pending[0]
        if partition.topic_id in image.topics.by_id:
            self.offer(image, Changes(partitions={partition.topic_id: (partition.tp.partition,)}))

    def _follow(self, image: MetadataImage, partition: Partition) -> None:
        leader = image.brokers.get(partition.leader_id)
        at = None if leader is None else leader.listener(self._metadata.config.inter_broker_listener)
        if at is not None and partition.log.trouble is None:
            self._broker.fetchers.follow(partition, partition.leader_id, Endpoint(at.host, at.port))

    def _notify_leaders(self, image: MetadataImage, changes: Changes) -> None:
        """Notifies the leaders here of changed brokers. A caught-up follower may join the ISR when its broker is
        unfenced. If a broker is fenced, its replica is waited for no longer."""
        for partition in self._broker.hosted if changes.brokers else ():
            part = self._metadata.partition_image(partition.topic_id, partition.tp.partition)
            if partition.leader is not None and part is not None:
                changed = [replica for replica in part.replicas if replica in changes.brokers]
                if changed:
                    with self._at(partition):
                        partition.brokers_changed(broker_epochs(image, part, changed))

    def _reach_moved_leaders(self, image: MetadataImage, changes: Changes) -> None:
        """A leader that registered again may have another address, or may not have been known before."""
        moved = set(changes.brokers)
        for partition in self._broker.hosted if moved else ():
            if partition.leader is None and partition.leader_id in moved:
                with self._at(partition):
                    self._follow(image, partition)

    def _take_settings(self, image: MetadataImage) -> None:
        """The broker's settings come first: new logs are made with them, and topic settings fall back on them."""
        if self._metadata.adopt_settings(image):
            self._broker.cleaner.reconfigured()

    def _reconfigure(self, image: MetadataImage, changes: Changes) -> None:
        mine = (CLUSTER_DEFAULT, broker_resource(self._broker.node_id))
        everything = any(resource in changes.configs for resource in mine)
        topics = {resource.name for resource in changes.configs if resource.type == ResourceType.TOPIC}
        for partition in self._broker.hosted if everything or topics else ():
            if everything or partition.tp.topic in topics:
                with self._at(partition):
                    leads = self._leads_on(image, partition)
                    partition.reconfigure(self._metadata.log_config(partition.tp.topic), leads)
                    self._broker.hosted.reconfigured(partition)

    def _publish(self, image: MetadataImage, changes: Changes = NOTHING) -> None:
        before = self._metadata.install(image)
        for broker in changes.brokers:
            self._broker.doubts.clear(broker)
            known = image.brokers.get(broker)
            if known is not None and known.fenced and before.brokers.is_active(broker):
                self._broker.departed.note(broker)
        if self._broker.node_id in changes.brokers:
            self._broker.fetchers.registered()
        self._notify_leaders(image, changes)
        self._broker.doubts.settle()
        self._directories.report()
        self._applied()
