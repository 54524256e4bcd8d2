"""A leader proposes a new ISR (AlterPartition, KIP-497); the controller checks it and decides (KIP-841)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from highwater.config import NodeConfig
from highwater.controller.brokers import current_registration
from highwater.controller.decision import Decision
from highwater.controller.elections import Electorate
from highwater.errors import Code, KafkaError
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.topics import PartitionImage, Recovery, TopicImage
from highwater.model import NodeId, Uuid
from highwater.wire.codec import Message
from highwater.wire.messages.alter_partition_request import AlterPartitionRequest
from highwater.wire.messages.alter_partition_request import PartitionData as Asked
from highwater.wire.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from highwater.wire.messages.partition_change_record import PartitionChangeRecord

ANY_EPOCH = -1
"""Matches every registered incarnation of a member that stays in the ISR: its leader may not know its epoch yet."""
WITH_EPOCHS = 3
"""The first version in which every member of the ISR is named with its broker epoch (KIP-903)."""


class IsrMember(NamedTuple):
    broker: NodeId
    epoch: int


def alter_partition(
    head: MetadataImage,
    request: AlterPartitionRequest,
    version: int,
    config: NodeConfig,
    leaving: Collection[NodeId] = (),
) -> Decision[AlterPartitionResponse]:
    """Each partition is changed or refused by itself. `config` must be `in_force` for `head`. `leaving`: brokers that
    are being fenced, which takes several decisions."""
    try:
        leader = current_registration(head, request.broker_id, request.broker_epoch).id
    except KafkaError as error:
        return Decision(AlterPartitionResponse(error_code=error.code), refusal=error)
    round_ = _Round(head, config, leader, version, leaving)
    topics = [
        TopicData(
            topic_id=topic.topic_id, partitions=[round_.result(topic.topic_id, asked) for asked in topic.partitions]
        )
        for topic in request.topics
    ]
    why = f"leader {leader} asked for it"
    return Decision(AlterPartitionResponse(topics=topics), round_.records, round_.refusal, why)


class _Round:
    """The proposals of one request."""

    __slots__ = ("_after", "_electorate", "_head", "_leader", "_leaving", "_version", "records", "refusal")

    def __init__(
        self, head: MetadataImage, config: NodeConfig, leader: NodeId, version: int, leaving: Collection[NodeId]
    ) -> None:
        self._head = head
        self._electorate = Electorate(head, config)
        self._leader = leader
        self._leaving = leaving
        self._version = version
        self._after: dict[tuple[Uuid, int], PartitionImage] = {}
        self.records: list[Message] = []
        self.refusal: KafkaError | None = None

    def result(self, topic_id: Uuid, asked: Asked) -> PartitionData:
        index = asked.partition_index
        try:
            after = self._decide(topic_id, asked)
        except KafkaError as error:
            self.refusal = self.refusal or error
            return PartitionData(partition_index=index, error_code=error.code)
        return PartitionData(
            partition_index=index,
            leader_id=after.leader,
            leader_epoch=after.leader_epoch,
            isr=list(after.isr),
            leader_recovery_state=int(after.recovery),
            partition_epoch=after.partition_epoch,
        )

    def _decide(self, topic_id: Uuid, asked: Asked) -> PartitionImage:
        """The partition after the change. Raises KafkaError."""
        topic = self._head.topics.by_id.get(topic_id)
        if topic is None:
            raise KafkaError(Code.UNKNOWN_TOPIC_ID)
        partition = self._current(topic, asked.partition_index)
        check_epochs(partition, asked, self._leader)
        members = proposed(asked, self._version)
        if asked.partition_epoch < partition.partition_epoch:
            if is_repeated(partition, asked, members):
                return partition
            raise KafkaError(Code.INVALID_UPDATE_VERSION)
        recovery = check_isr(partition, asked, members)
        try:
            check_eligible(self._head, partition, members, self._leaving)
        except KafkaError:
            # The leader goes on without this member after the refusal. A copy of the request may still be on its way,
            # on a connection that the leader has lost. It must not be granted later, so the partition epoch rises here.
            self._put(topic_id, partition, PartitionChangeRecord(topic_id=topic_id, partition_id=asked.partition_index))
            raise
        record = self._electorate.change(
            (topic, asked.partition_index, partition), [member.broker for member in members], recovery=recovery
        )
        if record is None:
            return partition
        after = self._put(topic_id, partition, record)
        if after.leader_epoch != partition.leader_epoch and after.leader != self._leader:
            # The change is committed nevertheless. It may have ended a reassignment that removed the caller, for
            # example.
            raise KafkaError(Code.NEW_LEADER_ELECTED)
        return after

    def _put(self, topic_id: Uuid, partition: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
        after = self._after[topic_id, record.partition_id] = partition.changed_by(record)
        self.records.append(record)
        return after

    def _current(self, topic: TopicImage, index: int) -> PartitionImage:
        partition = self._after.get((topic.id, index)) or topic.partitions.get(index)
        if partition is None:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
        return partition


def proposed(asked: Asked, version: int) -> list[IsrMember]:
    if version >= WITH_EPOCHS:
        return [IsrMember(NodeId(member.broker_id), member.broker_epoch) for member in asked.new_isr_with_epochs]
    return [IsrMember(NodeId(broker), ANY_EPOCH) for broker in asked.new_isr]


def check_epochs(partition: PartitionImage, asked: Asked, leader: NodeId) -> None:
    """Raises KafkaError. A leader with newer epochs than this controller got them from the controller's successor."""
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        raise KafkaError(Code.NOT_CONTROLLER)
    if asked.leader_epoch < partition.leader_epoch:
        raise KafkaError(Code.FENCED_LEADER_EPOCH)
    if leader != partition.leader:
        raise KafkaError(Code.INVALID_REQUEST, f"the leader is {partition.leader}")


def is_repeated(partition: PartitionImage, asked: Asked, members: Sequence[IsrMember]) -> bool:
    """Whether the change is committed already. Its response was lost, and the leader repeats it (KAFKA-14144)."""
    same_isr = sorted(member.broker for member in members) == sorted(partition.isr)
    return same_isr and asked.leader_recovery_state == partition.recovery


def check_isr(partition: PartitionImage, asked: Asked, members: Sequence[IsrMember]) -> Recovery:
    """Returns the recovery state of the request. Raises KafkaError(INVALID_REQUEST)."""
    isr = [member.broker for member in members]
    if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas):
        raise KafkaError(Code.INVALID_REQUEST, "the ISR is no subset of the replicas")
    if partition.leader not in isr:
        raise KafkaError(Code.INVALID_REQUEST, "the ISR lacks the leader")
    try:
        recovery = Recovery(asked.leader_recovery_state)
    except ValueError:
        raise KafkaError(Code.INVALID_REQUEST, "unknown recovery state") from None
    if recovery is Recovery.RECOVERING and len(isr) > 1:
        raise KafkaError(Code.INVALID_REQUEST, "no replica is in sync with a leader that recovers")
    if recovery is Recovery.RECOVERING and partition.recovery is Recovery.RECOVERED:
        raise KafkaError(Code.INVALID_REQUEST, "a leader that has recovered does not recover again")
    return recovery


def check_eligible(
    head: MetadataImage, partition: PartitionImage, members: Sequence[IsrMember], leaving: Collection[NodeId] = ()
) -> None:
    """Raises KafkaError(INELIGIBLE_REPLICA). A broker that is fenced or shuts down may be gone before it has every
    acknowledged record. Another incarnation of it, or a replica in a lost directory, may have lost such records.

    Kafka lets a replica join even if its incarnation is not known. But then its leader does not know what it has.
    """
    for member in members:
        broker = head.brokers.get(member.broker)
        if broker is None or not broker.active:
            raise KafkaError(Code.INELIGIBLE_REPLICA, f"broker {member.broker} is not active")
        joins = member.broker not in partition.isr
        if joins and member.broker in leaving:
            raise KafkaError(Code.INELIGIBLE_REPLICA, f"broker {member.broker} is being fenced")
        if member.epoch != broker.epoch and (joins or member.epoch != ANY_EPOCH):
            raise KafkaError(Code.INELIGIBLE_REPLICA, f"broker {member.broker} of epoch {member.epoch}")
        if joins and not broker.has_online(partition.directory(member.broker)):
            raise KafkaError(Code.INELIGIBLE_REPLICA, f"the directory of replica {member.broker} is not online")
