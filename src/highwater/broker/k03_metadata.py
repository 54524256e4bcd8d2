"""Metadata (3): brokers, topics, partitions and their leaders, as seen through the listener that was asked.

v1 null means all topics, v4 forbids auto-creation, v5 offline replicas, v7 leader epochs, v8 authorized operations,
v10 topic ids, v13 an error for the whole answer.
"""

from __future__ import annotations

from collections.abc import Collection

from highwater.broker import operations
from highwater.broker.broker import Broker
from highwater.broker.internal_topics import is_internal
from highwater.config import AUTO_CREATE_TOPICS_ENABLE, REQUEST_TIMEOUT_MS
from highwater.errors import Code, code_of
from highwater.metadata.topics import PartitionImage
from highwater.model import NO_NODE, ZERO_UUID, NodeId
from highwater.net.context import RequestContext
from highwater.net.registry import Api
from highwater.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from highwater.wire.messages.create_topics_response import CreateTopicsResponse
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.wire.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

API = Api(3, (0, 13), MetadataRequest)
_LISTENER_ERROR_FROM = 6
_BY_ID_FROM = 12
"""v10 and v11 can carry ids in requests, and have no use for them."""
_ASKED_ABOUT = (Code.INVALID_TOPIC_EXCEPTION, Code.INVALID_REPLICATION_FACTOR)


def handle(broker: Broker, ctx: RequestContext, request: MetadataRequest) -> None:
    if request.topics is None or (ctx.version == 0 and not request.topics):
        names = sorted(broker.image.topics.by_name)
        _respond(broker, ctx, request, [MetadataRequestTopic(name=name) for name in names], {})
        return
    if ctx.version < _BY_ID_FROM and any(topic.name is None or topic.topic_id != ZERO_UUID for topic in request.topics):
        _refuse(ctx, request.topics, Code.INVALID_REQUEST)
        return
    missing = [topic.name for topic in request.topics if topic.name and broker.topic(topic.name) is None]
    creates = broker.config.get(AUTO_CREATE_TOPICS_ENABLE) and (ctx.version < 4 or request.allow_auto_topic_creation)
    allowed = [name for name in missing if ctx.authorize("Create", "Topic", name)] if creates else []
    if not allowed:
        _respond(broker, ctx, request, request.topics, {})
        return
    topics = request.topics
    timeout_ms = broker.config.get(REQUEST_TIMEOUT_MS)
    create = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=-1, replication_factor=-1) for name in sorted(set(allowed))],
        timeout_ms=timeout_ms,
    )

    def created(answer: CreateTopicsResponse | None) -> None:
        errors = {} if answer is None else {topic.name: code_of(topic.error_code) for topic in answer.topics}
        broker.when_applied(lambda: _respond(broker, ctx, request, topics, errors))

    broker.controller.ask(create, CreateTopicsResponse, created, timeout_ms / 1000)


def _refuse(ctx: RequestContext, topics: list[MetadataRequestTopic], code: Code) -> None:
    rows = [MetadataResponseTopic(error_code=code, name=topic.name or "") for topic in topics]
    ctx.respond(MetadataResponse(throttle_time_ms=ctx.throttle_ms, topics=rows))


def _respond(
    broker: Broker,
    ctx: RequestContext,
    request: MetadataRequest,
    topics: list[MetadataRequestTopic],
    errors: dict[str, Code],
) -> None:
    def leaders() -> set[NodeId]:
        asked_about = (broker.topic(asked.name or asked.topic_id) for asked in topics)
        found = {part.leader for topic in asked_about if topic is not None for part in topic.partitions.values()}
        return found - {broker.node_id, NO_NODE}

    def answer() -> None:
        broker.departed.tell(ctx.connection, lambda dead: _answer(broker, ctx, request, topics, errors, dead))

    connected_at = None if ctx.connection is None else ctx.connection.since
    broker.departed.asked(ctx.connection)
    broker.doubts.ask(leaders, connected_at, answer)


def _answer(
    broker: Broker,
    ctx: RequestContext,
    request: MetadataRequest,
    topics: list[MetadataRequestTopic],
    errors: dict[str, Code],
    dead: Collection[NodeId],
) -> None:
    live = [node.id for node in broker.image.brokers.by_id.values() if not node.fenced]
    nodes = broker.node_endpoints([*live, *dead], ctx.listener)
    response = MetadataResponse(
        throttle_time_ms=ctx.throttle_ms,
        brokers=[MetadataResponseBroker(node_id=n.id, host=n.host, port=n.port, rack=n.rack) for n in nodes],
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        topics=[_topic(broker, ctx, request, asked, errors) for asked in topics],
    )
    if request.include_cluster_authorized_operations and 8 <= ctx.version <= 10:
        response.cluster_authorized_operations = operations.on_cluster(ctx)
    ctx.respond(response)


def _topic(
    broker: Broker,
    ctx: RequestContext,
    request: MetadataRequest,
    asked: MetadataRequestTopic,
    errors: dict[str, Code],
) -> MetadataResponseTopic:
    # Whoever asks by id may leave the name empty or null: Java's clients do the former.
    name = None if asked.topic_id != ZERO_UUID else asked.name
    topic = broker.topic(asked.topic_id if name is None else name)
    if topic is None:
        code = Code.UNKNOWN_TOPIC_OR_PARTITION if name is not None else Code.UNKNOWN_TOPIC_ID
        refused = errors.get(name or "")
        return MetadataResponseTopic(
            error_code=refused if refused in _ASKED_ABOUT else code,
            name=name,
            topic_id=asked.topic_id if name is None else ZERO_UUID,
            is_internal=name is not None and is_internal(name),
        )
    if not ctx.authorize("Describe", "Topic", topic.name):
        return MetadataResponseTopic(error_code=Code.TOPIC_AUTHORIZATION_FAILED, name=asked.name)
    described = MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=[_partition(broker, ctx, index, topic.partitions[index]) for index in sorted(topic.partitions)],
    )
    if request.include_topic_authorized_operations and ctx.version >= 8:
        described.topic_authorized_operations = operations.on_topic(ctx, topic.name)
    return described


def _partition(broker: Broker, ctx: RequestContext, index: int, image: PartitionImage) -> MetadataResponsePartition:
    code, leader = leader_for(broker, ctx, image)
    return MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=image.leader_epoch,
        replica_nodes=list(image.replicas),
        isr_nodes=list(image.isr),
        offline_replicas=offline(broker, ctx, image),
    )


def leader_for(broker: Broker, ctx: RequestContext, image: PartitionImage) -> tuple[Code, int]:
    """The leader as this listener's clients can use it."""
    if image.leader == NO_NODE or not broker.image.brokers.is_active(image.leader):
        return Code.LEADER_NOT_AVAILABLE, NO_NODE
    if image.leader not in broker.reached_through(ctx.listener):
        old = ctx.api_key == API.key and ctx.version < _LISTENER_ERROR_FROM
        return (Code.LEADER_NOT_AVAILABLE if old else Code.LISTENER_NOT_FOUND), NO_NODE
    return Code.NONE, image.leader


def offline(broker: Broker, ctx: RequestContext, image: PartitionImage) -> list[int]:
    """Replicas on brokers that are fenced, gone, or not to be reached through this listener."""
    reachable, brokers = broker.reached_through(ctx.listener), broker.image.brokers
    return [
        replica
        for replica in image.replicas
        if replica not in reachable or (known := brokers.get(replica)) is None or known.fenced
    ]
