"""Writes the tombstones of offsets and groups in pieces.

A group may have very many offsets, and the deletion of a topic may concern very many groups. So the driver asks for one
piece at a time, and says how large a batch may be. An offset that is committed again in between stays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from highwater.effects import Now, Outbox
from highwater.errors import Code
from highwater.groups.deadlines import Deadlines, Retry
from highwater.groups.group import Group
from highwater.groups.offsets import OffsetTable
from highwater.groups.records import CommittedOffset, group_tombstone
from highwater.groups.registry import Registry
from highwater.groups.states import State
from highwater.groups.storing import OffsetsStored, Reply
from highwater.model import TopicPartition

AT_ONCE: Final = 250
"""The most offsets that one piece checks or removes: a few milliseconds of work."""
RETRY_SECONDS: Final = 10.0
_BATCH_BYTES: Final = 61
_RECORD_BYTES: Final = 20
"""The largest size of a tombstone, without its key."""
_OFFSET_KEY_BYTES: Final = 10
_GROUP_KEY_BYTES: Final = 4

Doomed = tuple[TopicPartition, CommittedOffset]
Look = Iterator["tuple[int, Ending | None]"]
"""One group at a time: how many offsets were checked, and which of them to remove."""
OnDeleted = Callable[[str, Code], None]


class Tombstones:
    """The queue of tombstones that are not written yet."""

    def __init__(self, registry: Registry, offsets: OffsetTable, deadlines: Deadlines, outbox: Outbox) -> None:
        self.registry = registry
        self.offsets = offsets
        self.outbox = outbox
        self._deadlines = deadlines
        self._asked: deque[GroupEnding | OffsetsGivenUp] = deque()
        self.given_up = 0
        """The number of offsets of OffsetDelete requests that wait for their tombstones."""
        self._unasked: deque[OffsetsEnding] = deque()
        self._looks: deque[Look] = deque()
        self._check: Look | None = None
        self._later: list[OffsetsEnding] = []
        self._is_refused = False
        """The log refuses writes at present. Requests get an error, and removals without a request wait."""

    @property
    def is_behind(self) -> bool:
        return bool(self._asked or self._looks) or (not self._is_refused and bool(self._unasked or self._check))

    def proceed(self, most_bytes: int, now: Now) -> None:
        """Writes the next piece, in a batch of at most `most_bytes`, or looks for offsets to remove."""
        if self._asked:
            self._asked.popleft().write(most_bytes)
        elif self._looks:
            if self._is_over(self._looks[0]):
                self._looks.popleft()
        elif self._is_refused:
            return
        elif self._unasked:
            self._unasked.popleft().write(most_bytes, now)
        elif self._check is not None and self._is_over(self._check):
            self._check = None

    def _is_over(self, look: Look) -> bool:
        """Continues a look until it finds something or the turn is over. True if the look has ended."""
        looked = 0
        while looked < AT_ONCE:
            found = next(look, None)
            if found is None:
                return True
            looked += 1 + found[0]
            if found[1] is not None:
                self.add(found[1])
                break
        return False

    def look(self, look: Look) -> None:
        self._looks.append(look)

    def check(self, look: Look) -> None:
        """As `look`, for a check that can wait while the log refuses writes. It is skipped if the last check still
        runs."""
        if self._check is None:
            self._check = look

    def add(self, ending: Ending) -> None:
        if isinstance(ending, OffsetsEnding):
            self._unasked.append(ending)
        else:
            self._asked.append(ending)

    def put_off(self, ending: OffsetsEnding, now: Now) -> None:
        self._later.append(ending)
        self._retry(now)

    def refused(self, code: Code, now: Now) -> None:
        """A write was refused. If its batch was too large, other writes can still succeed."""
        if code is not Code.MESSAGE_TOO_LARGE:
            self._is_refused = True
            self._retry(now)

    def _retry(self, now: Now) -> None:
        if Retry() not in self._deadlines:
            self._deadlines.set(Retry(), now.monotonic + RETRY_SECONDS)

    def retry(self) -> None:
        self._is_refused = False
        later, self._later = self._later, []
        self._unasked.extend(later)

    def abandon(self, code: Code) -> None:
        for ending in self._asked:
            ending.answer(code)
        self._asked.clear()
        self.given_up = 0
        self._unasked.clear()
        self._looks.clear()
        self._check = None
        self._later.clear()


class OffsetsEnding:
    """Offsets of one group that are removed without a request. Those that are committed again meanwhile stay."""

    def __init__(
        self, queue: Tombstones, group_id: str, doomed: Sequence[Doomed], is_due: Callable[[TopicPartition, Now], bool]
    ) -> None:
        self._queue = queue
        self._group_id = group_id
        self._left = deque(doomed)
        self._moving: list[Doomed] = []
        """Offsets with a commit that is being written, and whose result is not known yet."""
        self._is_due = is_due
        self._written: list[Doomed] = []
        self._stored: OffsetsStored | None = None

    def write(self, most_bytes: int, now: Now) -> None:
        offsets, group_id = self._queue.offsets, self._group_id
        committed = offsets.of(group_id)
        due: dict[TopicPartition, CommittedOffset] = {}
        for _ in range(min(AT_ONCE, len(self._left))):
            place, offset = self._left.popleft()
            if offsets.is_writing(group_id, place):
                self._moving.append((place, offset))
            elif committed.get(place) is offset and self._is_due(place, now):
                due[place] = offset
        left = deque(due)
        changes, _ = _cut(group_id, left, most_bytes)
        self._left.extend((place, due[place]) for place in left)
        if changes:
            self._written = [(place, due[place]) for place in changes]
            self._stored = OffsetsStored(self._queue.registry, offsets, group_id, changes)
            about = f"the tombstones of {len(changes)} offsets of group {group_id}"
            self._queue.outbox.write(self._stored.records(), self, about)
        else:
            self._go_on(now)

    def _go_on(self, now: Now) -> None:
        if self._left:
            self._queue.add(self)
        elif self._moving:
            self._left, self._moving = deque(self._moving), []
            self._queue.put_off(self, now)

    def committed(self, now: Now) -> None:
        assert self._stored is not None
        self._stored.committed(now)
        self._go_on(now)

    def failed(self, code: Code, now: Now) -> None:
        assert self._stored is not None
        self._stored.failed(code, now)
        self._left.extend(self._written)
        self._queue.refused(code, now)
        self._queue.put_off(self, now)

    def overdue(self, code: Code, now: Now) -> None:
        assert self._stored is not None
        self._stored.overdue(code, now)


class OffsetsGivenUp:
    """Offsets of one group that an OffsetDelete request removes. Offsets that are committed after the request stay, as
    if all tombstones were written at once. The request is answered after the last tombstone, or at the first
    failure."""

    def __init__(
        self,
        queue: Tombstones,
        group_id: str,
        doomed: Mapping[TopicPartition, CommittedOffset],
        reply: Reply,
    ) -> None:
        self._queue = queue
        self._group_id = group_id
        self._left = deque(doomed.items())
        self._reply = reply
        self._stored: OffsetsStored | None = None
        queue.given_up += len(doomed)

    def write(self, most_bytes: int) -> None:
        offsets, group_id = self._queue.offsets, self._group_id
        due: dict[TopicPartition, CommittedOffset] = {}
        for _ in range(min(AT_ONCE, len(self._left))):
            place, offset = self._left.popleft()
            if offsets.last(group_id, place) is offset:
                due[place] = offset
            else:
                self._queue.given_up -= 1
        left = deque(due)
        changes, _ = _cut(group_id, left, most_bytes)
        self._left.extend((place, due[place]) for place in left)
        self._queue.given_up -= len(changes)
        if changes:
            self._stored = OffsetsStored(self._queue.registry, offsets, group_id, changes)
            self._queue.outbox.write(self._stored.records(), self)
        else:
            self._go_on()

    def _go_on(self) -> None:
        if self._left:
            self._queue.add(self)
        else:
            self._reply.send()

    def committed(self, now: Now) -> None:
        assert self._stored is not None
        self._stored.committed(now)
        self._go_on()

    def failed(self, code: Code, now: Now) -> None:
        assert self._stored is not None
        self._stored.failed(code, now)
        self._queue.given_up -= len(self._left)
        self.answer(code)

    def overdue(self, code: Code, now: Now) -> None:
        assert self._stored is not None
        self._stored.overdue(code, now)
        self.answer(code)

    def answer(self, code: Code) -> None:
        self._reply.send(code)


class GroupEnding:
    """Removes a group with all its offsets. Its own tombstone is the last. Meanwhile the group is dead, and requests
    get a retriable error: it is not known yet whether they will meet the old group or a new one."""

    def __init__(self, queue: Tombstones, group: Group, now: Now, on_deleted: OnDeleted | None = None) -> None:
        self._queue = queue
        self._group = group
        self._on_deleted = on_deleted
        self._left: deque[TopicPartition] | None = None
        self._stored: OffsetsStored | None = None
        self._is_last = False
        _move(group, State.DEAD, now)

    def write(self, most_bytes: int) -> None:
        offsets, group_id = self._queue.offsets, self._group.id
        if self._left is None:
            self._left = deque(offsets.places(group_id))
        changes, room = _cut(group_id, self._left, most_bytes)
        own_bytes = _RECORD_BYTES + _GROUP_KEY_BYTES + len(group_id.encode())
        self._is_last = not self._left and (own_bytes <= room or not changes)
        self._stored = OffsetsStored(self._queue.registry, offsets, group_id, changes) if changes else None
        records = [] if self._stored is None else self._stored.records()
        if self._is_last:
            records.append(group_tombstone(group_id))
        is_asked = self._on_deleted is not None
        about = "" if is_asked else f"{len(records)} tombstones of group {group_id}, which is to be removed"
        self._queue.outbox.write(records, self, about)

    def committed(self, now: Now) -> None:
        if self._stored is not None:
            self._stored.committed(now)
        if self._is_last:
            self._queue.registry.remove(self._group.id)
            self.answer(Code.NONE)
        else:
            self._queue.add(self)

    def failed(self, code: Code, now: Now) -> None:
        if self._stored is not None:
            self._stored.failed(code, now)
        _move(self._group, State.EMPTY, now)
        if self._on_deleted is None:
            self._queue.refused(code, now)
        self.answer(code)

    def overdue(self, code: Code, now: Now) -> None:
        if self._stored is not None:
            self._stored.overdue(code, now)
        self.answer(code)

    def answer(self, code: Code) -> None:
        if self._on_deleted is not None:
            self._on_deleted(self._group.id, code)


Ending = OffsetsEnding | OffsetsGivenUp | GroupEnding


def _cut(
    group_id: str, places: deque[TopicPartition], most_bytes: int
) -> tuple[dict[TopicPartition, CommittedOffset | None], int]:
    """Takes the first places, as many as fit into a batch but at least one. Returns them and the room that is left."""
    room = most_bytes - _BATCH_BYTES
    each = _RECORD_BYTES + _OFFSET_KEY_BYTES + len(group_id.encode())
    taken: dict[TopicPartition, CommittedOffset | None] = {}
    while places and len(taken) < AT_ONCE:
        size = each + len(places[0].topic.encode())
        if taken and size > room:
            break
        room -= size
        taken[places.popleft()] = None
    return taken, room


def _move(group: Group, state: State, now: Now) -> None:
    """Moves the group to `state`. Its retention still counts from when it became empty."""
    since_ms = group.since_ms
    group.move(state, now.wall_ms)
    group.since_ms = since_ms
