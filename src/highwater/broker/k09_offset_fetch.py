"""OffsetFetch (9): reads the committed offsets of groups.

v2 null topics mean all, v5 leader epochs, v7 only offsets that no transaction may change (KIP-447), v8 several groups,
v10 topic ids.
"""

from __future__ import annotations

from collections.abc import Callable

from highwater.broker.broker import Broker
from highwater.broker.gathering import Gathering
from highwater.errors import Code
from highwater.groups import asked_groups, combined, refused_fetch
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_ELEMENTS, Api
from highwater.net.turns import Work
from highwater.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from highwater.wire.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)


def _all_refused(request: OffsetFetchRequest, code: Code, version: int) -> OffsetFetchResponse:
    return combined([refused_fetch(group, code, version) for group in asked_groups(request, version)], version)


API = Api(9, (1, 10), OffsetFetchRequest, most_elements=MANY_ELEMENTS, refuse=_all_refused)
_BY_ID_FROM = 10


def handle(broker: Broker, ctx: RequestContext, request: OffsetFetchRequest) -> Work:
    def respond(groups: list[OffsetFetchResponseGroup]) -> None:
        response = combined(groups, ctx.version)
        response.throttle_time_ms = ctx.throttle_ms
        ctx.respond(response)

    asked = asked_groups(request, ctx.version)
    gathering = Gathering(len(asked), respond)
    seen: set[str] = set()
    for place, group in enumerate(asked):
        reply = gathering.place(place)
        if group.group_id in seen:  # a request could name one group many times, and get all its offsets each time
            reply(refused_fetch(group, Code.INVALID_REQUEST, ctx.version))
        else:
            seen.add(group.group_id)
            _fetch(broker, ctx, group, request.require_stable, reply)
        yield None


def _fetch(
    broker: Broker,
    ctx: RequestContext,
    group: OffsetFetchRequestGroup,
    require_stable: bool,
    reply: Callable[[OffsetFetchResponseGroup], None],
) -> None:
    if not ctx.authorize("Describe", "Group", group.group_id):
        reply(refused_fetch(group, Code.GROUP_AUTHORIZATION_FAILED, ctx.version))
        return
    refused: list[OffsetFetchResponseTopics] = []
    known: list[OffsetFetchRequestTopics] | None = None
    if group.topics is not None:
        known = []
        for topic in group.topics:
            code = _refusal(broker, ctx, topic)
            if code:
                refused.append(_refused(topic, code))
            else:
                known.append(topic)

    def answered(answer: OffsetFetchResponseGroup) -> None:
        if not answer.error_code:
            if known is None:
                answer.topics = [topic for topic in answer.topics if _is_seen(broker, ctx, topic)]
            answer.topics = [*answer.topics, *refused]
        reply(answer)

    asked = OffsetFetchRequestGroup(
        group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=known
    )
    broker.groups.ask(
        ctx,
        group.group_id,
        lambda shard, caller, now: shard.fetch_offsets(asked, caller, require_stable=require_stable),
        lambda code: refused_fetch(asked, code, ctx.version),
        answered,
    )


def _refusal(broker: Broker, ctx: RequestContext, topic: OffsetFetchRequestTopics) -> Code:
    """The error for a topic, or NONE. A topic that is given by id gets its name."""
    if ctx.version >= _BY_ID_FROM:
        name = broker.metadata.topic_name(topic.topic_id)
        if name is None:
            return Code.UNKNOWN_TOPIC_ID
        topic.name = name
    return Code.NONE if ctx.authorize("Describe", "Topic", topic.name) else Code.TOPIC_AUTHORIZATION_FAILED


def _refused(topic: OffsetFetchRequestTopics, code: Code) -> OffsetFetchResponseTopics:
    rows = [
        OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, error_code=code)
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=rows)


def _is_seen(broker: Broker, ctx: RequestContext, topic: OffsetFetchResponseTopics) -> bool:
    """Whether the response may contain this topic, if all topics were asked for: the client may describe it, and the
    version can name it."""
    if ctx.version >= _BY_ID_FROM:
        known = broker.metadata.topic(topic.name)
        if known is None:
            return False
        topic.topic_id = known.id
    return ctx.authorize("Describe", "Topic", topic.name)
