"""Replicas of this broker whose files could not be made or opened.

They are reported to the controller at once, so that other replicas lead, as for a failed directory in Kafka. After a
pause the broker tries again, until there is room. So a topic that was created while the disk was full works later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from highwater.broker.broker import Broker
from highwater.errors import KafkaError
from highwater.metadata.brokers import DIRECTORY_LOST
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.topics import PartitionImage, TopicImage
from highwater.model import TopicPartition, Uuid
from highwater.partition.partition import Partition
from highwater.world import Timer, WorkerDied, is_passing

RETRY_SECONDS = 2.0
MISTAKE_SECONDS = 60.0
"""The pause after an unexpected exception: gigabytes may be read just to meet the same exception again."""
_log = logging.getLogger(__name__)


class MissingReplicas:
    def __init__(self, broker: Broker, wake: Callable[[], None]) -> None:
        """Calls `wake` when `due` has become true."""
        self._broker = broker
        self._directories = broker.directories
        self._wake = wake
        self._reasons: dict[tuple[Uuid, int], str] = {}
        self._open_at: dict[TopicPartition, float] = {}
        """When each replica is tried again."""
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self.due = False

    def note(self, tp: TopicPartition, topic_id: Uuid, failed: KafkaError) -> None:
        key = (topic_id, tp.partition)
        if self._reasons.get(key) != str(failed):
            _log.error("%s", failed)
        self._reasons[key] = str(failed)
        pause = self._pause(tp)
        known = self._find(self._broker.metadata.image, key)
        if known is None or known[2].directory(self._broker.node_id) != DIRECTORY_LOST:
            self._directories.lose(*key, lasting=pause is None)
        if pause is not None:
            now = self._broker.world.clock.monotonic()
            if self._open_at.get(tp, now) <= now:
                self._open_at[tp] = now + pause
            self._wake_at(self._open_at[tp], now)

    def forget(self, tp: TopicPartition, topic_id: Uuid) -> None:
        """The replica exists now, or is no longer ours."""
        if self._reasons.pop((topic_id, tp.partition), None) is not None:
            self._open_at.pop(tp, None)

    def _wake_at(self, at: float, now: float) -> None:
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at, self._timer = at, self._broker.world.clock.call_later(at - now, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.due = True
        self._wake()

    def _pause(self, tp: TopicPartition) -> float | None:
        """Seconds until the next attempt; None if the data of an existing log is the reason."""
        why = self._broker.store.unloaded.get(tp)
        if why is None or is_passing(why) or isinstance(why, WorkerDied):
            return RETRY_SECONDS
        return None if isinstance(why, OSError | ValueError | EOFError) else MISTAKE_SECONDS

    async def take_due(self, image: MetadataImage) -> list[tuple[TopicImage, int, PartitionImage]]:
        """The replicas to try again. An existing log is opened here."""
        self.due = False
        wanted = [found for key in list(self._reasons) if (found := self._find(image, key)) is not None]
        self._reasons = {(topic.id, index): self._reasons[topic.id, index] for topic, index, _ in wanted}
        now, times = self._broker.world.clock.monotonic(), self._open_at
        self._open_at = {tp: at for tp, at in times.items() if tp in self._broker.store.unloaded and at > now}
        for topic, index, _ in wanted:
            tp = TopicPartition(topic.name, index)
            if tp in self._broker.store.unloaded and times.get(tp, now + 1) <= now:
                with self._broker.world.failures.boundary("partition", str(tp)):
                    await self._open_again(topic, tp)
        return wanted

    async def _open_again(self, topic: TopicImage, tp: TopicPartition) -> None:
        store = self._broker.store
        log = await store.open_again(tp)
        if log is None:
            return
        if log.topic_id != topic.id:
            _log.warning("%s is no longer assigned to this broker: its log is deleted", tp)
            store.delete(tp)
            return
        self._broker.hosted.add(Partition(log, self._broker.in_sync))
        self.forget(tp, topic.id)

    def _find(self, image: MetadataImage, key: tuple[Uuid, int]) -> tuple[TopicImage, int, PartitionImage] | None:
        topic = image.topics.by_id.get(key[0])
        part = None if topic is None else topic.partitions.get(key[1])
        return None if topic is None or part is None else (topic, key[1], part)
