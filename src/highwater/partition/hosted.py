"""The replicas that this broker hosts, found by topic name or topic id."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.model import TopicPartition, Uuid
from highwater.partition.partition import Partition

NEVER_MS = 2**62
"""An interval of at least this length means "never"."""


class Hosted:
    """A look-up takes two dictionary steps and makes no key object: it is on the hot path."""

    def __init__(self) -> None:
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[Uuid, dict[int, Partition]] = {}
        self.flushed_by_age: dict[Partition, None] = {}
        """Partitions with a flush.ms. They are checked many times a second; usually there are none."""

    def add(self, partition: Partition) -> None:
        topic, index = partition.tp
        self._by_name.setdefault(topic, {})[index] = partition
        self._by_id.setdefault(partition.topic_id, {})[index] = partition
        self.reconfigured(partition)

    def reconfigured(self, partition: Partition) -> None:
        if partition.log.config.flush_ms < NEVER_MS:
            self.flushed_by_age[partition] = None
        else:
            self.flushed_by_age.pop(partition, None)

    def remove(self, partition: Partition) -> None:
        topic, index = partition.tp
        self.flushed_by_age.pop(partition, None)
        for table, key in ((self._by_name, topic), (self._by_id, partition.topic_id)):
            of_topic = table[key]  # type: ignore[index]
            del of_topic[index]
            if not of_topic:
                del table[key]  # type: ignore[arg-type]

    def find(self, topic: str | Uuid, index: int) -> Partition | None:
        """Find a replica by topic name, or by topic id if `topic` is bytes."""
        of_topic = self._by_name.get(topic) if isinstance(topic, str) else self._by_id.get(topic)
        return None if of_topic is None else of_topic.get(index)

    def get(self, tp: TopicPartition) -> Partition | None:
        return self.find(tp.topic, tp.partition)

    def __iter__(self) -> Iterator[Partition]:
        for of_topic in self._by_name.values():
            yield from of_topic.values()

    def __len__(self) -> int:
        return sum(len(of_topic) for of_topic in self._by_name.values())
