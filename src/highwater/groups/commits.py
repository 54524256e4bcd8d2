"""OffsetCommit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from highwater.effects import Caller, Now
from highwater.errors import Code
from highwater.groups.footprint import size_of_group
from highwater.groups.group import Group
from highwater.groups.membership import PHASES
from highwater.groups.offsets import OffsetTable
from highwater.groups.rebalance import Rebalance
from highwater.groups.records import CommittedOffset
from highwater.groups.refusals import refused_commit, translated_for_commit
from highwater.groups.registry import Registry
from highwater.groups.states import State
from highwater.groups.storing import OffsetsStored, Reply
from highwater.model import TopicPartition
from highwater.wire.messages.offset_commit_request import OffsetCommitRequest

_GROUP_ID_NOT_FOUND_VERSION: Final = 9
_END_OF_TIME_MS: Final = 2**63 - 1
_RECORD_BYTES: Final = 40
"""The least size of a committed offset in the log, without its names and its metadata."""

Changes = dict[TopicPartition, CommittedOffset]


class Commits:
    def __init__(
        self, registry: Registry, offsets: OffsetTable, rebalance: Rebalance, most_bytes: Callable[[], int]
    ) -> None:
        self._registry = registry
        self._offsets = offsets
        self._rebalance = rebalance
        self._most_bytes = most_bytes
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
        changes: Changes = {}
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
        refusal = self._refusal_of_size(group, request.group_id, changes)
        if refusal or not changes:
            reply.send(refusal)
        else:
            stored = OffsetsStored(self._registry, self._offsets, request.group_id, changes, reply)
            self._outbox.write(stored.records(), stored)

    def _refusal_of_commit(self, group: Group | None, request: OffsetCommitRequest, caller: Caller) -> Code:
        generation = request.generation_id_or_member_epoch
        if request.group_id in self._registry.foreign:
            return Code.GROUP_ID_NOT_FOUND
        if group is None:
            # A consumer that assigns its partitions itself can commit without a group.
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
        """A member's commit renews its session, as a heartbeat does."""
        if group is not None and group.state in PHASES:
            self._rebalance.renew(group, group.members[member_id], now)

    def _refusal_of_size(self, group: Group | None, group_id: str, changes: Changes) -> Code:
        """Why the offsets are too large, or NONE. This is checked before they are encoded: each record contains the
        name of the group, which may be long."""
        each = _RECORD_BYTES + len(group_id.encode())
        size = sum(each + len(place.topic) + len(offset.metadata) for place, offset in changes.items())
        if size > self._most_bytes():
            return Code.INVALID_COMMIT_OFFSET_SIZE
        growth = self._offsets.growth_by(group_id, changes) + (size_of_group(group_id) if group is None else 0)
        if not self._rebalance.has_room(growth):
            return Code.INVALID_COMMIT_OFFSET_SIZE
        # Clients commit the same offsets again and again. Each commit takes memory until it is written.
        waits = self._offsets.is_any_written and not self._rebalance.has_room(size)
        return Code.COORDINATOR_NOT_AVAILABLE if waits else Code.NONE


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
