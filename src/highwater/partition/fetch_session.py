"""Fetch sessions (KIP-227): what a reader follows, and which of it may have news. The session is the watcher.

Partitions mark their entry dirty as they change, so a fetch costs what changed since the last one, not what the
session holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from highwater.errors import Code, KafkaError
from highwater.model import Epoch, Offset, Uuid
from highwater.partition.partition import Partition
from highwater.replication.conversation import next_epoch
from highwater.replication.leader import Contact

if TYPE_CHECKING:
    from random import Random

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
EVICT_IDLE_SECONDS = 120.0
MOST_ENTRIES = 200_000
"""Partitions in all sessions, beyond which a consumer gets none and its own may not grow: each takes some 400 bytes."""

Topic = str | Uuid


class FetchEntry:
    """One partition as a reader follows it."""

    __slots__ = (
        "epoch",
        "index",
        "is_fresh",
        "is_watching",
        "last_fetched_epoch",
        "log_start",
        "max_bytes",
        "offset",
        "partition",
        "sent_high_watermark",
        "sent_log_start",
        "session",
        "topic",
    )

    # As the session's last update has it.
    offset: Offset
    epoch: Epoch
    last_fetched_epoch: Epoch
    log_start: Offset
    max_bytes: int
    is_fresh: bool
    """Told by the request under way: for a follower, an acknowledgement that has not been counted yet."""

    def __init__(self, session: FetchSession, topic: Topic, index: int) -> None:
        self.session = session
        self.topic = topic
        self.index = index
        self.partition: Partition | None = None
        self.is_watching: bool = False
        """The partition will tell of a change. Of one it has told it need not tell again before somebody looks."""
        self.sent_high_watermark: Offset = -1
        self.sent_log_start: Offset = -1

    def mark(self) -> None:
        self.is_watching = False
        self.session.mark(self)

    def note(self) -> None:
        self.session.dirty[self] = None

    def restate(self) -> None:
        self.session.restated[self] = None

    def bind(self, partition: Partition | None) -> None:
        """Watch the partition that stands for the entry now, and no other."""
        if partition is self.partition and self.is_watching:
            return
        if partition is not self.partition and self.partition is not None:
            self.partition.unwatch(self)
        self.partition = partition
        self.is_watching = partition is not None
        if partition is not None:
            partition.watch(self, self.session.privileged)


class EntryCount:
    """How many partitions all sessions follow together."""

    __slots__ = ("most", "taken")

    def __init__(self, most: int) -> None:
        self.taken = 0
        self.most = most

    def has_room(self, partitions: int) -> bool:
        return self.taken + partitions <= self.most


class FetchSession:
    """The entries a reader follows. A sessionless fetch is a session that lives for one answer."""

    __slots__ = (
        "_count",
        "by_id",
        "contact",
        "dirty",
        "entries",
        "epoch",
        "id",
        "on_mark",
        "on_overtaken",
        "privileged",
        "restated",
        "ties",
    )

    def __init__(
        self, session_id: int, by_id: bool, privileged: bool, now: float, count: EntryCount | None = None
    ) -> None:
        self.id = session_id
        self._count = count
        """None where it lives for one answer."""
        self.epoch = 1
        self.by_id = by_id
        self.privileged = privileged
        self.contact = Contact(now)
        """When it was last used: for a follower's leaders, too."""
        self.entries: dict[tuple[Topic, int], FetchEntry] = {}
        self.dirty: dict[FetchEntry, None] = {}
        self.restated: dict[FetchEntry, None] = {}
        """Whose place the next request tells anew, also where it does not name them: nothing has changed there."""
        self.ties: dict[int, None] = {}
        """Of all that were begun on the same connection."""
        self.on_mark: Callable[[], None] | None = None
        """Set while an answer is being waited for."""
        self.on_overtaken: Callable[[], None] | None = None
        """Set as long: gives that answer now, as it stands."""

    def mark(self, entry: FetchEntry) -> None:
        self.dirty[entry] = None
        if self.on_mark is not None:
            self.on_mark()

    def update(
        self,
        topic: Topic,
        index: int,
        epoch: Epoch,
        offset: Offset,
        last_fetched_epoch: Epoch,
        log_start: Offset,
        max_bytes: int,
    ) -> None:
        """KafkaError where a consumer's session may not grow: it is to be ended, and the client begins anew."""
        entry = self.entries.get((topic, index))
        if entry is None:
            if self._count is not None:
                if not self.privileged and not self._count.has_room(1):
                    raise KafkaError(Code.FETCH_SESSION_ID_NOT_FOUND)
                self._count.taken += 1
            entry = self.entries[topic, index] = FetchEntry(self, topic, index)
        entry.epoch = epoch
        entry.offset = offset
        entry.last_fetched_epoch = last_fetched_epoch
        entry.log_start = log_start
        entry.max_bytes = max_bytes
        entry.is_fresh = True
        if self.privileged:
            # A follower takes nothing in of an answer about a place where it no longer is, nor where it must cut.
            entry.sent_high_watermark = entry.sent_log_start = -1
        self.dirty[entry] = None

    def forget(self, topic: Topic, indexes: Iterable[int]) -> None:
        for index in indexes:
            entry = self.entries.pop((topic, index), None)
            if entry is not None:
                if self._count is not None:
                    self._count.taken -= 1
                entry.bind(None)
                self.dirty.pop(entry, None)
                self.restated.pop(entry, None)

    def restate(self) -> None:
        """A further request came: where it names nothing else, what was told before holds still."""
        for entry in self.restated:
            entry.is_fresh = True
            self.dirty[entry] = None
        self.restated.clear()

    def abandon(self) -> None:
        """Who waits in it is gone, and needs no answer."""
        self.on_mark = self.on_overtaken = None

    def overtake(self) -> None:
        """A further request came, or the session ends: who waits in it waits no longer."""
        if self.on_overtaken is not None:
            self.on_overtaken()

    def close(self) -> None:
        self.overtake()
        self.on_mark = None
        for entry in self.entries.values():
            entry.bind(None)
        if self._count is not None:
            self._count.taken -= len(self.entries)
        self.entries.clear()
        self.dirty.clear()
        self.restated.clear()


class FetchSessions:
    """The sessions of one broker, bounded. Followers' sessions are never evicted for a consumer's."""

    def __init__(self, slots: int, random: Random, most: int = MOST_ENTRIES) -> None:
        self._slots = slots
        self._random = random
        self._sessions: dict[int, FetchSession] = {}
        self._count = EntryCount(most)
        self._tied: dict[object, dict[int, None]] = {}
        """Sessions, by the connection that they were begun on."""

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, by_id: bool, privileged: bool, now: float, partitions: int) -> FetchSession:
        """A session with an id if there is room, else one with id 0: the client then asks in full each time. Followers
        have room for as many `partitions` as they follow."""
        if len(self._sessions) >= self._slots and not self._evict(privileged, now):
            return FetchSession(0, by_id, privileged, now)
        if not privileged and not self._count.has_room(partitions):
            return FetchSession(0, by_id, privileged, now)
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = self._random.randrange(1, 2**31)
        session = self._sessions[session_id] = FetchSession(session_id, by_id, privileged, now, self._count)
        return session

    def tie(self, session: FetchSession, connection: object) -> bool:
        """True for a connection's first: whoever calls has `end_with` called when it closes."""
        known = self._tied.get(connection)
        session.ties = self._tied[connection] = {} if known is None else known
        session.ties[session.id] = None
        return known is None

    def end_with(self, connection: object) -> None:
        for session_id in list(self._tied.pop(connection, ())):
            self.remove_id(session_id)

    def _evict(self, privileged: bool, now: float) -> bool:
        for session in self._sessions.values():
            if now - session.contact.at > EVICT_IDLE_SECONDS or (privileged and not session.privileged):
                self.remove(session)
                return True
        return False

    def resume(self, session_id: int, epoch: int, by_id: bool, now: float) -> FetchSession:
        """The session an incremental fetch continues; KafkaError where the client must begin anew."""
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(Code.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(Code.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            raise KafkaError(Code.FETCH_SESSION_TOPIC_ID_ERROR)
        session.overtake()
        session.epoch = next_epoch(epoch)
        session.contact.at = now
        session.restate()
        del self._sessions[session_id]
        self._sessions[session_id] = session
        return session

    def remove(self, session: FetchSession) -> None:
        self._sessions.pop(session.id, None)
        session.ties.pop(session.id, None)
        session.close()

    def remove_id(self, session_id: int) -> None:
        session = self._sessions.get(session_id)
        if session is not None:
            self.remove(session)
