"""FindCoordinator (10): the broker that leads a group's partition of `__consumer_offsets`. The topic is created at
first need.

v1 coordinators of transactions, v4 many keys, v6 coordinators of share groups. Highwater has no transactions and no
share groups yet. A client that asks for their coordinator gets an error that it does not retry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from highwater.broker.broker import Broker
from highwater.broker.groups import OFFSETS_TOPIC
from highwater.broker.k03_metadata import leader_for
from highwater.errors import Code
from highwater.model import NO_NODE, NodeId
from highwater.net.context import RequestContext
from highwater.net.registry import MOST_ELEMENTS, Api
from highwater.net.turns import Work
from highwater.wire.messages.find_coordinator_request import FindCoordinatorRequest
from highwater.wire.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse

GROUP, TRANSACTION, SHARE = 0, 1, 2
NO_TRANSACTIONS = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
"""The error for transactions. After UNSUPPORTED_VERSION (35) librdkafka asks again for ever. After this one it gives up
at once and shows the message."""
_BATCHED_FROM = 4
_SHARE_FROM = 6


def _refused(request: FindCoordinatorRequest, code: Code, version: int) -> FindCoordinatorResponse:
    if version < _BATCHED_FROM:
        return FindCoordinatorResponse(error_code=code, node_id=-1, port=-1)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=code.description)
            for key in request.coordinator_keys
        ]
    )


API = Api(10, (0, 6), FindCoordinatorRequest, most_elements=MOST_ELEMENTS, refuse=_refused)


class _Found(NamedTuple):
    code: Code
    node: int = NO_NODE
    host: str = ""
    port: int = -1
    message: str | None = None


def handle(broker: Broker, ctx: RequestContext, request: FindCoordinatorRequest) -> Work:
    keys = list(dict.fromkeys(request.coordinator_keys)) if ctx.version >= _BATCHED_FROM else [request.key]
    yield None
    refusal = _refusal(ctx, request.key_type)
    if refusal is not None:
        yield from _respond(ctx, keys, lambda key: refusal)
    elif broker.metadata.topic(OFFSETS_TOPIC) is None and keys:
        wanted = [broker.groups.topic_to_create()]
        give_up = broker.auto_creation.want(wanted, lambda refused: _look(broker, ctx, keys))
        if give_up is not None:
            ctx.slot.linger(give_up)
    else:
        _look(broker, ctx, keys)


def _refusal(ctx: RequestContext, kind: int) -> _Found | None:
    if kind == GROUP:
        return None
    if kind not in (TRANSACTION, SHARE) or (kind == SHARE and ctx.version < _SHARE_FROM):
        return _Found(Code.INVALID_REQUEST, message=f"There are no coordinators of type {kind}.")
    if kind == SHARE:
        return _Found(Code.UNSUPPORTED_VERSION, message="Share groups are not supported by this version.")
    return _Found(NO_TRANSACTIONS, message="Transactions are not supported by this version.")


def _look(broker: Broker, ctx: RequestContext, keys: list[str]) -> None:
    def leaders() -> set[NodeId]:
        topic = broker.metadata.topic(OFFSETS_TOPIC)
        if topic is None:
            return set()
        # For many keys the leaders of all partitions: to find the partition of a key, it has to be hashed.
        indexes = (broker.groups.index_of(key) for key in keys) if len(keys) == 1 else topic.partitions
        return {topic.partitions[index].leader for index in indexes} - {broker.node_id, NO_NODE}

    answered = False

    def answer() -> None:
        nonlocal answered
        if not answered:
            answered = True
            ctx.carry_out(_respond(ctx, keys, lambda key: _find(broker, ctx, key)))

    connected_at = ctx.connection.since
    # A client that lost its coordinator asks before another one can be elected.
    broker.doubts.ask(leaders, connected_at, answer)
    if not answered:
        ctx.slot.linger(answer)


def _find(broker: Broker, ctx: RequestContext, group_id: str) -> _Found:
    if not ctx.authorize("Describe", "Group", group_id):
        return _Found(Code.GROUP_AUTHORIZATION_FAILED)
    image = broker.metadata.partition_image(OFFSETS_TOPIC, broker.groups.index_of(group_id))
    if image is not None:
        code, leader = leader_for(broker, ctx, image)
        if code is Code.NONE:
            for node in broker.metadata.node_endpoints([leader], ctx.listener):
                return _Found(Code.NONE, node.id, node.host, node.port)
    return _Found(Code.COORDINATOR_NOT_AVAILABLE)


def _respond(ctx: RequestContext, keys: list[str], find: Callable[[str], _Found]) -> Work:
    response = FindCoordinatorResponse(throttle_time_ms=ctx.throttle_ms)
    if ctx.version >= _BATCHED_FROM:
        for key in keys:
            each = find(key)
            row = Coordinator(
                key=key,
                node_id=each.node,
                host=each.host,
                port=each.port,
                error_code=each.code,
                error_message=_message(each),
            )
            response.coordinators.append(ctx.written(row))
            yield None
    else:
        only = find(keys[0])
        response.error_code, response.error_message = only.code, _message(only)
        response.node_id, response.host, response.port = only.node, only.host, only.port
    ctx.respond(response)


def _message(found: _Found) -> str | None:
    return found.message or (found.code.description if found.code else None)
