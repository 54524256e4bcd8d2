"""Removes offsets and groups: DeleteGroups, OffsetDelete, retention, and the deletion of topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from highwater.effects import Caller, Now, Outbox
from highwater.errors import Code
from highwater.groups.deadlines import Deadlines, RetentionCheck
from highwater.groups.group import Group
from highwater.groups.offsets import OffsetChanges, OffsetTable
from highwater.groups.records import CommittedOffset
from highwater.groups.refusals import translated
from highwater.groups.registry import Registry
from highwater.groups.settings import GroupSettings
from highwater.groups.states import State
from highwater.groups.storing import Reply
from highwater.groups.tombstones import AT_ONCE, Doomed, GroupEnding, Look, OffsetsEnding, OffsetsGivenUp, Tombstones
from highwater.model import ZERO_UUID, TopicPartition, Uuid
from highwater.wire.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from highwater.wire.messages.offset_delete_request import OffsetDeleteRequest
from highwater.wire.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

MOST_GIVEN_UP: Final = 10_000
"""The most offsets of OffsetDelete requests that may wait for their tombstones. Further requests are refused."""

_STILL_GOING: Final = Code.COORDINATOR_NOT_AVAILABLE
"""A group is being removed, and its tombstones may still fail. Clients ask again."""


class Deletion:
    """Answers DeleteGroups when the result for each group is known."""

    def __init__(self, outbox: Outbox, caller: Caller, codes: dict[str, Code | None]) -> None:
        self._outbox = outbox
        self._caller = caller
        self._codes = codes
        self._open = sum(code is None for code in codes.values())

    def deleted(self, group_id: str, code: Code) -> None:
        if self._codes[group_id] is None:
            self._codes[group_id] = translated(code)
            self._open -= 1
            self.answer_if_done()

    def answer_if_done(self) -> None:
        if not self._open:
            results = [
                DeletableGroupResult(group_id=group, error_code=code or 0) for group, code in self._codes.items()
            ]
            self._outbox.answer(self._caller, DeleteGroupsResponse(results=results))


class Removal:
    def __init__(
        self, registry: Registry, offsets: OffsetTable, settings: GroupSettings, deadlines: Deadlines, outbox: Outbox
    ) -> None:
        self._registry = registry
        self._offsets = offsets
        self._settings = settings
        self._deadlines = deadlines
        self._outbox = outbox
        self.tombstones = Tombstones(registry, offsets, deadlines, outbox)

    # DeleteGroups

    def delete(self, group_ids: Iterable[str], caller: Caller, now: Now) -> None:
        groups = {group_id: self._registry.get(group_id) for group_id in group_ids}
        refusals = {group_id: _refusal_of_delete(group) for group_id, group in groups.items()}
        deletion = Deletion(self._outbox, caller, {group_id: code or None for group_id, code in refusals.items()})
        for group_id, group in groups.items():
            if group is not None and not refusals[group_id]:
                self.tombstones.add(GroupEnding(self.tombstones, group, now, deletion.deleted))
        deletion.answer_if_done()

    # OffsetDelete

    def delete_offsets(self, request: OffsetDeleteRequest, caller: Caller) -> None:
        group = self._registry.get(request.group_id)
        refusal = _refusal_of_offsets(group, request.group_id)
        if not refusal and self.tombstones.given_up > MOST_GIVEN_UP:
            refusal = Code.COORDINATOR_LOAD_IN_PROGRESS
        if refusal or group is None:
            self._outbox.answer(caller, OffsetDeleteResponse(error_code=refusal))
            return
        response = OffsetDeleteResponse()
        doomed: dict[TopicPartition, CommittedOffset] = {}
        vanishing: OffsetChanges | None = None
        for topic in request.topics:
            refusal = Code.GROUP_SUBSCRIBED_TO_TOPIC if group.reads(topic.name) else Code.NONE
            partitions = [partition.partition_index for partition in topic.partitions]
            answers = [OffsetDeleteResponsePartition(partition_index=p, error_code=refusal) for p in partitions]
            response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
            for partition in () if refusal else partitions:
                place = TopicPartition(topic.name, partition)
                offset = self._offsets.last(group.id, place)
                if offset is not None:
                    doomed[place] = offset
                elif self._offsets.is_writing(group.id, place):
                    vanishing = self._offsets.last_written(group.id)
        reply = Reply(self._outbox, caller, response, lambda code: OffsetDeleteResponse(error_code=translated(code)))
        if vanishing is None:
            self.tombstones.add(OffsetsGivenUp(self.tombstones, group.id, doomed, reply))
        else:
            # An earlier tombstone is not committed yet. If it fails, the offset is there again, and has to go now.
            vanishing.when_settled(lambda code: reply.send(code) if code else self.delete_offsets(request, caller))

    # Retention

    def schedule(self, now: Now) -> None:
        interval_ms = self._settings.offsets_retention_check_interval_ms
        self._deadlines.set(RetentionCheck(), now.monotonic + interval_ms / 1000)

    def check_retention(self, now: Now) -> None:
        self.tombstones.check(self._expired([group.id for group in self._registry], now))
        self.schedule(now)

    def _expired(self, group_ids: Sequence[str], now: Now) -> Look:
        for group_id in group_ids:
            group = self._registry.get(group_id)
            if group is None or group.state is State.DEAD:
                continue
            places = self._offsets.places(group_id)
            unused = [place for place in places if self._is_unused(group, place, now)]
            if len(unused) == len(places) and group.state is State.EMPTY and not group.pending:
                yield len(places), GroupEnding(self.tombstones, group, now)
            else:
                offsets = self._offsets.of(group_id)
                doomed = [(place, offsets[place]) for place in unused]
                yield len(places), self._ending(group_id, doomed, partial(self._is_unused, group))

    def _ending(
        self, group_id: str, doomed: Sequence[Doomed], is_due: Callable[[TopicPartition, Now], bool]
    ) -> OffsetsEnding | None:
        return OffsetsEnding(self.tombstones, group_id, doomed, is_due) if doomed else None

    def _is_unused(self, group: Group, place: TopicPartition, now: Now) -> bool:
        offset = self._offsets.of(group.id).get(place)
        if offset is None or group.reads(place.topic) or self._offsets.is_writing(group.id, place):
            return False
        since_ms = _unused_since(group, offset)
        if since_ms is None:
            return False
        aged_ms = min(now.wall_ms, now.aging_ms)
        if offset.expire_ms >= 0:
            return aged_ms >= offset.expire_ms
        return aged_ms - since_ms >= self._settings.offsets_retention_ms

    # Topics: an offset without a topic id belongs to any topic of its name

    def topics_deleted(self, topics: Mapping[str, Uuid]) -> None:
        self._drop_where(lambda name, topic_id: name in topics and topic_id in (ZERO_UUID, topics[name]))

    def topics_are(self, id_of: Callable[[str], Uuid | None]) -> None:
        def is_gone(name: str, topic_id: Uuid) -> bool:
            found = id_of(name)
            return found is None or topic_id not in (ZERO_UUID, found)

        self._drop_where(is_gone)

    def _drop_where(self, is_gone: Callable[[str, Uuid], bool]) -> None:
        """Only offsets that exist now are dropped: a later one belongs to a new topic of that name."""
        self.tombstones.look(self._of_topics(Known(self._offsets), is_gone))

    def _of_topics(self, known: Known, is_gone: Callable[[str, Uuid], bool]) -> Look:
        for group_id in known.groups:
            doomed: list[Doomed] = []
            offsets = known.of(group_id)
            for at in range(0, len(offsets), AT_ONCE):
                piece = offsets[at : at + AT_ONCE]
                doomed += [each for each in piece if is_gone(each[0].topic, each[1].topic_id)]
                yield len(piece), None
            yield 0, self._ending(group_id, doomed, lambda place, now: True)
        known.let_go()


class Known:
    """The offsets that exist now, for a later look. Offsets that are committed meanwhile are not among them."""

    def __init__(self, offsets: OffsetTable) -> None:
        self._offsets = offsets
        self._since = offsets.watch()
        self._written = offsets.writes()
        self.groups = offsets.groups()

    def of(self, group_id: str) -> list[Doomed]:
        since = self._since.places
        there = self._offsets.of(group_id).items()
        known: list[Doomed] = [each for each in there if (group_id, each[0]) not in since]
        for changes in self._written.get(group_id, ()):
            known += [(place, offset) for place, offset in changes.items() if offset is not None]
        return known

    def let_go(self) -> None:
        self._offsets.unwatch(self._since)


def _refusal_of_offsets(group: Group | None, group_id: str) -> Code:
    if not group_id:
        return Code.INVALID_GROUP_ID
    if group is None:
        return Code.GROUP_ID_NOT_FOUND
    if group.state is State.DEAD:
        return _STILL_GOING
    return Code.NONE if group.state is State.EMPTY or group.is_consumer else Code.NON_EMPTY_GROUP


def _refusal_of_delete(group: Group | None) -> Code:
    if group is None:
        return Code.GROUP_ID_NOT_FOUND
    if group.state is State.DEAD:
        return _STILL_GOING
    return Code.NONE if group.state is State.EMPTY else Code.NON_EMPTY_GROUP


def _unused_since(group: Group, offset: CommittedOffset) -> int | None:
    """Since when the offset counts as unused; None if it is in use (KIP-211)."""
    if group.protocol_type is None:
        return offset.commit_ms
    if group.state is State.EMPTY:
        return offset.commit_ms if group.since_ms is None else group.since_ms
    knows_its_topics = group.state is State.STABLE and group.is_consumer and group.subscribed is not None
    return offset.commit_ms if knows_its_topics else None
