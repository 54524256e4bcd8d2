"""All groups of one partition of `__consumer_offsets`: the object that a coordinator drives.

The driver loads it with `replay` and `loaded`. Then it feeds requests, deadlines and the results of writes. Each input
returns its effects, which are carried out in order. When the partition moves to another broker, `resigned` is the last
input.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from highwater.effects import Caller, Effect, Now, Outbox, Write
from highwater.errors import Code
from highwater.groups import describing
from highwater.groups.commits import Commits
from highwater.groups.deadlines import Deadline, Deadlines, Joining, RetentionCheck, Retry, Session, Syncing
from highwater.groups.describing import GroupFilter, Position
from highwater.groups.loading import NO_PRODUCER_ID, Loading
from highwater.groups.membership import Membership
from highwater.groups.offsets import OffsetTable
from highwater.groups.reading import OffsetReading
from highwater.groups.rebalance import Rebalance
from highwater.groups.refusals import refused_join
from highwater.groups.registry import Registry
from highwater.groups.removal import Removal
from highwater.groups.settings import GroupSettings
from highwater.model import Uuid
from highwater.wire.messages.describe_groups_response import DescribedGroup
from highwater.wire.messages.heartbeat_request import HeartbeatRequest
from highwater.wire.messages.join_group_request import JoinGroupRequest
from highwater.wire.messages.leave_group_request import LeaveGroupRequest
from highwater.wire.messages.list_groups_response import ListedGroup
from highwater.wire.messages.offset_commit_request import OffsetCommitRequest
from highwater.wire.messages.offset_delete_request import OffsetDeleteRequest
from highwater.wire.messages.offset_fetch_request import OffsetFetchRequestGroup
from highwater.wire.messages.sync_group_request import SyncGroupRequest
from highwater.wire.messages.sync_group_response import SyncGroupResponse

_log = logging.getLogger(__name__)
EXPIRED_AT_ONCE: Final = 250
"""The most deadlines and effects together that one call of `expired` handles."""


class GroupShard:
    def __init__(
        self,
        settings: GroupSettings,
        unique: Callable[[], str],
        most_bytes: Callable[[], int],
        has_room: Callable[[int], bool] = lambda more: True,
    ) -> None:
        """`unique` returns the unique part of a member id, such as the text of a random UUID. `most_bytes` returns the
        largest size of a batch in the partition. `has_room` says whether this many more bytes may be stored."""
        self._registry = Registry()
        self._offsets = OffsetTable()
        self._deadlines = Deadlines()
        self._outbox = Outbox()
        self._settings = settings
        self._most_bytes = most_bytes
        self._rebalance = Rebalance(settings, self._deadlines, self._outbox, has_room)
        self._membership = Membership(self._registry, self._rebalance, unique)
        self._commits = Commits(self._registry, self._offsets, self._rebalance, most_bytes)
        self._reading = OffsetReading(self._offsets, self._outbox)
        self._removal = Removal(self._registry, self._offsets, settings, self._deadlines, self._outbox)
        self._loading = Loading(self._registry, self._offsets)

    # Loading

    def replay(self, key: bytes, value: bytes | None, producer_id: int = NO_PRODUCER_ID) -> None:
        self._loading.replay(key, value, producer_id)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """The log has the marker of a transaction here."""
        self._loading.end_transaction(producer_id, commit=commit)

    def loaded(self, now: Now) -> list[Effect]:
        """Everything is replayed. The sessions of the loaded members begin now."""
        for producer_id in self._loading.abort_open():
            _log.warning("the open transaction of producer %d is aborted: nobody will end it", producer_id)
        for group in list(self._registry):
            for member in group.members.values():
                self._rebalance.renew(group, member, now)
            if len(group.members) > self._settings.max_size:
                self._rebalance.prepare(group, now)
        self._removal.schedule(now)
        return self._outbox.drain()

    @property
    def size(self) -> int:
        """The memory of all groups and offsets, in bytes."""
        return self._registry.size + self._offsets.size

    # Requests

    def join(self, request: JoinGroupRequest, caller: Caller, now: Now) -> list[Effect]:
        self._membership.join(request, caller, now)
        return self._outbox.drain()

    def sync(self, request: SyncGroupRequest, caller: Caller, now: Now) -> list[Effect]:
        self._membership.sync(request, caller, now)
        return self._outbox.drain()

    def heartbeat(self, request: HeartbeatRequest, caller: Caller, now: Now) -> list[Effect]:
        self._membership.heartbeat(request, caller, now)
        return self._outbox.drain()

    def leave(self, request: LeaveGroupRequest, caller: Caller, now: Now) -> list[Effect]:
        self._membership.leave(request, caller, now)
        return self._outbox.drain()

    def commit_offsets(self, request: OffsetCommitRequest, caller: Caller, now: Now) -> list[Effect]:
        """Topics must have their names, and their ids if the request has them."""
        self._commits.commit(request, caller, now)
        return self._outbox.drain()

    def fetch_offsets(self, request: OffsetFetchRequestGroup, caller: Caller, *, require_stable: bool) -> list[Effect]:
        """For one group. The response is an OffsetFetchResponseGroup; `reading` splits requests and joins responses."""
        self._reading.fetch(request, caller, require_stable=require_stable)
        return self._outbox.drain()

    def delete_offsets(self, request: OffsetDeleteRequest, caller: Caller) -> list[Effect]:
        self._removal.delete_offsets(request, caller)
        return self._outbox.drain()

    def delete_groups(self, group_ids: Iterable[str], caller: Caller, now: Now) -> list[Effect]:
        self._removal.delete(group_ids, caller, now)
        return self._outbox.drain()

    def describe(self, group_id: str, version: int) -> DescribedGroup:
        return describing.describe(self._registry, group_id, version)

    def list_groups(self, wanted: GroupFilter) -> Iterator[ListedGroup]:
        return describing.list_groups(self._registry, wanted)

    def positions(self) -> Iterator[Position]:
        return describing.positions(self._registry, self._offsets)

    # Other inputs

    def topics_are(self, id_of: Callable[[str], Uuid | None]) -> list[Effect]:
        """Call this once, after `loaded`. `id_of` knows every topic that exists."""
        self._removal.topics_are(id_of)
        return self._outbox.drain()

    def topics_deleted(self, topics: Mapping[str, Uuid]) -> list[Effect]:
        self._removal.topics_deleted(topics)
        return self._outbox.drain()

    @property
    def is_behind(self) -> bool:
        """Whether there is more to write than fits into one turn of the loop. Then `proceed` must be called."""
        return self._removal.tombstones.is_behind

    def proceed(self, now: Now) -> list[Effect]:
        """Writes one piece."""
        self._removal.tombstones.proceed(self._most_bytes(), now)
        return self._outbox.drain()

    @property
    def next_deadline(self) -> float | None:
        """When to call `expired`, on the monotonic clock; None before `loaded` and after `resigned`."""
        return self._deadlines.next()

    def expired(self, now: Now) -> list[Effect]:
        """Handles some of the deadlines that are due, a few milliseconds of work. If there are more, `next_deadline` is
        in the past."""
        for done, deadline in enumerate(self._deadlines.expired(now.monotonic), 1):
            self._expire(deadline, now)
            if done + self._outbox.size >= EXPIRED_AT_ONCE:
                break
        return self._outbox.drain()

    def _expire(self, deadline: Deadline, now: Now) -> None:
        if isinstance(deadline, RetentionCheck):
            self._removal.check_retention(now)
            return
        if isinstance(deadline, Retry):
            self._removal.tombstones.retry()
            return
        group = self._registry.get(deadline.group)
        if group is None:
            return
        match deadline:
            case Session():
                self._rebalance.session_is_over(group, deadline.member, now)
            case Joining():
                self._rebalance.joining_is_over(group, now)
            case Syncing():
                self._rebalance.syncing_is_over(group, now)
        self._membership.forget_if_unused(group)

    def committed(self, write: Write, now: Now) -> list[Effect]:
        self._outbox.close(write)
        write.then.committed(now)
        return self._outbox.drain()

    def failed(self, write: Write, code: Code, now: Now) -> list[Effect]:
        """`code` is the error of the partition; clients get Kafka's translation of it."""
        self._outbox.close(write)
        write.then.failed(code, now)
        return self._outbox.drain()

    def overdue(self, write: Write, now: Now) -> list[Effect]:
        """The write is in the log and was not committed in time. It may still be committed, so it is not closed."""
        self._outbox.expect(write)
        write.then.overdue(Code.REQUEST_TIMED_OUT, now)
        return self._outbox.drain()

    def resigned(self, now: Now) -> list[Effect]:
        """Another broker coordinates these groups now. Waiting requests are answered with NOT_COORDINATOR, and all
        state is dropped."""
        for group in self._registry:
            for member_id in list(group.joining):
                self._rebalance.answer_joining(group, member_id, refused_join(Code.NOT_COORDINATOR, member_id))
            for member_id in list(group.syncing):
                self._rebalance.answer_syncing(group, member_id, SyncGroupResponse(error_code=Code.NOT_COORDINATOR))
        self._removal.tombstones.abandon(Code.NOT_LEADER_OR_FOLLOWER)
        for write in self._outbox.abandon():
            write.then.overdue(Code.NOT_LEADER_OR_FOLLOWER, now)
        self._registry.clear()
        self._offsets.clear()
        self._deadlines.clear()
        return self._outbox.drain()
