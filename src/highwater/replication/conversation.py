"""The fetches of a follower broker to one leader broker, over all partitions that it follows there. Pure.

A fetch session keeps the cost of a fetch to what changed (KIP-227). Each fetch acknowledges the records of the fetch
before it, so it is sent only when those records are synced. While one fetch waits at the leader, a second one may
overtake it for a partition that the first does not name: the first write to a new leader would have to wait otherwise.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

from highwater.errors import Code
from highwater.replication.follower import Follower

MAX_EPOCH = 2**31 - 1
SESSION_LOST = (Code.FETCH_SESSION_ID_NOT_FOUND, Code.INVALID_FETCH_SESSION_EPOCH, Code.FETCH_SESSION_TOPIC_ID_ERROR)
"""Errors after which the follower begins a new session at once: one of the two sides has lost the old one."""


def next_epoch(epoch: int, fetches: int = 1) -> int:
    """The session epoch after `fetches` more fetches. It wraps to 1, because 0 begins a session."""
    return epoch + fetches if epoch + fetches <= MAX_EPOCH else epoch + fetches - MAX_EPOCH


Key = TypeVar("Key", bound=Hashable)


class Fetch(NamedTuple, Generic[Key]):
    number: int
    session_id: int
    session_epoch: int
    waits: bool
    """Whether the leader may hold the fetch until it has something new."""
    named: list[Key]
    """The partitions of this fetch, in the order in which they were added. Each is fetched from its log end."""
    forgotten: list[Key]


class Conversation(Generic[Key]):
    """Each follower is known by the key of its partition."""

    __slots__ = (
        "_fetching",
        "_forgotten",
        "_has_sessions",
        "_in_flight",
        "_made",
        "_moved",
        "_session_epoch",
        "_session_id",
        "_syncing",
        "_unnamed",
        "followers",
    )

    def __init__(self) -> None:
        self.followers: dict[Key, Follower] = {}
        self._fetching: dict[Key, None] = {}
        """Partitions that can be fetched now: they are not being truncated and do not pause after an error. If there is
        none, no fetch is sent."""
        self._moved: dict[Key, None] = {}
        """Partitions that the next fetch names."""
        self._forgotten: dict[Key, None] = {}
        """Partitions that the next fetch removes from the session. The leader ignores one that is not in its
        session."""
        self._syncing: dict[Key, Follower] = {}
        """Partitions with records that are not synced yet."""
        self._in_flight = 0
        self._made = 0
        self._session_id = 0
        self._session_epoch = 0
        self._unnamed: bool = False
        """Whether there is a partition that no fetch of this session has named."""
        self._has_sessions = True
        """False once the leader has answered without a session. A fetch that asks for a session does not wait at the
        leader, so asking again each time would repeat fetches without end."""

    # Inputs: what is followed

    def follow(self, key: Key, follower: Follower) -> None:
        """Begin to follow a partition, or follow it in a new leader epoch. The partition is removed from the session
        first. Otherwise the leader would answer its old position again and again while the log is still being cut."""
        self.unfollow(key)
        self.followers[key] = follower
        self.note(key)

    def unfollow(self, key: Key) -> None:
        follower = self.followers.pop(key, None)
        if follower is None:
            return
        follower.stop()
        for each in (self._fetching, self._moved, self._syncing):
            each.pop(key, None)
        self._forgotten[key] = None

    def note(self, key: Key) -> None:
        """Call this after every other input to a follower: the follower may have moved, stopped or resumed."""
        follower = self.followers[key]
        if not follower.fetches:
            if key in self._fetching:
                del self._fetching[key]
                self._moved.pop(key, None)
                self._forgotten[key] = None
        elif follower.is_moved:
            self._moved[key] = None
            if key not in self._fetching:
                self._fetching[key] = None
                self._forgotten.pop(key, None)
                self._unnamed = True

    # Inputs: what a fetch would acknowledge

    def sync(self, key: Key) -> Follower | None:
        """Mark a follower's records as being synced: no fetch leaves until `synced`. None if they already are
        marked."""
        if key in self._syncing:
            return None
        self._syncing[key] = self.followers[key]
        return self.followers[key]

    def synced(self, key: Key, follower: Follower) -> None:
        """The records are synced, or never will be. A sync that began in an earlier term is ignored."""
        if self._syncing.get(key) is follower:
            del self._syncing[key]

    def restate(self, key: Key) -> None:
        """The log start is stored on disk, so the leader may now learn it and report the records as deleted. A follower
        that does not fetch now reports it with its next fetch."""
        if self.followers[key].fetches:
            self._moved[key] = None
            self._unnamed = True

    # Inputs: the connection

    def begin_session(self) -> None:
        self._session_id = self._session_epoch = 0
        self._forgotten.clear()
        self._moved = dict(self._fetching)

    def lost(self) -> None:
        """The connection is lost, and no fetch on it will be answered."""
        self._in_flight = 0

    # Fetches

    @property
    def is_due(self) -> bool:
        """Whether a fetch may leave once all that `moved` names is synced."""
        if not self._fetching:
            return False
        return not self._in_flight or self._may_overtake

    @property
    def _may_overtake(self) -> bool:
        """Whether a second fetch may be sent now. It makes the leader answer the waiting fetch at once. There is at
        most one such fetch at a time, and it needs a session."""
        return self._unnamed and self._in_flight == 1 and self._session_id != 0

    @property
    def moved(self) -> list[Key]:
        return list(self._moved)

    @property
    def is_syncing(self) -> bool:
        return bool(self._syncing)

    def fetch(self) -> Fetch[Key]:
        """Make the next fetch; it counts as sent."""
        assert self.is_due and not self._syncing, "a fetch would acknowledge what a power cut may still take"
        self._made += 1
        named, forgotten = list(self._moved), list(self._forgotten)
        for key in named:
            self.followers[key].asked(self._made)
        epoch = next_epoch(self._session_epoch, self._in_flight)
        # A fetch that begins a session cannot be overtaken, so the leader must not hold it.
        waits = self._session_id != 0 or not self._has_sessions
        self._moved.clear()
        self._forgotten.clear()
        self._unnamed = False
        self._in_flight += 1
        return Fetch(self._made, self._session_id, epoch, waits, named, forgotten)

    def answered(self, session_id: int) -> None:
        """A fetch was answered. The driver feeds its rows to the followers next, and then calls `taken`."""
        self._in_flight -= 1
        self._session_id = session_id
        self._session_epoch = next_epoch(self._session_epoch)
        self._has_sessions = session_id != 0

    def taken(self) -> None:
        """The rows of a response were taken in. Without a session, the next fetch names every partition again."""
        if self._session_id == 0:
            self.begin_session()

    def refused(self, code: Code) -> bool:
        """The leader refused the whole fetch. True if only the session was lost: the next fetch need not pause."""
        self._in_flight -= 1
        self.begin_session()
        return code in SESSION_LOST
