"""OffsetCommit (8): stores the offsets of a group. Answered when they are committed.

v2-4 have their own retention, v6 leader epochs, v7 static members, v9 an error for an unknown group, v10 topic ids.
"""

from __future__ import annotations

from highwater.broker.broker import Broker
from highwater.errors import Code
from highwater.groups import refused_commit, translated
from highwater.net.context import RequestContext
from highwater.net.registry import MANY_BYTES, MANY_ELEMENTS, Api
from highwater.wire.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from highwater.wire.messages.offset_commit_response import OffsetCommitResponse

API = Api(
    8,
    (2, 10),
    OffsetCommitRequest,
    most_elements=MANY_ELEMENTS,
    most_bytes=MANY_BYTES,
    refuse=lambda request, code, version: refused_commit(request, code),
)
_BY_ID_FROM = 10


def handle(broker: Broker, ctx: RequestContext, request: OffsetCommitRequest) -> None:
    if not ctx.authorize("Read", "Group", request.group_id):
        ctx.respond(refused_commit(request, Code.GROUP_AUTHORIZATION_FAILED))
        return
    refusals = [_refusals(broker, ctx, topic) for topic in request.topics]
    known = OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        retention_time_ms=request.retention_time_ms,
        topics=[_known(topic, codes) for topic, codes in zip(request.topics, refusals, strict=True)],
    )

    def respond(answer: OffsetCommitResponse) -> None:
        """Puts the group's answers and the refused partitions into one response."""
        whole = refused_commit(request, Code.NONE)
        for topic, codes, answered in zip(whole.topics, refusals, answer.topics, strict=True):
            answers = iter(answered.partitions)
            for row, code in zip(topic.partitions, codes, strict=True):
                row.error_code = code or next(answers).error_code
        whole.throttle_time_ms = ctx.throttle_ms
        ctx.respond(whole)

    if request.topics and all(code for codes in refusals for code in codes):
        respond(refused_commit(known, Code.NONE))
        return
    broker.groups.ask(
        ctx,
        request.group_id,
        lambda shard, caller, now: shard.commit_offsets(known, caller, now),
        lambda code: refused_commit(known, translated(code)),
        respond,
    )


def _refusals(broker: Broker, ctx: RequestContext, topic: OffsetCommitRequestTopic) -> list[Code]:
    """For each partition the error, or NONE if the group may be asked. A topic that is given by id gets its name."""
    if ctx.version >= _BY_ID_FROM:
        name = broker.metadata.topic_name(topic.topic_id)
        if name is None:
            return [Code.UNKNOWN_TOPIC_ID] * len(topic.partitions)
        topic.name = name
    if not ctx.authorize("Read", "Topic", topic.name):
        return [Code.TOPIC_AUTHORIZATION_FAILED] * len(topic.partitions)
    return [
        Code.UNKNOWN_TOPIC_OR_PARTITION
        if broker.metadata.partition_image(topic.name, partition.partition_index) is None
        else Code.NONE
        for partition in topic.partitions
    ]


def _known(topic: OffsetCommitRequestTopic, refusals: list[Code]) -> OffsetCommitRequestTopic:
    partitions = [each for each, refusal in zip(topic.partitions, refusals, strict=True) if not refusal]
    return OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
