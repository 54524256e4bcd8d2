"""Fetch sessions (KIP-227): the partitions that a reader follows, and which of them may have something new.

A partition marks its entry as dirty when it changes. So the cost of a fetch depends on what changed since the last one,
not on the size of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from highwater.errors import Code, KafkaError
from highwater.model import Epoch, Offset, Uuid
from highwater.partition.partition import Partition
from highwater.replication.conversation import next_epoch
from highwater.replication.follower_progress import Contact

if TYPE_CHECKING:
    from random import Random

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
EVICT_IDLE_SECONDS = 120.0
MOST_ENTRIES = 200_000
"""The most partitions in all sessions together. Beyond it a consumer gets no session, and no consumer's session may
grow. Each partition takes about 400 bytes."""

MOST_WAITING_ENTRIES = 100_000
"""The most partitions in consumers' fetches without a session, counting the fetches that wait and those that name many
partitions. Beyond it a fetch is answered at once. If it names many partitions, its response is empty."""

Topic = str | Uuid


class FetchEntry:
    """One partition of a session."""

    __slots__ = (
        "epoch",
        "index",
        "is_forgotten",
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

    # From the reader's last request that named the partition.
    offset: Offset
    epoch: Epoch
    last_fetched_epoch: Epoch
    log_start: Offset
    max_bytes: int
    is_fresh: bool
    """The present request has sent this position. For a follower it is an acknowledgement that is not counted yet."""

    def __init__(self, session: FetchSession, topic: Topic, index: int) -> None:
        self.session = session
        self.topic = topic
        self.index = index
        self.partition: Partition | None = None
        self.is_forgotten = False
        """It is no longer in its session. The end of a look-up on disk must not bring it back."""
        self.is_watching: bool = False
        """The partition will notify this entry of a change. It notifies once; `bind` watches it again."""
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
        """Watch `partition`, and stop watching any other: the topic may have been created anew."""
        if partition is self.partition and self.is_watching:
            return
        if partition is not self.partition and self.partition is not None:
            self.partition.unwatch(self)
        self.partition = partition
        self.is_watching = partition is not None
        if partition is not None:
            partition.watch(self, self.session.privileged)

    def forget(self) -> None:
        self.is_forgotten = True
        self.bind(None)


class EntryCount:
    """The number of partitions in all sessions together."""

    __slots__ = ("most", "taken")

    def __init__(self, most: int) -> None:
        self.taken = 0
        self.most = most

    def has_room(self, partitions: int) -> bool:
        return self.taken + partitions <= self.most


class FetchSession:
    """The entries that a reader follows. A fetch without a session uses one that lives for a single response."""

    __slots__ = (
        "_count",
        "by_id",
        "contact",
        "counted",
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
        """None if the session lives for a single response."""
        self.epoch = 1
        self.by_id = by_id
        self.privileged = privileged
        self.contact = Contact(now)
        """When the session was last used. The leaders of a follower's partitions read it, too."""
        self.entries: dict[tuple[Topic, int], FetchEntry] = {}
        self.dirty: dict[FetchEntry, None] = {}
        self.restated: dict[FetchEntry, None] = {}
        """Entries whose position no longer counts until the next request. A request that does not name such an entry
        confirms its position."""
        self.ties: dict[int, None] = {}
        """The ids of all sessions that were begun on the same connection."""
        self.counted = 0
        """The partitions that count in `FetchSessions.admit`."""
        self.on_mark: Callable[[], None] | None = None
        """Set while a fetch waits for new records."""
        self.on_overtaken: Callable[[], None] | None = None
        """Set while a fetch waits: sends its response now, with what there is."""

    def mark(self, entry: FetchEntry) -> None:
        if entry.is_forgotten:
            return
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
        """Raises KafkaError if a consumer's session may not grow: the caller ends it, and the client begins anew."""
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
            # A follower ignores a response for an old position, and one that makes it cut. So what was sent before may
            # not have been taken in, and both offsets are sent again.
            entry.sent_high_watermark = entry.sent_log_start = -1
        self.dirty[entry] = None

    def forget(self, topic: Topic, indexes: Iterable[int]) -> None:
        for index in indexes:
            entry = self.entries.pop((topic, index), None)
            if entry is not None:
                if self._count is not None:
                    self._count.taken -= 1
                entry.forget()
                self.dirty.pop(entry, None)
                self.restated.pop(entry, None)

    def restate(self) -> None:
        """A further request came. It confirms the position of every entry that it does not name."""
        for entry in self.restated:
            entry.is_fresh = True
            self.dirty[entry] = None
        self.restated.clear()

    def abandon(self) -> None:
        """The client of the waiting fetch is gone and needs no response."""
        self.on_mark = self.on_overtaken = None

    def overtake(self) -> None:
        """A further request came, or the session ends: the waiting fetch is answered now."""
        if self.on_overtaken is not None:
            self.on_overtaken()

    def close(self) -> None:
        self.overtake()
        self.on_mark = None
        for entry in self.entries.values():
            entry.forget()
        if self._count is not None:
            self._count.taken -= len(self.entries)
        self.entries.clear()
        self.dirty.clear()
        self.restated.clear()


class FetchSessions:
    """The sessions of one broker, limited in number. A follower's session is never evicted for a consumer's."""

    def __init__(
        self, slots: int, random: Random, most: int = MOST_ENTRIES, most_waiting: int = MOST_WAITING_ENTRIES
    ) -> None:
        self._slots = slots
        self._random = random
        self._sessions: dict[int, FetchSession] = {}
        self._count = EntryCount(most)
        self._waiting = EntryCount(most_waiting)
        self._tied: dict[object, dict[int, None]] = {}
        """The ids of the sessions that were begun on each connection."""

    def __len__(self) -> int:
        return len(self._sessions)

    def may_wait(self, session: FetchSession) -> bool:
        """Whether a fetch may wait for records: a follower's always. A consumer's fetch without a session counts from
        now on, until `waits_no_more`."""
        return self.admit(session, len(session.entries))

    def admit(self, session: FetchSession, partitions: int) -> bool:
        """Whether there is memory for so many partitions of a consumer's fetch without a session. They count until
        `waits_no_more`."""
        if session.id == 0 and not session.privileged and not session.counted:
            if not self._waiting.has_room(partitions):
                return False
            session.counted = partitions
            self._waiting.taken += partitions
        return True

    def waits_no_more(self, session: FetchSession) -> None:
        self._waiting.taken -= session.counted
        session.counted = 0

    def create(self, by_id: bool, privileged: bool, now: float, partitions: int) -> FetchSession:
        """Make a session. Without room it has id 0, and the client then names all partitions in each request. The limit
        on `partitions` does not apply to followers."""
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
        """Bind the session to a connection. True for its first session: then the caller must arrange that `end_with` is
        called when the connection closes."""
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
        """The session that an incremental fetch continues. Raises KafkaError if the client must begin a new session."""
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
