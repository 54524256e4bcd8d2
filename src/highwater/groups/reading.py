"""OffsetFetch: reads the committed offsets of one group, and converts requests and responses of all versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from highwater.effects import Caller, Outbox
from highwater.errors import Code
from highwater.groups.offsets import OffsetTable
from highwater.groups.records import CommittedOffset
from highwater.model import ZERO_UUID, TopicPartition, Uuid
from highwater.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from highwater.wire.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_MANY_GROUPS_VERSION: Final = 8
_GROUP_ERROR_VERSION: Final = 2
_NO_OFFSET: Final = -1


def asked_groups(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """The groups of a request. Before version 8 there is one, and from version 2 on null topics mean all."""
    if version >= _MANY_GROUPS_VERSION:
        return request.groups
    topics = request.topics
    named = [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in topics or ()]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=None if topics is None else named)]


def combined(groups: Sequence[OffsetFetchResponseGroup], version: int) -> OffsetFetchResponse:
    if version >= _MANY_GROUPS_VERSION:
        return OffsetFetchResponse(groups=list(groups))
    (group,) = groups
    topics = [
        OffsetFetchResponseTopic(name=topic.name, partitions=[_before_many_groups(each) for each in topic.partitions])
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


def refused_fetch(request: OffsetFetchRequestGroup, code: Code, version: int) -> OffsetFetchResponseGroup:
    """Version 1 has an error code only in its partitions."""
    response = OffsetFetchResponseGroup(group_id=request.group_id)
    if version >= _GROUP_ERROR_VERSION:
        response.error_code = code
        return response
    for topic in request.topics or ():
        partitions = [_partition(partition, None, code) for partition in topic.partition_indexes]
        response.topics.append(OffsetFetchResponseTopics(name=topic.name, partitions=partitions))
    return response


class OffsetReading:
    def __init__(self, offsets: OffsetTable, outbox: Outbox) -> None:
        self._offsets = offsets
        self._outbox = outbox

    def fetch(self, request: OffsetFetchRequestGroup, caller: Caller, *, require_stable: bool) -> None:
        """A request for stable offsets (KIP-447) waits for the commits that are being written."""
        written = self._offsets.last_written(request.group_id) if require_stable else None
        if written is None:
            self._outbox.answer(caller, self._read(request))
        else:
            written.when_settled(lambda code: self._resume(request, caller, code))

    def _resume(self, request: OffsetFetchRequestGroup, caller: Caller, code: Code) -> None:
        if code:
            # Not COORDINATOR_NOT_AVAILABLE: consumers before 3.9 do not expect it here.
            self._outbox.answer(caller, refused_fetch(request, Code.NOT_COORDINATOR, caller.version))
        else:
            self._outbox.answer(caller, self._read(request))

    def _read(self, request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        committed = self._offsets.of(request.group_id)
        asked = _all_of(committed) if request.topics is None else request.topics
        response = OffsetFetchResponseGroup(group_id=request.group_id)
        for topic in asked:
            answered = OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id)
            response.topics.append(answered)
            for partition in topic.partition_indexes:
                place = TopicPartition(topic.name, partition)
                offset = committed.get(place)
                current = offset is not None and _is_same_topic(offset.topic_id, topic.topic_id)
                answered.partitions.append(_partition(partition, offset if current else None))
        return response


def _all_of(committed: Mapping[TopicPartition, CommittedOffset]) -> list[OffsetFetchRequestTopics]:
    topics: dict[str, OffsetFetchRequestTopics] = {}
    for place in committed:
        topic = topics.setdefault(place.topic, OffsetFetchRequestTopics(name=place.topic))
        topic.partition_indexes.append(place.partition)
    return list(topics.values())


def _is_same_topic(stored: Uuid, asked: Uuid) -> bool:
    """An offset of a deleted topic does not count for a new topic of the same name."""
    return ZERO_UUID in (stored, asked) or stored == asked


def _partition(index: int, offset: CommittedOffset | None, code: Code = Code.NONE) -> OffsetFetchResponsePartitions:
    if offset is None:
        return OffsetFetchResponsePartitions(partition_index=index, committed_offset=_NO_OFFSET, error_code=code)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )


def _before_many_groups(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )
