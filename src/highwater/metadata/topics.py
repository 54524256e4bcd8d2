"""Topics and their partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from highwater.metadata.draft import Draft, Inconsistent
from highwater.metadata.hosting import Hosting, HostingDraft, Keys
from highwater.metadata.partitions import PartitionImage as PartitionImage
from highwater.metadata.partitions import Recovery as Recovery
from highwater.metadata.partitions import nodes as nodes
from highwater.metadata.pieces import PIECE, Pieces
from highwater.model import NodeId, Uuid, uuid_text
from highwater.wire.messages.clear_elr_record import ClearElrRecord
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.remove_topic_record import RemoveTopicRecord
from highwater.wire.messages.topic_record import TopicRecord


class TopicImage(NamedTuple):
    name: str
    id: Uuid
    partitions: Mapping[int, PartitionImage]


Place = tuple[TopicImage, int, PartitionImage]


@dataclass(frozen=True, slots=True)
class TopicsImage:
    by_id: Mapping[Uuid, TopicImage] = field(default_factory=dict)
    by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    hosting: Hosting = field(default_factory=Hosting)

    def partition(self, name: str, index: int) -> PartitionImage | None:
        topic = self.by_name.get(name)
        return None if topic is None else topic.partitions.get(index)

    def each_partition(self) -> Iterator[Place]:
        for topic in self.by_id.values():
            for index, partition in topic.partitions.items():
                yield topic, index, partition

    def hosted_by(self, broker: NodeId) -> Iterator[Place]:
        """Every partition that has a replica on this broker."""
        return self._places(self.hosting.of(broker))

    def astray(self) -> Iterator[Place]:
        """Every partition without a leader, or with a leader that is not the preferred replica."""
        return self._places(self.hosting.astray)

    def _places(self, keys: Keys) -> Iterator[Place]:
        for topic_id, index in keys:
            topic = self.by_id[topic_id]
            yield topic, index, topic.partitions[index]

    def records(self) -> Iterator[TopicRecord | PartitionRecord]:
        for topic_id in sorted(self.by_id):
            topic = self.by_id[topic_id]
            yield TopicRecord(name=topic.name, topic_id=topic_id)
            for index in sorted(topic.partitions):
                yield topic.partitions[index].to_record(topic_id, index)


class TopicsDraft:
    """Topics that are being changed. `touched` names the partitions that were written. `created` and `deleted` are
    relative to the base."""

    __slots__ = ("_base", "_by_id", "_by_name", "_hosting", "_partitions", "created", "deleted", "touched")

    def __init__(self, base: TopicsImage) -> None:
        self._base = base
        self._by_id = Draft(base.by_id)
        self._by_name = Draft(base.by_name)
        self._hosting = HostingDraft(base.hosting)
        self._partitions: dict[Uuid, Draft[int, PartitionImage]] = {}
        self.created: dict[Uuid, None] = {}
        self.deleted: dict[Uuid, TopicImage] = {}
        self.touched: dict[Uuid, dict[int, None]] = {}

    def create(self, record: TopicRecord) -> None:
        if self._by_name.get(record.name) is not None:
            raise Inconsistent(f"topic {record.name} is created a second time")
        if self._by_id.get(record.topic_id) is not None:
            raise Inconsistent(f"topic id {uuid_text(record.topic_id)} is used a second time")
        topic = TopicImage(record.name, record.topic_id, {})
        self._by_id.put(topic.id, topic)
        self._by_name.put(topic.name, topic)
        self.created[topic.id] = None
        self.touched[topic.id] = {}

    def remove(self, record: RemoveTopicRecord) -> Pieces[tuple[str, int]]:
        """Returns the topic's name, and how many partitions were removed since the last piece."""
        topic = self._topic(record.topic_id)
        self._by_id.remove(topic.id)
        self._by_name.remove(topic.name)
        removed = 0
        for index, partition in self._under_change(topic).finish().items():
            self._hosting.change((topic.id, index), partition, None)
            removed += 1
            if removed == PIECE:
                removed = 0
                yield
        del self._partitions[topic.id]
        self.touched.pop(topic.id, None)
        if topic.id in self.created:
            del self.created[topic.id]
        else:
            self.deleted[topic.id] = self._base.by_id[topic.id]
        return topic.name, removed

    def put_partition(self, record: PartitionRecord) -> None:
        self._put(self._topic(record.topic_id), record.partition_id, PartitionImage.of_record(record))

    def change_partition(self, record: PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id)
        before = self._under_change(topic).get(record.partition_id)
        if before is None:
            raise Inconsistent(f"a record changes partition {topic.name}-{record.partition_id}, which does not exist")
        self._put(topic, record.partition_id, before.changed_by(record))

    def clear_elr(self, record: ClearElrRecord) -> Pieces[int]:
        """Clears the ELR of one topic, or of every topic if the name is empty. Returns how many partitions were checked
        since the last piece."""
        if record.topic_name:
            topic = self._by_name.get(record.topic_name)
            if topic is None:
                raise Inconsistent(f"a record clears the ELR of topic {record.topic_name}, which does not exist")
            topics = [topic]
        else:
            topics = list(self._by_id.finish().values())
        looked_at = 0
        for topic in topics:
            for index, partition in list(self._under_change(topic).finish().items()):
                if partition.elr or partition.last_known_elr:
                    cleared = PartitionChangeRecord(eligible_leader_replicas=[], last_known_elr=[])
                    self._put(topic, index, partition.changed_by(cleared))
                looked_at += 1
                if looked_at == PIECE:
                    looked_at = 0
                    yield
        return looked_at

    def finish(self) -> TopicsImage:
        for topic_id, draft in self._partitions.items():
            topic = self._topic(topic_id)
            partitions = draft.finish()
            if partitions is not topic.partitions:
                topic = topic._replace(partitions=partitions)
                self._by_id.put(topic_id, topic)
                self._by_name.put(topic.name, topic)
        by_id = self._by_id.finish()
        if by_id is self._base.by_id:
            return self._base
        return TopicsImage(by_id, self._by_name.finish(), self._hosting.finish())

    def _topic(self, topic_id: Uuid) -> TopicImage:
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise Inconsistent(f"a record names topic id {uuid_text(topic_id)}, which does not exist")
        return topic

    def _under_change(self, topic: TopicImage) -> Draft[int, PartitionImage]:
        draft = self._partitions.get(topic.id)
        if draft is None:
            draft = self._partitions[topic.id] = Draft(topic.partitions)
        return draft

    def _put(self, topic: TopicImage, index: int, partition: PartitionImage) -> None:
        draft = self._under_change(topic)
        self._hosting.change((topic.id, index), draft.get(index), partition)
        draft.put(index, partition)
        self.touched.setdefault(topic.id, {})[index] = None
