"""OffsetDelete (47): deletes committed offsets of topics that the group does not read (KIP-496)."""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.errors import Code, code_of
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_ELEMENTS, Api
from highwater.wire.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from highwater.wire.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

API = Api(47, (0, 0), OffsetDeleteRequest, most_elements=MANY_ELEMENTS)


def handle(broker: Broker, ctx: RequestContext, request: OffsetDeleteRequest) -> None:
    def refused(code: Code) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error_code=code, throttle_time_ms=ctx.throttle_ms)

    if not ctx.authorize("Delete", "Group", request.group_id):
        ctx.respond(refused(Code.GROUP_AUTHORIZATION_FAILED))
        return
    if not request.group_id:
        ctx.respond(refused(Code.INVALID_GROUP_ID))
        return
    refusals, known = _sorted_out(broker, ctx, request)

    def respond(answer: OffsetDeleteResponse) -> None:
        if answer.error_code:
            ctx.respond(refused(code_of(answer.error_code)))
            return
        codes = {
            (topic.name, row.partition_index): row.error_code for topic in answer.topics for row in topic.partitions
        }
        codes |= {place: code for place, code in refusals.items() if place not in codes}
        rows = [
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=index, error_code=codes[topic.name, index])
                    for index in dict.fromkeys(each.partition_index for each in topic.partitions)
                ],
            )
            for topic in request.topics
        ]
        ctx.respond(OffsetDeleteResponse(throttle_time_ms=ctx.throttle_ms, topics=rows))

    if not known.topics:
        respond(OffsetDeleteResponse())
        return
    broker.groups.ask(
        ctx,
        request.group_id,
        lambda shard, caller, now: shard.delete_offsets(known, caller),
        refused,
        respond,
    )


def _sorted_out(
    broker: Broker, ctx: RequestContext, request: OffsetDeleteRequest
) -> tuple[dict[tuple[str, int], int], OffsetDeleteRequest]:
    """The partitions that are refused here, with the error, and the request for the group without them."""
    refusals: dict[tuple[str, int], int] = {}
    topics = []
    for topic in request.topics:
        allowed, known = ctx.authorize("Read", "Topic", topic.name), []
        for partition in topic.partitions:
            index = partition.partition_index
            if not allowed:
                refusals[topic.name, index] = Code.TOPIC_AUTHORIZATION_FAILED
            elif broker.metadata.partition_image(topic.name, index) is None:
                refusals[topic.name, index] = Code.UNKNOWN_TOPIC_OR_PARTITION
            else:
                known.append(OffsetDeleteRequestPartition(partition_index=index))
        if known:
            topics.append(OffsetDeleteRequestTopic(name=topic.name, partitions=known))
    return refusals, OffsetDeleteRequest(group_id=request.group_id, topics=topics)
