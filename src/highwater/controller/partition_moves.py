"""Requests that move partitions to other replicas, and that list the moves (KIP-455): AlterPartitionReassignments and
ListPartitionReassignments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from highwater.config import NodeConfig
from highwater.controller.assignment import check_by_hand
from highwater.controller.decision import Deciding, Decision, error_message
from highwater.controller.elections import Election, Electorate
from highwater.controller.reassignment import check_factor, is_moving, reverted, towards
from highwater.errors import Code, KafkaError
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.names import MAX_LENGTH
from highwater.metadata.pieces import PIECE
from highwater.metadata.topics import Place, TopicImage, nodes
from highwater.wire.codec import Message
from highwater.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
)
from highwater.wire.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from highwater.wire.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from highwater.wire.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def alter_partition_reassignments(
    head: MetadataImage, request: AlterPartitionReassignmentsRequest, config: NodeConfig
) -> Deciding[AlterPartitionReassignmentsResponse]:
    """Each partition is moved or refused by itself. A partition that the request names twice is refused the second
    time: both decisions would be made on the same state."""
    may_change_factor = request.allow_replication_factor_change
    response = AlterPartitionReassignmentsResponse(
        error_message=None, allow_replication_factor_change=may_change_factor
    )
    electorate = Electorate(head, config)
    records: list[Message] = []
    named: set[tuple[str, int]] = set()
    for at, topic in enumerate(request.topics, 1):
        if not at % PIECE:
            yield
        answers = ReassignableTopicResponse(name=topic.name)
        response.responses.append(answers)
        for asked in topic.partitions:
            index = asked.partition_index
            answer = ReassignablePartitionResponse(partition_index=index, error_message=None)
            answers.partitions.append(answer)
            try:
                if (topic.name, index) in named:
                    raise KafkaError(Code.INVALID_REQUEST, "The partition is named twice.")
                named.add((topic.name, index))
                records += _moved(head, electorate, _place(head, topic.name, index), asked, may_change_factor)
            except KafkaError as error:
                answer.error_code = error.code
                if error.code is not Code.NO_REASSIGNMENT_IN_PROGRESS:  # the code says everything
                    answer.error_message = error_message(error)
            if not len(named) % PIECE:
                yield
    return Decision(response, records, why="a client asked for a reassignment")


def _place(head: MetadataImage, name: str, index: int) -> Place:
    """Raises KafkaError. Each of thousands of partitions may have the message with the name, so a name that is too
    long for a topic is cut."""
    topic = head.topics.by_name.get(name)
    if topic is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name[:MAX_LENGTH]}.")
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    return topic, index, partition


def _moved(
    head: MetadataImage, electorate: Electorate, place: Place, asked: ReassignablePartition, may_change_factor: bool
) -> Iterable[Message]:
    """Without replicas, the move that is under way is cancelled. Raises KafkaError."""
    topic, index, partition = place
    if asked.replicas is None:
        back = reverted(partition, electorate.acceptable(partition))
        if back.is_unclean and not electorate.rules(topic).unclean:
            raise KafkaError(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:{index} because it would require an unclean "
                "leader election.",
            )
        record = electorate.change(place, back.isr, target=back.assignment)
    else:
        target = nodes(asked.replicas)
        check_by_hand(head, target)
        if not may_change_factor:
            check_factor(partition, target)
        record = electorate.change(place, partition.isr, Election.ONLINE, target=towards(partition, target))
    return () if record is None else (record,)


def list_partition_reassignments(
    head: MetadataImage, request: ListPartitionReassignmentsRequest
) -> Deciding[ListPartitionReassignmentsResponse]:
    """The moves of the named partitions, or of all partitions. Partitions that are not moving are left out."""
    response = ListPartitionReassignmentsResponse(error_message=None)
    seen = 0
    for topic, indexes in _listed(head, request):
        moving = OngoingTopicReassignment(name=topic.name)
        for index in indexes:
            seen += 1
            if not seen % PIECE:
                yield
            partition = topic.partitions.get(index)
            if partition is not None and is_moving(partition):
                shown: dict[str, Any] = {
                    "replicas": list(partition.replicas),
                    "adding_replicas": list(partition.adding),
                    "removing_replicas": list(partition.removing),
                }
                moving.partitions.append(OngoingPartitionReassignment(partition_index=index, **shown))
        if moving.partitions:
            response.topics.append(moving)
    return Decision(response)


def _listed(
    head: MetadataImage, request: ListPartitionReassignmentsRequest
) -> Iterator[tuple[TopicImage, Iterable[int]]]:
    if request.topics is None:
        for topic in head.topics.by_id.values():
            yield topic, sorted(topic.partitions)
    else:
        for named in request.topics:
            known = head.topics.by_name.get(named.name)
            if known is not None:
                yield known, named.partition_indexes
