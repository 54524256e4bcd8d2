"""How offsets and groups end: DeleteGroups, retention, and the deletion of topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from highwater.errors import Code
from highwater.groups.deadlines import Deadlines, RetentionCheck
from highwater.groups.effects import Caller, Now, Outbox, Record
from highwater.groups.group import Group
from highwater.groups.offsets import OffsetTable
from highwater.groups.records import CommittedOffset, group_tombstone
from highwater.groups.refusals import translated
from highwater.groups.registry import Registry
from highwater.groups.settings import GroupSettings
from highwater.groups.states import State
from highwater.groups.storing import OffsetsStored, Reply
from highwater.model import ZERO_UUID, TopicPartition, Uuid
from highwater.wire.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse

_TOMBSTONES_AT_ONCE: Final = 1_000
"""A batch must not outgrow `max.message.bytes`, however many offsets a group left behind."""


class GroupsRemoved:
    """The tombstones of groups and all their offsets. Meanwhile the groups are dead: whoever comes is told to retry,
    since it cannot be known yet whether it meets the old group or a new one."""

    def __init__(
        self, registry: Registry, groups: Sequence[Group], offsets: Sequence[OffsetsStored], reply: Reply | None
    ) -> None:
        self._registry = registry
        self._groups = groups
        self._offsets = offsets
        self._reply = reply

    def records(self) -> list[Record]:
        tombstones = [group_tombstone(group.id) for group in self._groups]
        return [record for stored in self._offsets for record in stored.records()] + tombstones

    def committed(self, now: Now) -> None:
        for stored in self._offsets:
            stored.committed(now)
        for group in self._groups:
            self._registry.remove(group.id)
        self._send(Code.NONE)

    def failed(self, code: Code, now: Now) -> None:
        for stored in self._offsets:
            stored.failed(code, now)
        for group in self._groups:
            since_ms = group.since_ms
            group.move(State.EMPTY, now.wall_ms)
            group.since_ms = since_ms
        self._send(code)

    def overdue(self, code: Code, now: Now) -> None:
        for stored in self._offsets:
            stored.overdue(code, now)
        self._send(code)

    def _send(self, code: Code) -> None:
        if self._reply is not None:
            self._reply.send(code)


class Removal:
    def __init__(
        self, registry: Registry, offsets: OffsetTable, settings: GroupSettings, deadlines: Deadlines, outbox: Outbox
    ) -> None:
        self._registry = registry
        self._offsets = offsets
        self._settings = settings
        self._deadlines = deadlines
        self._outbox = outbox

    # DeleteGroups

    def delete(self, group_ids: Iterable[str], caller: Caller, now: Now) -> None:
        deleted: list[Group] = []
        response = DeleteGroupsResponse()
        for group_id in dict.fromkeys(group_ids):
            group = self._registry.get(group_id)
            refusal = _refusal_of_delete(group)
            response.results.append(DeletableGroupResult(group_id=group_id, error_code=refusal))
            if group is not None and not refusal:
                deleted.append(group)
        if not deleted:
            self._outbox.answer(caller, response)
            return
        failed = [DeletableGroupResult(group_id=r.group_id, error_code=r.error_code) for r in response.results]

        def refused(code: Code) -> DeleteGroupsResponse:
            for result in failed:
                result.error_code = result.error_code or translated(code)
            return DeleteGroupsResponse(results=failed)

        self._remove(deleted, Reply(self._outbox, caller, response, refused), now)

    def _remove(self, groups: Sequence[Group], reply: Reply | None, now: Now) -> None:
        stored: list[OffsetsStored] = []
        for group in groups:
            since_ms = group.since_ms
            group.move(State.DEAD, now.wall_ms)
            group.since_ms = since_ms
            places = self._offsets.places(group.id)
            if places:
                stored.append(OffsetsStored(self._registry, self._offsets, group.id, dict.fromkeys(places)))
        removed = GroupsRemoved(self._registry, groups, stored, reply)
        self._outbox.write(removed.records(), removed)

    # Retention

    def schedule(self, now: Now) -> None:
        interval_ms = self._settings.offsets_retention_check_interval_ms
        self._deadlines.set(RetentionCheck(), now.monotonic + interval_ms / 1000)

    def check_retention(self, now: Now) -> None:
        for group in list(self._registry):
            places = self._offsets.places(group.id)
            unused = [place for place in places if self._is_unused(group, place, now)]
            is_over = len(unused) == len(places) and group.state is State.EMPTY and not group.pending
            if is_over and len(unused) <= _TOMBSTONES_AT_ONCE:
                self._remove([group], None, now)
            else:
                self._drop(group.id, unused)
        self.schedule(now)

    def _is_unused(self, group: Group, place: TopicPartition, now: Now) -> bool:
        offset = self._offsets.of(group.id).get(place)
        if offset is None or group.reads(place.topic) or self._is_in_motion(group.id, place):
            return False
        since_ms = _unused_since(group, offset)
        if since_ms is None:
            return False
        aged_ms = min(now.wall_ms, now.aging_ms)
        if offset.expire_ms >= 0:
            return aged_ms >= offset.expire_ms
        return aged_ms - since_ms >= self._settings.offsets_retention_ms

    def _is_in_motion(self, group_id: str, place: TopicPartition) -> bool:
        return self._offsets.is_writing(group_id, place) or self._offsets.is_held(group_id, place)

    def _drop(self, group_id: str, places: Sequence[TopicPartition]) -> None:
        for first in range(0, len(places), _TOMBSTONES_AT_ONCE):
            some = dict.fromkeys(places[first : first + _TOMBSTONES_AT_ONCE])
            stored = OffsetsStored(self._registry, self._offsets, group_id, some)
            self._outbox.write(stored.records(), stored)

    # Topics: offsets that do not say of which topic id they are go by the name

    def topics_deleted(self, topics: Mapping[str, Uuid]) -> None:
        self._drop_where(lambda name, told: name in topics and told in (ZERO_UUID, topics[name]))

    def topics_are(self, id_of: Callable[[str], Uuid | None]) -> None:
        def is_gone(name: str, told: Uuid) -> bool:
            found = id_of(name)
            return found is None or told not in (ZERO_UUID, found)

        self._drop_where(is_gone)

    def _drop_where(self, is_gone: Callable[[str, Uuid], bool]) -> None:
        for group_id in self._offsets.groups():
            offsets = self._offsets.of(group_id)
            self._drop(group_id, [place for place, offset in offsets.items() if is_gone(place.topic, offset.topic_id)])


def _refusal_of_delete(group: Group | None) -> Code:
    if group is None or group.state is State.DEAD:
        return Code.GROUP_ID_NOT_FOUND
    return Code.NONE if group.state is State.EMPTY else Code.NON_EMPTY_GROUP


def _unused_since(group: Group, offset: CommittedOffset) -> int | None:
    """From when on the offset counts as unused; None while it does not (KIP-211)."""
    if group.protocol_type is None:
        return offset.commit_ms
    if group.state is State.EMPTY:
        return offset.commit_ms if group.since_ms is None else group.since_ms
    knows_its_topics = group.state is State.STABLE and group.is_consumer and group.subscribed is not None
    return offset.commit_ms if knows_its_topics else None
