"""The messages between one follower and one leader in a search: fetches, responses and the fetch session."""

from __future__ import annotations

from typing import NamedTuple

from highwater.errors import Code
from highwater.model import Epoch, Offset
from highwater.replication.follower import Row
from highwater.replication.follower_progress import Contact

NOW, LONG_AGO = 0.0, -1000.0
"""Time has two values: now, and long ago."""
LAG_SECONDS = 10.0


Place = tuple[Epoch, Offset, Epoch, Offset]
"""The content of a fetch: leader epoch, offset, epoch of the last record, log start."""


class Request(NamedTuple):
    """A fetch on its way. If the session knows the position already, the fetch does not name it."""

    number: int
    broker_epoch: int
    begins_session: bool
    place: Place | None
    forgets: bool = False


class Reply(NamedTuple):
    number: int
    row: Row | None
    place: Place | None = None
    """The position to which the row is the response."""
    code: Code = Code.NONE


class Reading(NamedTuple):
    """A response whose bytes are read later than its header was made."""

    number: int
    row: Row
    place: Place
    end: Offset
    """The end of the leader's log when the header was made."""


class Channel:
    """The connection of one follower with one leader. Messages stay in order."""

    __slots__ = ("contact", "forgotten", "held", "place", "reading", "replies", "requests", "restated", "sent", "stale")

    def __init__(self) -> None:
        self.requests: tuple[Request, ...] = ()
        self.replies: tuple[Reply, ...] = ()
        self.held: Request | None = None
        """It has arrived and was counted, and there was nothing to answer yet."""
        self.stale: Request | None = None
        """A request of a lost connection: the leader may still read it, but its response arrives nowhere."""
        self.reading: Reading | None = None
        self.place: Place | None = None
        """The leader's session: the last position that it got."""
        self.forgotten = False
        """The leader no longer had room for the session."""
        self.sent: tuple[Offset, Offset] | None = None
        self.restated = False
        self.contact = Contact(NOW)

    @property
    def is_empty(self) -> bool:
        return not (self.requests or self.replies or self.held or self.stale or self.place or self.reading)

    def frozen(self) -> tuple[object, ...]:
        return (
            self.requests,
            self.replies,
            self.held,
            self.stale,
            self.reading,
            self.place,
            self.forgotten,
            self.sent,
            self.restated,
            self.contact.at,
        )
