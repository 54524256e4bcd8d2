"""Metadata (3): brokers, topics, partitions and their leaders, for clients of one listener.

v1 null means all topics, v4 forbids auto-creation, v5 offline replicas, v7 leader epochs, v8 authorized operations,
v10 topic ids, v13 an error for the whole answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from typing import TypeVar

from highwater.broker import operations
from highwater.broker.auto_creation import MOST_AT_A_TIME
from highwater.broker.broker import Broker
from highwater.broker.internal_topics import is_internal
from highwater.config import AUTO_CREATE_TOPICS_ENABLE
from highwater.errors import Code
from highwater.metadata.topics import PartitionImage, TopicImage
from highwater.model import NO_NODE, ZERO_UUID, NodeId
from highwater.net.context import RequestContext
from highwater.net.registry import MOST_ELEMENTS, Api
from highwater.net.turns import Work
from highwater.wire.messages.create_topics_request import CreatableTopic
from highwater.wire.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponsePartition
from highwater.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from highwater.wire.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

P = TypeVar("P", MetadataResponsePartition, DescribeTopicPartitionsResponsePartition)
_LISTENER_ERROR_FROM = 6
_BY_ID_FROM = 12
"""In v10 and v11 requests have topic ids, but they are not used."""
_LOOKED_AT = 1000
"""The most partitions that are checked for a leader that may have died."""
_PER_PIECE = 20
_ASKED_ABOUT = (Code.INVALID_TOPIC_EXCEPTION, Code.INVALID_REPLICATION_FACTOR)
_OPERATIONS_FROM = 8
_ERROR_FROM = 13


def _refused(request: MetadataRequest, code: Code, version: int) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(name=topic.name, topic_id=topic.topic_id, error_code=code)
            for topic in request.topics or ()
        ],
        error_code=code if version >= _ERROR_FROM else Code.NONE,
    )


API = Api(3, (0, 13), MetadataRequest, most_elements=MOST_ELEMENTS, refuse=_refused)


def handle(broker: Broker, ctx: RequestContext, request: MetadataRequest) -> Work:
    if request.topics is None or (ctx.version == 0 and not request.topics):
        names = sorted(broker.metadata.image.topics.by_name)
        yield None
        _respond(broker, ctx, request, [MetadataRequestTopic(name=name) for name in names], {})
        return
    # A topic that is named twice is in the response once, as in Kafka.
    topics = list({(topic.topic_id, topic.name): topic for topic in request.topics}.values())
    yield None
    if ctx.version < _BY_ID_FROM and any(topic.name is None or topic.topic_id != ZERO_UUID for topic in topics):
        rows = [MetadataResponseTopic(error_code=Code.INVALID_REQUEST, name=topic.name or "") for topic in topics]
        ctx.respond(MetadataResponse(throttle_time_ms=ctx.throttle_ms, topics=rows))
        return
    missing = [topic.name for topic in topics if topic.name and broker.metadata.topic(topic.name) is None]
    yield None
    creates = broker.metadata.config.get(AUTO_CREATE_TOPICS_ENABLE) and (
        ctx.version < 4 or request.allow_auto_topic_creation
    )
    allowed = [name for name in missing if ctx.authorize("Create", "Topic", name)] if creates else []
    if not allowed:
        _respond(broker, ctx, request, topics, {})
        return
    new = sorted(set(allowed))[:MOST_AT_A_TIME]
    wanted = [CreatableTopic(name=name, num_partitions=-1, replication_factor=-1) for name in new]
    give_up = broker.auto_creation.want(wanted, lambda refused: _respond(broker, ctx, request, topics, refused))
    if give_up is not None:
        ctx.slot.linger(give_up)


def _respond(
    broker: Broker,
    ctx: RequestContext,
    request: MetadataRequest,
    topics: list[MetadataRequestTopic],
    errors: Mapping[str, Code],
) -> None:
    def answer(dead: Collection[NodeId]) -> None:
        ctx.carry_out(_answer(broker, ctx, request, topics, errors, dead))

    _Question(broker, ctx, topics, answer).ask()


class _Question:
    """Answered as soon as the leaders are known; or with the present metadata if another response would wait for it."""

    __slots__ = ("_answer", "_answered", "_broker", "_ctx", "_is_settled", "_topics")

    def __init__(
        self,
        broker: Broker,
        ctx: RequestContext,
        topics: list[MetadataRequestTopic],
        answer: Callable[[Collection[NodeId]], None],
    ) -> None:
        self._broker = broker
        self._ctx = ctx
        self._topics = topics
        self._answer = answer
        self._is_settled = self._answered = False

    def ask(self) -> None:
        connection = self._ctx.connection
        self._broker.departed.asked(connection)
        self._broker.doubts.ask(self._leaders, connection.since, self._settle)
        if not self._answered:
            self._ctx.slot.linger(self._give_way)

    def _leaders(self) -> set[NodeId]:
        broker = self._broker
        found: set[NodeId] = set()
        if len(self._topics) <= _LOOKED_AT:
            looked_at = 0
            for asked in self._topics:
                topic = broker.metadata.topic(asked.name or asked.topic_id)
                if topic is not None:
                    looked_at += len(topic.partitions)
                    if looked_at > _LOOKED_AT:
                        break
                    found.update(part.leader for part in topic.partitions.values())
            else:
                return found - {broker.node_id, NO_NODE}
        return set(broker.metadata.image.brokers.by_id) - {broker.node_id}  # each may lead one of so many partitions

    def _settle(self) -> None:
        if not self._is_settled:
            self._is_settled = True
            self._broker.departed.answer(self._ctx.connection, self._respond)

    def _give_way(self) -> None:
        if not self._is_settled:
            self._is_settled = True
            self._broker.departed.hurried(self._ctx.connection)
        self._respond(())

    def _respond(self, dead: Collection[NodeId]) -> None:
        if not self._answered:
            self._answered = True
            self._answer(dead)


def _answer(
    broker: Broker,
    ctx: RequestContext,
    request: MetadataRequest,
    topics: list[MetadataRequestTopic],
    errors: Mapping[str, Code],
    dead: Collection[NodeId],
) -> Work:
    live = [node.id for node in broker.metadata.image.brokers.by_id.values() if not node.fenced]
    nodes = broker.metadata.node_endpoints([*live, *dead], ctx.listener)
    response = MetadataResponse(
        throttle_time_ms=ctx.throttle_ms,
        brokers=[MetadataResponseBroker(node_id=n.id, host=n.host, port=n.port, rack=n.rack) for n in nodes],
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
    )
    for asked in topics:
        response.topics.append((yield from _topic(broker, ctx, request, asked, errors)))
        yield None
    if request.include_cluster_authorized_operations and 8 <= ctx.version <= 10:
        response.cluster_authorized_operations = operations.on_cluster(ctx)
    ctx.respond(response)


def _topic(
    broker: Broker,
    ctx: RequestContext,
    request: MetadataRequest,
    asked: MetadataRequestTopic,
    errors: Mapping[str, Code],
) -> Generator[None, None, MetadataResponseTopic]:
    # A client that asks by id may leave the name empty or null. Java's clients leave it empty.
    name = None if asked.topic_id != ZERO_UUID else asked.name
    topic = broker.metadata.topic(asked.topic_id if name is None else name)
    if topic is None:
        code = Code.UNKNOWN_TOPIC_OR_PARTITION if name is not None else Code.UNKNOWN_TOPIC_ID
        refused = errors.get(name or "")
        unknown = MetadataResponseTopic(
            error_code=refused if refused in _ASKED_ABOUT else code,
            name=name,
            topic_id=asked.topic_id if name is None else ZERO_UUID,
            is_internal=name is not None and is_internal(name),
        )
        return ctx.written(unknown)
    if not ctx.authorize("Describe", "Topic", topic.name):
        return ctx.written(MetadataResponseTopic(error_code=Code.TOPIC_AUTHORIZATION_FAILED, name=asked.name))
    if request.include_topic_authorized_operations and ctx.version >= _OPERATIONS_FROM:
        described = yield from _described(broker, ctx, topic)
        described.topic_authorized_operations = operations.on_topic(ctx, topic.name)
        return ctx.written(described)
    brokers = broker.metadata.image.brokers
    row = broker.topic_rows.find(brokers, topic, ctx.listener, ctx.version)
    if row is None:
        row = ctx.written((yield from _described(broker, ctx, topic)))
        if broker.metadata.image.brokers is brokers:  # it was made in pieces
            broker.topic_rows.keep(brokers, topic, ctx.listener, ctx.version, row)
    return row


def _described(broker: Broker, ctx: RequestContext, topic: TopicImage) -> Generator[None, None, MetadataResponseTopic]:
    described = MetadataResponseTopic(name=topic.name, topic_id=topic.id, is_internal=is_internal(topic.name))
    for index in sorted(topic.partitions):
        row = fill_partition(MetadataResponsePartition(), broker, ctx, index, topic.partitions[index])
        described.partitions.append(ctx.written(row))
        if len(described.partitions) % _PER_PIECE == 0:
            yield None
    return described


def fill_partition(row: P, broker: Broker, ctx: RequestContext, index: int, image: PartitionImage) -> P:
    """Fills in the fields of a partition that Metadata and DescribeTopicPartitions share."""
    row.error_code, row.leader_id = leader_for(broker, ctx, image)
    row.partition_index = index
    row.leader_epoch = image.leader_epoch
    row.replica_nodes = list(image.replicas)
    row.isr_nodes = list(image.isr)
    row.offline_replicas = _offline(broker, ctx, image)
    return row


def leader_for(broker: Broker, ctx: RequestContext, image: PartitionImage) -> tuple[Code, int]:
    """The leader, or the error if clients of this listener cannot reach it."""
    if image.leader == NO_NODE or not broker.metadata.image.brokers.is_active(image.leader):
        return Code.LEADER_NOT_AVAILABLE, NO_NODE
    if image.leader not in broker.metadata.reached_through(ctx.listener):
        old = ctx.api_key == API.key and ctx.version < _LISTENER_ERROR_FROM
        return (Code.LEADER_NOT_AVAILABLE if old else Code.LISTENER_NOT_FOUND), NO_NODE
    return Code.NONE, image.leader


def _offline(broker: Broker, ctx: RequestContext, image: PartitionImage) -> list[int]:
    """Replicas on brokers that are fenced, not registered, or not reachable through this listener."""
    reachable, brokers = broker.metadata.reached_through(ctx.listener), broker.metadata.image.brokers
    return [
        replica
        for replica in image.replicas
        if replica not in reachable or (known := brokers.get(replica)) is None or known.fenced
    ]
