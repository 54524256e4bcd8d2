"""OffsetCommit and OffsetDelete."""

from __future__ import annotations

from typing import Final

from highwater.errors import Code
from highwater.groups.effects import Caller, Now
from highwater.groups.group import Group
from highwater.groups.membership import PHASES
from highwater.groups.offsets import OffsetTable
from highwater.groups.rebalance import Rebalance
from highwater.groups.records import CommittedOffset
from highwater.groups.refusals import refused_commit, translated, translated_for_commit
from highwater.groups.registry import Registry
from highwater.groups.states import State
from highwater.groups.storing import OffsetsStored, Reply
from highwater.model import TopicPartition
from highwater.wire.messages.offset_commit_request import OffsetCommitRequest
from highwater.wire.messages.offset_delete_request import OffsetDeleteRequest
from highwater.wire.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

_GROUP_ID_NOT_FOUND_VERSION: Final = 9
_END_OF_TIME_MS: Final = 2**63 - 1


class Commits:
    def __init__(self, registry: Registry, offsets: OffsetTable, rebalance: Rebalance) -> None:
        self._registry = registry
        self._offsets = offsets
        self._rebalance = rebalance
        self._outbox = rebalance.outbox

    # OffsetCommit

    def commit(self, request: OffsetCommitRequest, caller: Caller, now: Now) -> None:
        group = self._registry.get(request.group_id)
        refusal = self._refusal_of_commit(group, request, caller)
        if refusal:
            self._outbox.answer(caller, refused_commit(request, refusal))
            return
        self._renew(group, request.member_id, now)
        response = refused_commit(request, Code.NONE)
        changes: dict[TopicPartition, CommittedOffset | None] = {}
        for topic, answered in zip(request.topics, response.topics, strict=True):
            for partition, answer in zip(topic.partitions, answered.partitions, strict=True):
                metadata = partition.committed_metadata or ""
                if _utf16_length(metadata) > self._rebalance.settings.offset_metadata_max_size:
                    answer.error_code = Code.OFFSET_METADATA_TOO_LARGE
                    continue
                # Versions 2 to 4 may ask for a retention of their own (KIP-211).
                expire_ms = -1 if request.retention_time_ms == -1 else now.wall_ms + request.retention_time_ms
                expire_ms = min(expire_ms, _END_OF_TIME_MS)
                changes[TopicPartition(topic.name, partition.partition_index)] = CommittedOffset(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata,
                    now.wall_ms,
                    expire_ms,
                    topic.topic_id,
                )
        reply = Reply(self._outbox, caller, response, lambda code: refused_commit(request, translated_for_commit(code)))
        self._store(request.group_id, changes, reply)

    def _refusal_of_commit(self, group: Group | None, request: OffsetCommitRequest, caller: Caller) -> Code:
        generation = request.generation_id_or_member_epoch
        if request.group_id in self._registry.foreign:
            return Code.GROUP_ID_NOT_FOUND
        if group is None:
            # Whoever manages its partitions by itself needs no group to be there.
            if generation < 0:
                return Code.NONE
            known = caller.version >= _GROUP_ID_NOT_FOUND_VERSION
            return Code.GROUP_ID_NOT_FOUND if known else Code.ILLEGAL_GENERATION
        if group.state is State.DEAD:
            return Code.COORDINATOR_NOT_AVAILABLE
        if group.state is State.EMPTY and generation < 0:
            return Code.NONE
        refusal = group.refusal_of(request.member_id, request.group_instance_id)
        if refusal:
            return refusal
        return PHASES[group.state].commit if generation == group.generation else Code.ILLEGAL_GENERATION

    def _renew(self, group: Group | None, member_id: str, now: Now) -> None:
        """A member's commit is as good as a heartbeat."""
        if group is not None and group.state in PHASES:
            self._rebalance.renew(group, group.members[member_id], now)

    # OffsetDelete

    def delete(self, request: OffsetDeleteRequest, caller: Caller, now: Now) -> None:
        group = self._registry.get(request.group_id)
        refusal = self._refusal_of_delete(group, request.group_id)
        if refusal or group is None:
            self._outbox.answer(caller, OffsetDeleteResponse(error_code=refusal))
            return
        response = OffsetDeleteResponse()
        changes: dict[TopicPartition, CommittedOffset | None] = {}
        there = frozenset(self._offsets.places(group.id))
        for topic in request.topics:
            refusal = Code.GROUP_SUBSCRIBED_TO_TOPIC if group.reads(topic.name) else Code.NONE
            partitions = [partition.partition_index for partition in topic.partitions]
            answers = [OffsetDeleteResponsePartition(partition_index=p, error_code=refusal) for p in partitions]
            response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
            places = () if refusal else (TopicPartition(topic.name, partition) for partition in partitions)
            changes.update((place, None) for place in places if place in there)
        reply = Reply(self._outbox, caller, response, lambda code: OffsetDeleteResponse(error_code=translated(code)))
        self._store(group.id, changes, reply)

    def _refusal_of_delete(self, group: Group | None, group_id: str) -> Code:
        if not group_id:
            return Code.INVALID_GROUP_ID
        if group is None or group.state is State.DEAD:
            return Code.GROUP_ID_NOT_FOUND
        return Code.NONE if group.state is State.EMPTY or group.is_consumer else Code.NON_EMPTY_GROUP

    def _store(self, group_id: str, changes: dict[TopicPartition, CommittedOffset | None], reply: Reply) -> None:
        if changes:
            stored = OffsetsStored(self._registry, self._offsets, group_id, changes, reply)
            self._outbox.write(stored.records(), stored)
        else:
            reply.send()


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
