"""Error responses: Kafka's translation of a partition's errors, and responses that hold only an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from highwater.effects import Caller
from highwater.errors import Code
from highwater.wire.messages.join_group_response import JoinGroupResponse
from highwater.wire.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from highwater.wire.messages.offset_commit_request import OffsetCommitRequest
from highwater.wire.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_TRANSLATED: Final = {
    Code.UNKNOWN_TOPIC_OR_PARTITION: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Code.COORDINATOR_NOT_AVAILABLE,
    Code.REQUEST_TIMED_OUT: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_LEADER_OR_FOLLOWER: Code.NOT_COORDINATOR,
    Code.KAFKA_STORAGE_ERROR: Code.NOT_COORDINATOR,
    Code.MESSAGE_TOO_LARGE: Code.UNKNOWN_SERVER_ERROR,
    Code.RECORD_LIST_TOO_LARGE: Code.UNKNOWN_SERVER_ERROR,
    Code.INVALID_FETCH_SIZE: Code.UNKNOWN_SERVER_ERROR,
}
_TOO_LARGE: Final = (Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE, Code.INVALID_FETCH_SIZE)


def translated(code: Code) -> Code:
    """Translates an error of the partition into one for clients: it says whether to retry, and where."""
    return _TRANSLATED.get(code, code)


def translated_for_commit(code: Code) -> Code:
    return Code.INVALID_COMMIT_OFFSET_SIZE if code in _TOO_LARGE else translated(code)


def refused_join(code: Code, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=member_id)


def left(caller: Caller, answers: Sequence[MemberResponse], code: Code = Code.NONE) -> LeaveGroupResponse:
    """Before version 3 only one member leaves, and its error is that of the response (KIP-345)."""
    if caller.version >= 3:
        return LeaveGroupResponse(error_code=code, members=[] if code else list(answers))
    return LeaveGroupResponse(error_code=code or next((answer.error_code for answer in answers), Code.NONE))


def refused_commit(request: OffsetCommitRequest, code: Code) -> OffsetCommitResponse:
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitResponse(topics=topics)
