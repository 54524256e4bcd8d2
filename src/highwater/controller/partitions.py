"""Adding partitions to topics."""

from __future__ import annotations

from collections import Counter

from highwater.controller.assignment import assigned_by_hand, placed
from highwater.controller.batches import check_size
from highwater.controller.decision import (
    MAX_RECORDS,
    Authorize,
    Deciding,
    Decision,
    Randomness,
    allow_all,
    error_message,
)
from highwater.controller.reassignment import factor_of
from highwater.errors import Code, KafkaError
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.pieces import PIECE, Pieces
from highwater.wire.codec import Message
from highwater.wire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from highwater.wire.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult


def create_partitions(
    head: MetadataImage,
    request: CreatePartitionsRequest,
    random: Randomness,
    authorize: Authorize = allow_all,
) -> Deciding[CreatePartitionsResponse]:
    times = Counter(topic.name for topic in request.topics)
    results: list[CreatePartitionsTopicResult] = []
    records: list[Message] = []
    size = 0
    for topic in {topic.name: topic for topic in request.topics}.values():
        result = CreatePartitionsTopicResult(name=topic.name)
        try:
            if times[topic.name] > 1:
                raise KafkaError(Code.INVALID_REQUEST, "Duplicate topic name.")
            if not authorize("Alter", "Topic", topic.name):
                raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
            added = yield from _additional(head, topic, random, MAX_RECORDS - len(records))
            size = yield from check_size(added, size)
            records += added
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error_message(error)
        results.append(result)
        if not len(results) % PIECE:
            yield
    return Decision(CreatePartitionsResponse(results=results), () if request.validate_only else records)


def _additional(
    head: MetadataImage, asked: CreatePartitionsTopic, random: Randomness, room: int
) -> Pieces[list[Message]]:
    topic = head.topics.by_name.get(asked.name)
    if topic is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
    existing = len(topic.partitions)
    if asked.count == existing:
        raise KafkaError(Code.INVALID_PARTITIONS, f"Topic already has {existing} partition(s).")
    if asked.count < existing:
        raise KafkaError(
            Code.INVALID_PARTITIONS,
            f"The topic {asked.name} currently has {existing} partition(s); {asked.count} would not be an increase.",
        )
    additional = asked.count - existing
    if asked.assignments is not None and len(asked.assignments) != additional:
        raise KafkaError(
            Code.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(asked.assignments)} "
            "assignment(s) were specified.",
        )
    if additional > room:
        raise KafkaError(Code.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    replication_factor = factor_of(topic.partitions[0])
    if asked.assignments is None:
        partitions = placed(head, additional, replication_factor, random)
    else:
        by_hand = ((existing + n, assignment.broker_ids) for n, assignment in enumerate(asked.assignments))
        partitions = assigned_by_hand(head, by_hand, replication_factor)
    added: list[Message] = []
    for partition in partitions:
        added.append(partition.to_record(topic.id, existing + len(added)))
        if not len(added) % PIECE:
            yield
    return added
