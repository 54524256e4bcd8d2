"""A follower broker's conversation with one leader broker, over all partitions that it leads and we follow. Pure.

The fetch session keeps both sides' costs to what changed (KIP-227). The next fetch is the acknowledgement of the last
one's records, so it leaves only when what it would acknowledge is synced. A fetch that waits at the leader is overtaken
by another as soon as there is a partition that it does not name: a new leader's first write waits for that.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

from highwater.errors import Code
from highwater.replication.follower import Follower

MAX_EPOCH = 2**31 - 1
SESSION_LOST = (Code.FETCH_SESSION_ID_NOT_FOUND, Code.INVALID_FETCH_SESSION_EPOCH, Code.FETCH_SESSION_TOPIC_ID_ERROR)
"""The leader has forgotten the session, or we have: another is begun at once."""


def next_epoch(epoch: int, fetches: int = 1) -> int:
    """The session's epoch so many fetches later: it goes round to 1, for 0 begins a session."""
    return epoch + fetches if epoch + fetches <= MAX_EPOCH else epoch + fetches - MAX_EPOCH


Key = TypeVar("Key", bound=Hashable)


class Fetch(NamedTuple, Generic[Key]):
    number: int
    session_id: int
    session_epoch: int
    waits: bool
    """Whether the leader may hold it until there is news."""
    named: list[Key]
    """In the order in which they came. Each at its log's end."""
    forgotten: list[Key]


class Conversation(Generic[Key]):
    """Followers come and go by their key, which is that of their partition."""

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
        """Those that are not being cut, nor waiting after an error: without one there is nothing to ask for."""
        self._moved: dict[Key, None] = {}
        """Those that the next fetch names."""
        self._forgotten: dict[Key, None] = {}
        """Those that the session may have and is to lose. A leader does not mind one that it does not have."""
        self._syncing: dict[Key, Follower] = {}
        """Whose records are not synced yet."""
        self._in_flight = 0
        self._made = 0
        self._session_id = 0
        self._session_epoch = 0
        self._unnamed: bool = False
        """Whether there is a partition that no fetch of this session has named."""
        self._has_sessions = True
        """Until the leader has given none: asking for one without waiting, each time, would be no end of fetches."""

    # Inputs: who is followed

    def follow(self, key: Key, follower: Follower) -> None:
        """In a new term, too. The session loses it first: while a cut of the last term is under way, what it said then
        must not be answered again and again."""
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
        """To be called after every other input of a follower: it may have moved, left the session or come back."""
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
        """Its records are to be synced before a fetch names it. None where that is under way."""
        if key in self._syncing:
            return None
        self._syncing[key] = self.followers[key]
        return self.followers[key]

    def synced(self, key: Key, follower: Follower) -> None:
        """Or they never will be; what was begun for another term says nothing."""
        if self._syncing.get(key) is follower:
            del self._syncing[key]

    def restate(self, key: Key) -> None:
        """Its log start is written down: only now the leader hears of it, and then calls records deleted. One that does
        not fetch is named when it does again."""
        if self.followers[key].fetches:
            self._moved[key] = None
            self._unnamed = True

    # Inputs: the connection

    def begin_session(self) -> None:
        self._session_id = self._session_epoch = 0
        self._forgotten.clear()
        self._moved = dict(self._fetching)

    def lost(self) -> None:
        """With the connection, all that was asked on it."""
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
        """The leader answers the one that waits at once. One such at a time, and not before there is a session."""
        return self._unnamed and self._in_flight == 1 and self._session_id != 0

    @property
    def moved(self) -> list[Key]:
        return list(self._moved)

    @property
    def is_syncing(self) -> bool:
        return bool(self._syncing)

    def fetch(self) -> Fetch[Key]:
        """The next one: it is on its way now."""
        assert self.is_due and not self._syncing, "a fetch would acknowledge what a power cut may still take"
        self._made += 1
        named, forgotten = list(self._moved), list(self._forgotten)
        for key in named:
            self.followers[key].asked(self._made)
        epoch = next_epoch(self._session_epoch, self._in_flight)
        # One that begins a session cannot be overtaken, so it does not wait.
        waits = self._session_id != 0 or not self._has_sessions
        self._moved.clear()
        self._forgotten.clear()
        self._unnamed = False
        self._in_flight += 1
        return Fetch(self._made, self._session_id, epoch, waits, named, forgotten)

    def answered(self, session_id: int) -> None:
        """Its rows are taken in next, and then `taken` is fed."""
        self._in_flight -= 1
        self._session_id = session_id
        self._session_epoch = next_epoch(self._session_epoch)
        self._has_sessions = session_id != 0

    def taken(self) -> None:
        """A leader without room for a session is told everything each time."""
        if self._session_id == 0:
            self.begin_session()

    def refused(self, code: Code) -> bool:
        """The whole fetch. True where the next one need not wait: only the session was lost."""
        self._in_flight -= 1
        self.begin_session()
        return code in SESSION_LOST
