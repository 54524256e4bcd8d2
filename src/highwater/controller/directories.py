"""Which directory holds a replica (AssignReplicasToDirs, KIP-858). A broker with a new disk reports where its replicas
are now; otherwise it could never again lead the partitions of its old disk."""

from __future__ import annotations

from highwater.config import NodeConfig
from highwater.controller.brokers import current_registration
from highwater.controller.decision import Decision
from highwater.controller.elections import Election, Electorate, reelect
from highwater.errors import Code, KafkaError
from highwater.metadata.brokers import DIRECTORY_LOST, DIRECTORY_TROUBLED, BrokerRegistration
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.partitions import LEADER_UNCHANGED, PartitionImage
from highwater.metadata.topics import Place
from highwater.model import NO_NODE, Uuid
from highwater.wire.codec import Message
from highwater.wire.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from highwater.wire.messages.assign_replicas_to_dirs_response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)
from highwater.wire.messages.partition_change_record import PartitionChangeRecord


def assign_replicas_to_dirs(
    head: MetadataImage, request: AssignReplicasToDirsRequest, config: NodeConfig
) -> Decision[AssignReplicasToDirsResponse]:
    """Each partition is decided by itself. A replica in an offline directory leaves the ISR. A replica that has lost
    its log leaves the ELR, too, if others have everything. Then the leader epoch rises even if the leader stays: a
    fetch of the lost log may still be on its way, and only its epoch distinguishes it from a fetch of the new log."""
    try:
        broker = current_registration(head, request.broker_id, request.broker_epoch)
    except KafkaError as error:
        return Decision(AssignReplicasToDirsResponse(error_code=error.code), refusal=error)
    electorate = Electorate(head, config)
    without = Electorate(head, config, gone=(broker.id,))
    records: list[Message] = []
    offline: list[Place] = []
    response = AssignReplicasToDirsResponse()
    for directory in request.directories:
        answers = DirectoryData(id=directory.id)
        response.directories.append(answers)
        for topic in directory.topics:
            answer = TopicData(topic_id=topic.topic_id)
            answers.topics.append(answer)
            for asked in topic.partitions:
                result = PartitionData(partition_index=asked.partition_index)
                answer.partitions.append(result)
                try:
                    place = _place(head, broker, topic.topic_id, asked.partition_index)
                    _check_others_have_it(place, broker, directory.id)
                except KafkaError as error:
                    result.error_code = error.code
                    continue
                if directory.id in (DIRECTORY_LOST, DIRECTORY_TROUBLED):
                    records += _lost(without, broker, place)
                    continue
                records += _moved(electorate, broker, place, directory.id)
                if not broker.has_online(directory.id):
                    offline.append(place)
    records += reelect(head, config, offline, leaving=broker.id)
    return Decision(response, records, why=f"broker {broker.id} has its replicas elsewhere now")


def _place(head: MetadataImage, broker: BrokerRegistration, topic_id: Uuid, index: int) -> Place:
    """Raises KafkaError."""
    topic = head.topics.by_id.get(topic_id)
    if topic is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_ID)
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
    if broker.id not in partition.replicas:
        raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER)
    return topic, index, partition


def _is_last(partition: PartitionImage, broker: BrokerRegistration) -> bool:
    """Whether no other replica is in the ISR. If the ISR is empty, every replica counts as the last."""
    return all(replica == broker.id for replica in partition.isr)


def _check_others_have_it(place: Place, broker: BrokerRegistration, directory: Uuid) -> None:
    """Raises KafkaError for the last copy: what can still be read of it is not given up, even if it is damaged."""
    if directory == DIRECTORY_TROUBLED and _is_last(place[2], broker):
        raise KafkaError(Code.ELIGIBLE_LEADERS_NOT_AVAILABLE)


def _moved(electorate: Electorate, broker: BrokerRegistration, place: Place, directory: Uuid) -> list[Message]:
    """The replica is in another directory now. The record also holds everything else that is due for the partition, as
    every change does: an election may have waited for this replica, if it was the last copy and had failed."""
    topic, index, partition = place
    is_back = partition.directory(broker.id) == DIRECTORY_LOST
    seen = _in(partition, broker, directory) if is_back else partition
    record = electorate.change((topic, index, seen), partition.isr, Election.ONLINE)
    if record is None:
        record = PartitionChangeRecord(topic_id=topic.id, partition_id=index)
    _put(partition, record, broker, directory)
    return [record] if record != PartitionChangeRecord(topic_id=topic.id, partition_id=index) else []


def _lost(electorate: Electorate, broker: BrokerRegistration, place: Place) -> list[Message]:
    """One record removes the replica from the ISR and the ELR, in a new leader epoch. The last copy stays in them but
    stops leading. It is elected again when its broker has it back, unless there was an unclean election meanwhile."""
    topic, index, partition = place
    is_last = _is_last(partition, broker)
    if is_last and partition.directory(broker.id) == DIRECTORY_LOST:
        return []
    isr = [replica for replica in partition.isr if replica != broker.id]
    record = electorate.change(place, isr, unclean_shutdown=NO_NODE if is_last else broker.id)
    if record is None:
        record = PartitionChangeRecord(topic_id=topic.id, partition_id=index)
    _put(partition, record, broker, DIRECTORY_LOST)
    if record.leader == LEADER_UNCHANGED:
        record.leader = partition.leader
    return [record]


def _put(partition: PartitionImage, record: PartitionChangeRecord, broker: BrokerRegistration, directory: Uuid) -> None:
    """Adds the directory of the broker's replica to the record."""
    after = _in(partition.changed_by(record), broker, directory)
    if after.directories != partition.directories:
        record.directories = list(after.directories)


def _in(partition: PartitionImage, broker: BrokerRegistration, directory: Uuid) -> PartitionImage:
    return partition._replace(
        directories=tuple(
            directory if replica == broker.id else partition.directory(replica) for replica in partition.replicas
        )
    )
