"""Creating topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from highwater.config import (
    DEFAULT_REPLICATION_FACTOR,
    NUM_PARTITIONS,
    ConfigError,
    NodeConfig,
    describe_topic,
    validate_topic_configs,
)
from highwater.controller.assignment import assigned_by_hand, placed
from highwater.controller.batches import check_size
from highwater.controller.decision import (
    CLUSTER_NAME,
    MAX_RECORDS,
    Authorize,
    Deciding,
    Decision,
    Randomness,
    allow_all,
    error_message,
    pieces_of,
)
from highwater.controller.identity import fresh_uuid
from highwater.errors import Code, KafkaError
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.configs import ResourceType
from highwater.metadata.names import colliding, why_illegal
from highwater.metadata.pieces import PIECE, Pieces
from highwater.metadata.topics import PartitionImage
from highwater.model import METADATA_TOPIC
from highwater.wire.codec import Message
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from highwater.wire.messages.topic_record import TopicRecord

DEFAULT: Final = -1
"""Stands for the node's default number of partitions or replicas (KIP-464)."""

MAX_PARTITIONS: Final = 10_000

_TOPICS_PER_PIECE: Final = 5


class _Created(NamedTuple):
    result: CreatableTopicResult
    records: list[Message]


def create_topics(
    head: MetadataImage,
    request: CreateTopicsRequest,
    config: NodeConfig,
    random: Randomness,
    authorize: Authorize = allow_all,
) -> Deciding[CreateTopicsResponse]:
    """Each topic gets its own result. `config` must be `in_force` for `head`."""
    times = Counter(topic.name for topic in request.topics)
    results: list[CreatableTopicResult] = []
    records: list[Message] = []
    try:
        _check_size(request.topics, config)
        for topic in request.topics:
            if times[topic.name] > 1:
                continue
            try:
                created = yield from _create(head, topic, config, random, authorize)
            except KafkaError as error:
                results.append(_failed(topic.name, error))
            else:
                results.append(created.result)
                records += created.records
        if len(records) > MAX_RECORDS:
            raise KafkaError(Code.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        yield from check_size(records)
    except KafkaError as error:
        return Decision(CreateTopicsResponse(topics=[_failed(name, error) for name in times]))
    duplicate = KafkaError(Code.INVALID_REQUEST, "Duplicate topic name.")
    results += [_failed(name, duplicate) for name, count in times.items() if count > 1]
    return Decision(CreateTopicsResponse(topics=results), () if request.validate_only else records)


def in_pieces(request: CreateTopicsRequest, config: NodeConfig) -> list[CreateTopicsRequest]:
    """Splits a request; each part is decided by itself, in a turn of its own. Topics are independent, except that
    entries with the same name stay together, to be refused. A request that is refused as a whole stays whole."""
    try:
        _check_size(request.topics, config)
    except KafkaError:
        return [request]
    together: dict[str, list[CreatableTopic]] = {}
    for topic in request.topics:
        together.setdefault(topic.name, []).append(topic)
    return [
        CreateTopicsRequest(
            topics=[topic for topics in piece for topic in topics],
            timeout_ms=request.timeout_ms,
            validate_only=request.validate_only,
        )
        for piece in pieces_of(together.values(), _TOPICS_PER_PIECE)
    ] or [request]


def _failed(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error_message(error))


def _check_size(topics: Sequence[CreatableTopic], config: NodeConfig) -> None:
    default = config.get(NUM_PARTITIONS)
    total = sum(
        len(topic.assignments) or (default if topic.num_partitions == DEFAULT else max(topic.num_partitions, 0))
        for topic in topics
    )
    if total > MAX_PARTITIONS:
        raise KafkaError(Code.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    if total + sum(1 + len(topic.configs) for topic in topics) > MAX_RECORDS:
        raise KafkaError(Code.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


def _create(
    head: MetadataImage, topic: CreatableTopic, config: NodeConfig, random: Randomness, authorize: Authorize
) -> Pieces[_Created]:
    _check_name(head, topic.name, authorize)
    overrides = _checked_configs(topic, config)
    partitions = []
    for partition in _partitions(head, topic, config, random):
        partitions.append(partition)
        if not len(partitions) % PIECE:
            yield
    topic_id = fresh_uuid(random)
    result = CreatableTopicResult(
        name=topic.name, topic_id=topic_id, error_message=None, topic_config_error_code=Code.TOPIC_AUTHORIZATION_FAILED
    )
    if authorize("DescribeConfigs", "Topic", topic.name):
        result.topic_config_error_code = Code.NONE
        result.num_partitions = len(partitions)
        result.replication_factor = len(partitions[0].replicas)
        result.configs = _described(config, overrides)
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
        for name, value in overrides.items()
    ]
    for index, partition in enumerate(partitions):
        records.append(partition.to_record(topic_id, index))
        if index % PIECE == PIECE - 1:
            yield
    return _Created(result, records)


def _check_name(head: MetadataImage, name: str, authorize: Authorize) -> None:
    if name == METADATA_TOPIC:
        raise KafkaError(Code.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    if not (authorize("Create", "Cluster", CLUSTER_NAME) or authorize("Create", "Topic", name)):
        raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    if name in head.topics.by_name:
        raise KafkaError(Code.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if reason := why_illegal(name):
        raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, reason)
    if other := colliding(name, head.topics.by_name):
        raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _checked_configs(topic: CreatableTopic, config: NodeConfig) -> dict[str, str]:
    overrides = {entry.name: entry.value for entry in topic.configs if entry.value is not None}
    if missing := [entry.name for entry in topic.configs if entry.value is None]:
        raise KafkaError(Code.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(missing)}")
    try:
        validate_topic_configs(config, overrides)
    except ConfigError as error:
        raise KafkaError(Code.INVALID_CONFIG, str(error)) from None
    return overrides


def _partitions(
    head: MetadataImage, topic: CreatableTopic, config: NodeConfig, random: Randomness
) -> Iterator[PartitionImage]:
    if topic.assignments:
        yield from _by_hand(head, topic)
        return
    if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
        raise KafkaError(
            Code.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if topic.num_partitions < DEFAULT or topic.num_partitions == 0:
        raise KafkaError(Code.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    count = config.get(NUM_PARTITIONS) if topic.num_partitions == DEFAULT else topic.num_partitions
    factor = config.get(DEFAULT_REPLICATION_FACTOR) if topic.replication_factor == DEFAULT else topic.replication_factor
    yield from placed(head, count, factor, random)


def _by_hand(head: MetadataImage, topic: CreatableTopic) -> Iterator[PartitionImage]:
    for name, value in (("replication factor", topic.replication_factor), ("numPartitions", topic.num_partitions)):
        if value != DEFAULT:
            raise KafkaError(
                Code.INVALID_REQUEST, f"A manual partition assignment was specified, but {name} was not set to -1."
            )
    by_index: dict[int, list[int]] = {}
    for assignment in topic.assignments:
        if assignment.partition_index in by_index:
            raise KafkaError(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {assignment.partition_index}",
            )
        by_index[assignment.partition_index] = assignment.broker_ids
    yield from assigned_by_hand(head, sorted(by_index.items()))
    if sorted(by_index) != list(range(len(by_index))):
        raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence")


def _described(config: NodeConfig, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=row.name,
            value=row.value,
            read_only=row.read_only,
            config_source=row.source,
            is_sensitive=row.sensitive,
        )
        for row in describe_topic(config, overrides)
    ]
