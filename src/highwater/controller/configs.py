"""Changing the dynamic settings of topics, of brokers and of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from highwater.config import (
    MIN_INSYNC_REPLICAS,
    ConfigError,
    NodeConfig,
    validate_broker_configs,
    validate_topic_configs,
)
from highwater.config.alteration import Alteration, Operation, check_bounds
from highwater.controller.batches import check_size
from highwater.controller.decision import (
    CLUSTER_NAME,
    MAX_RECORDS,
    Authorize,
    Deciding,
    Decision,
    allow_all,
    error_message,
)
from highwater.controller.elections import leaderless
from highwater.errors import Code, KafkaError
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.configs import CLUSTER_DEFAULT, ConfigResource, ResourceType, broker_resource
from highwater.metadata.names import why_illegal
from highwater.metadata.pieces import Pieces
from highwater.wire.codec import Message
from highwater.wire.messages.alter_configs_request import AlterableConfig, AlterConfigsRequest
from highwater.wire.messages.alter_configs_response import AlterConfigsResourceResponse as ReplacedConfigs
from highwater.wire.messages.alter_configs_response import AlterConfigsResponse
from highwater.wire.messages.clear_elr_record import ClearElrRecord
from highwater.wire.messages.config_record import ConfigRecord
from highwater.wire.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from highwater.wire.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from highwater.wire.messages.partition_change_record import PartitionChangeRecord

_RESOURCES_PER_PIECE: Final = 20
Asked = list[tuple[ConfigResource, list[Alteration]]]


def incremental_alter_configs(
    head: MetadataImage,
    request: IncrementalAlterConfigsRequest,
    config: NodeConfig,
    authorize: Authorize = allow_all,
) -> Deciding[IncrementalAlterConfigsResponse]:
    """Each resource is changed whole or not at all. `config` must be `in_force` for `head`."""
    asked = [
        (
            ConfigResource(resource.resource_type, resource.resource_name),
            [Alteration(c.name, c.config_operation, c.value) for c in resource.configs],
        )
        for resource in request.resources
    ]
    answers, records = yield from _alter(head, asked, config, authorize)
    responses = [
        AlterConfigsResourceResponse(
            resource_type=resource.type, resource_name=resource.name, error_code=code, error_message=message
        )
        for resource, code, message in answers
    ]
    return Decision(IncrementalAlterConfigsResponse(responses=responses), () if request.validate_only else records)


def alter_configs(
    head: MetadataImage, request: AlterConfigsRequest, config: NodeConfig, authorize: Authorize = allow_all
) -> Deciding[AlterConfigsResponse]:
    """As `incremental_alter_configs`, but the request has all settings of a resource: others lose their values."""
    asked = [
        (resource, [*_left_out(head, resource, given), *(Alteration(c.name, Operation.SET, c.value) for c in given)])
        for resource, given in (
            (ConfigResource(each.resource_type, each.resource_name), each.configs) for each in request.resources
        )
    ]
    answers, records = yield from _alter(head, asked, config, authorize)
    responses = [
        ReplacedConfigs(
            resource_type=resource.type, resource_name=resource.name, error_code=code, error_message=message
        )
        for resource, code, message in answers
    ]
    return Decision(AlterConfigsResponse(responses=responses), () if request.validate_only else records)


def _left_out(head: MetadataImage, resource: ConfigResource, given: Sequence[AlterableConfig]) -> Iterator[Alteration]:
    kept = {each.name for each in given}
    return (Alteration(name, Operation.DELETE, None) for name in head.configs.of(resource) if name not in kept)


def _alter(
    head: MetadataImage, asked: Asked, config: NodeConfig, authorize: Authorize
) -> Pieces[tuple[list[tuple[ConfigResource, Code, str | None]], list[Message]]]:
    times = Counter(resource for resource, _ in asked)
    answers: list[tuple[ConfigResource, Code, str | None]] = []
    records: list[Message] = []
    size = 0
    for resource, alterations in asked:
        try:
            if times[resource] > 1:
                raise KafkaError(Code.INVALID_REQUEST, "Each resource must appear at most once.")
            _check_resource(head, resource, authorize)
            made = _alter_resource(head, resource, alterations, config)
            if len(records) + len(made) > MAX_RECORDS:
                raise KafkaError(Code.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
            size = yield from check_size(made, size)
        except KafkaError as error:
            answers.append((resource, error.code, error_message(error)))
        else:
            answers.append((resource, Code.NONE, None))
            records += made
        if not len(answers) % _RESOURCES_PER_PIECE:
            yield
    return answers, records


def _check_resource(head: MetadataImage, resource: ConfigResource, authorize: Authorize) -> None:
    if resource.type == ResourceType.TOPIC:
        _check_topic(head, resource.name, authorize)
    elif resource.type == ResourceType.BROKER:
        _check_broker(head, resource.name, authorize)
    elif resource.type in list(ResourceType):
        raise KafkaError(
            Code.INVALID_REQUEST, f"Resource type {ResourceType(resource.type).name} has no settings here."
        )
    else:
        raise KafkaError(Code.UNSUPPORTED_VERSION, f"Unknown resource type {resource.type}.")


def _check_topic(head: MetadataImage, name: str, authorize: Authorize) -> None:
    if not authorize("AlterConfigs", "Topic", name):
        raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
    if not name:
        raise KafkaError(Code.INVALID_REQUEST, "Default topic resources are not allowed.")
    if reason := why_illegal(name):
        raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, reason)
    if name not in head.topics.by_name:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _check_broker(head: MetadataImage, name: str, authorize: Authorize) -> None:
    if not authorize("AlterConfigs", "Cluster", CLUSTER_NAME):
        raise KafkaError(Code.CLUSTER_AUTHORIZATION_FAILED)
    if not name:
        return
    digits = name.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise KafkaError(Code.INVALID_REQUEST, "Unable to parse broker name as a base 10 number.")
    node = int(name)
    if node < 0:
        raise KafkaError(Code.INVALID_REQUEST, "Invalid negative broker ID.")
    if node not in head.brokers.by_id and node not in head.controllers.by_id:
        raise KafkaError(Code.BROKER_ID_NOT_REGISTERED, f"No node with id {node} found.")


def _alter_resource(
    head: MetadataImage, resource: ConfigResource, alterations: Sequence[Alteration], config: NodeConfig
) -> list[Message]:
    if len({alteration.name for alteration in alterations}) != len(alterations):
        raise KafkaError(Code.INVALID_REQUEST, "Error due to duplicate config keys")
    missing = [a.name for a in alterations if a.value is None and a.operation != Operation.DELETE]
    if missing:
        raise KafkaError(Code.INVALID_REQUEST, f"Null value not supported for : {', '.join(missing)}")
    before = head.configs.of(resource)
    after = dict(before)
    records: list[Message] = []
    for alteration in alterations:
        value = alteration.of(before.get(alteration.name), of_topic=resource.type == ResourceType.TOPIC)
        if value is None:
            after.pop(alteration.name, None)
        else:
            after[alteration.name] = value
        # A broker acts on a record even if the value is the same. So it reloads a key store that was changed in place.
        if value != before.get(alteration.name) or resource.type == ResourceType.BROKER:
            records.append(
                ConfigRecord(
                    resource_type=resource.type, resource_name=resource.name, name=alteration.name, value=value
                )
            )
    try:
        check_bounds(before, after)
        _validate(head, resource, after, {a.name: after[a.name] for a in alterations if a.name in after}, config)
    except ConfigError as error:
        raise KafkaError(Code.INVALID_CONFIG, str(error)) from None
    return records + _elr_consequences(head, resource, records)


def _validate(
    head: MetadataImage,
    resource: ConfigResource,
    after: Mapping[str, str],
    changed: Mapping[str, str],
    config: NodeConfig,
) -> None:
    """Raises ConfigError. Checks each value by itself, and all values together as far as this node knows them."""
    if resource.type == ResourceType.TOPIC:
        validate_topic_configs(config, after)
        return
    validate_broker_configs(changed, per_broker=resource != CLUSTER_DEFAULT)
    own, default = head.configs.of(broker_resource(config.node_id)), head.configs.of(CLUSTER_DEFAULT)
    if resource == CLUSTER_DEFAULT:
        config.with_dynamic(own, after)
    elif resource == broker_resource(config.node_id):
        config.with_dynamic(after, default)


def _elr_consequences(head: MetadataImage, resource: ConfigResource, records: Sequence[Message]) -> list[Message]:
    """With ELR, min.insync.replicas decides which replicas are eligible. If it changes, the ELR must be cleared."""
    if not head.features.elr_enabled:
        return []
    changes = [r for r in records if isinstance(r, ConfigRecord) and r.name == MIN_INSYNC_REPLICAS.name]
    if not changes:
        return []
    if resource.type == ResourceType.TOPIC:
        return [ClearElrRecord(topic_name=resource.name), *_kept_eligible(head, resource.name)]
    if resource != CLUSTER_DEFAULT:
        raise KafkaError(
            Code.INVALID_CONFIG, f"Broker-level {MIN_INSYNC_REPLICAS.name} cannot be altered while ELR is enabled."
        )
    if changes[0].value is None:
        raise KafkaError(
            Code.INVALID_CONFIG, f"Cluster-level {MIN_INSYNC_REPLICAS.name} cannot be removed while ELR is enabled."
        )
    return [ClearElrRecord(), *_kept_eligible(head)]


def _kept_eligible(head: MetadataImage, topic_name: str | None = None) -> Iterator[PartitionChangeRecord]:
    """A partition without a leader and with an empty ISR keeps its lists: only they say which replicas may lead.
    Nothing is committed until there is a leader, so a member of the ELR has everything under any
    min.insync.replicas."""
    topic = None if topic_name is None else head.topics.by_name.get(topic_name)
    places = leaderless(head) if topic is None else ((topic, index, each) for index, each in topic.partitions.items())
    for topic, index, partition in places:
        if not partition.has_leader and not partition.isr and (partition.elr or partition.last_known_elr):
            yield PartitionChangeRecord(
                topic_id=topic.id,
                partition_id=index,
                eligible_leader_replicas=list(partition.elr),
                last_known_elr=list(partition.last_known_elr),
            )
