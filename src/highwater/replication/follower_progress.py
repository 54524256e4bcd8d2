"""What a leader knows of one follower, by the fetches of that follower. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from highwater.model import Offset


@dataclass(slots=True)
class Contact:
    """The last fetch of a follower's broker in one fetch session, over all its partitions. A follower that is caught up
    does not name the partition in its fetches; as long as its session goes on, it is still caught up."""

    at: float
    """The time of the last fetch."""


@dataclass(slots=True)
class FollowerProgress:
    """What a follower's fetches in this term have shown, for its present incarnation."""

    end: Offset | None = None
    log_start: Offset | None = None
    has_deleted: bool = False
    """At its last fetch the follower's log began no earlier than the leader's. A later DeleteRecords waits for it."""
    broker_epoch: int | None = None
    caught_up_at: float | None = None
    """When the follower last had everything that the leader had. While it has everything, `contact` holds the time."""
    fetched_at: float | None = None
    leader_end_at_fetch: Offset | None = None
    contact: Contact | None = None
    has_left: bool = False
    """It was removed from the ISR and has not fetched since. Its earlier fetches do not bring it back."""

    def caught_up(self, at: float | None) -> None:
        if at is not None and (self.caught_up_at is None or at > self.caught_up_at):
            self.caught_up_at = at
