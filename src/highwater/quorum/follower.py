"""Follower: pulls the leader's log, and suspects the leader when fetches stop to succeed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from highwater.model import Epoch, NodeId, Offset
from highwater.quorum.log_view import LogPosition
from highwater.quorum.transitions import Role
from highwater.quorum.voters import Listeners, ReplicaKey


@dataclass(slots=True)
class Follower:
    role: ClassVar[Role] = Role.FOLLOWER
    epoch: Epoch
    leader_id: NodeId
    leader_listeners: Listeners
    fetch_deadline: float
    """For voters only: an observer follows for ever."""
    voted: ReplicaKey | None = None
    has_fetched: bool = False
    """Whether the leader has answered since it became ours: then it lives, and no pre-vote is granted (KIP-996)."""
    leader_high_watermark: Offset | None = None
    """Told with records that are not durable yet; takes effect with them."""
    fetching_snapshot: LogPosition | None = None

    def deadline(self) -> float:
        return self.fetch_deadline

    def leader_answered(self, fetch_deadline: float) -> None:
        self.has_fetched = True
        self.fetch_deadline = fetch_deadline

    def leader_ended(self, election_at: float) -> None:
        """The leader resigned: grant pre-votes, and ask for one at the time that its list of successors gives."""
        self.has_fetched = False
        self.fetch_deadline = election_at

    def leader_died(self, election_at: float) -> None:
        """There is proof that the leader is gone: grant pre-votes, and ask for one soon."""
        self.has_fetched = False
        self.fetch_deadline = min(self.fetch_deadline, election_at)

    def can_grant(self, candidate: ReplicaKey, *, log_is_current: bool, pre_vote: bool) -> bool:
        return pre_vote and log_is_current and not self.has_fetched
