"""Topics and partitions: who replicates what, who leads, and which replicas are in sync."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from highwater.metadata.brokers import DIRECTORY_MIGRATING
from highwater.metadata.draft import Draft, Inconsistent
from highwater.model import NO_NODE, NodeId, Uuid, uuid_text
from highwater.wire.messages.clear_elr_record import ClearElrRecord
from highwater.wire.messages.partition_change_record import PartitionChangeRecord
from highwater.wire.messages.partition_record import PartitionRecord
from highwater.wire.messages.remove_topic_record import RemoveTopicRecord
from highwater.wire.messages.topic_record import TopicRecord

LEADER_UNCHANGED = -2
RECOVERY_UNCHANGED = -1


class Recovery(IntEnum):
    """Whether the leader still recovers from an unclean election."""

    RECOVERED = 0
    RECOVERING = 1


class PartitionImage(NamedTuple):
    replicas: tuple[NodeId, ...]
    directories: tuple[Uuid, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: int
    partition_epoch: int
    recovery: Recovery = Recovery.RECOVERED
    elr: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()
    adding: tuple[NodeId, ...] = ()

    @classmethod
    def of_record(cls, record: PartitionRecord) -> PartitionImage:
        replicas = nodes(record.replicas)
        return cls(
            replicas=replicas,
            directories=_directories(record.directories, replicas),
            isr=nodes(record.isr),
            leader=NodeId(record.leader),
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            recovery=_recovery(record.leader_recovery_state),
            elr=nodes(record.eligible_leader_replicas),
            last_known_elr=nodes(record.last_known_elr),
            removing=nodes(record.removing_replicas),
            adding=nodes(record.adding_replicas),
        )

    def changed_by(self, record: PartitionChangeRecord) -> PartitionImage:
        """A change raises the partition epoch; one that names a leader, even the same one, the leader epoch too."""
        replicas = self.replicas if record.replicas is None else nodes(record.replicas)
        keeps_leader = record.leader == LEADER_UNCHANGED
        keeps_recovery = record.leader_recovery_state == RECOVERY_UNCHANGED
        return PartitionImage(
            replicas=replicas,
            directories=_directories(self.directories if record.directories is None else record.directories, replicas),
            isr=self.isr if record.isr is None else nodes(record.isr),
            leader=self.leader if keeps_leader else NodeId(record.leader),
            leader_epoch=self.leader_epoch if keeps_leader else self.leader_epoch + 1,
            partition_epoch=self.partition_epoch + 1,
            recovery=self.recovery if keeps_recovery else _recovery(record.leader_recovery_state),
            elr=self.elr if record.eligible_leader_replicas is None else nodes(record.eligible_leader_replicas),
            last_known_elr=self.last_known_elr if record.last_known_elr is None else nodes(record.last_known_elr),
            removing=self.removing if record.removing_replicas is None else nodes(record.removing_replicas),
            adding=self.adding if record.adding_replicas is None else nodes(record.adding_replicas),
        )

    def to_record(self, topic_id: Uuid, index: int) -> PartitionRecord:
        return PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing),
            adding_replicas=list(self.adding),
            leader=self.leader,
            leader_recovery_state=int(self.recovery),
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(self.directories),
            eligible_leader_replicas=list(self.elr) or None,
            last_known_elr=list(self.last_known_elr) or None,
        )

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_NODE

    def directory(self, replica: NodeId) -> Uuid:
        return self.directories[self.replicas.index(replica)]


class TopicImage(NamedTuple):
    name: str
    id: Uuid
    partitions: Mapping[int, PartitionImage]


@dataclass(frozen=True, slots=True)
class TopicsImage:
    by_id: Mapping[Uuid, TopicImage] = field(default_factory=dict)
    by_name: Mapping[str, TopicImage] = field(default_factory=dict)

    def partition(self, name: str, index: int) -> PartitionImage | None:
        topic = self.by_name.get(name)
        return None if topic is None else topic.partitions.get(index)

    def each_partition(self) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        for topic in self.by_id.values():
            for index, partition in topic.partitions.items():
                yield topic, index, partition

    def records(self) -> Iterator[TopicRecord | PartitionRecord]:
        for topic_id in sorted(self.by_id):
            topic = self.by_id[topic_id]
            yield TopicRecord(name=topic.name, topic_id=topic_id)
            for index in sorted(topic.partitions):
                yield topic.partitions[index].to_record(topic_id, index)


class TopicsDraft:
    """Topics under change. `touched` names the partitions written; `created` and `deleted` compare with the base."""

    __slots__ = ("_base", "_by_id", "_by_name", "_partitions", "created", "deleted", "touched")

    def __init__(self, base: TopicsImage) -> None:
        self._base = base
        self._by_id = Draft(base.by_id)
        self._by_name = Draft(base.by_name)
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

    def remove(self, record: RemoveTopicRecord) -> str:
        """The name that is free again."""
        topic = self._topic(record.topic_id)
        self._by_id.remove(topic.id)
        self._by_name.remove(topic.name)
        self._partitions.pop(topic.id, None)
        self.touched.pop(topic.id, None)
        if topic.id in self.created:
            del self.created[topic.id]
        else:
            self.deleted[topic.id] = self._base.by_id[topic.id]
        return topic.name

    def put_partition(self, record: PartitionRecord) -> None:
        self._put(self._topic(record.topic_id), record.partition_id, PartitionImage.of_record(record))

    def change_partition(self, record: PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id)
        before = self._under_change(topic).get(record.partition_id)
        if before is None:
            raise Inconsistent(f"a record changes partition {topic.name}-{record.partition_id}, which does not exist")
        self._put(topic, record.partition_id, before.changed_by(record))

    def clear_elr(self, record: ClearElrRecord) -> None:
        """An empty name means every topic."""
        if record.topic_name:
            topic = self._by_name.get(record.topic_name)
            if topic is None:
                raise Inconsistent(f"a record clears the ELR of topic {record.topic_name}, which does not exist")
            topics = [topic]
        else:
            topics = list(self._by_id.finish().values())
        for topic in topics:
            for index, partition in list(self._under_change(topic).finish().items()):
                if partition.elr or partition.last_known_elr:
                    cleared = PartitionChangeRecord(eligible_leader_replicas=[], last_known_elr=[])
                    self._put(topic, index, partition.changed_by(cleared))

    def finish(self) -> TopicsImage:
        for topic_id, draft in self._partitions.items():
            topic = self._topic(topic_id)
            partitions = draft.finish()
            if partitions is not topic.partitions:
                topic = topic._replace(partitions=partitions)
                self._by_id.put(topic_id, topic)
                self._by_name.put(topic.name, topic)
        by_id = self._by_id.finish()
        return self._base if by_id is self._base.by_id else TopicsImage(by_id, self._by_name.finish())

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
        self._under_change(topic).put(index, partition)
        self.touched.setdefault(topic.id, {})[index] = None


def nodes(ids: Sequence[int] | None) -> tuple[NodeId, ...]:
    """Null, as records older than the field have it, is none."""
    return tuple(NodeId(i) for i in ids or ())


def _directories(directories: Sequence[Uuid], replicas: tuple[NodeId, ...]) -> tuple[Uuid, ...]:
    """Records from before KIP-858 name no directories."""
    if all(directory == DIRECTORY_MIGRATING for directory in directories):
        return (DIRECTORY_MIGRATING,) * len(replicas)
    if len(directories) != len(replicas):
        raise Inconsistent(f"{len(directories)} directories for {len(replicas)} replicas")
    return tuple(directories)


def _recovery(state: int) -> Recovery:
    try:
        return Recovery(state)
    except ValueError:
        raise Inconsistent(f"unknown leader recovery state {state}") from None
