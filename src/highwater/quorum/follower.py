"""Follower: fetches the leader's log, and starts an election when its fetches no longer succeed."""

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
    """For voters only: an observer never starts an election."""
    voted: ReplicaKey | None = None
    has_fetched: bool = False
    """Whether this leader has answered a fetch. Then it is alive, and no pre-vote is granted (KIP-996)."""
    leader_high_watermark: Offset | None = None
    """The high watermark of a response whose records are not durable yet. It is applied when they are."""
    fetching_snapshot: LogPosition | None = None

    def deadline(self) -> float:
        return self.fetch_deadline

    def leader_answered(self, fetch_deadline: float) -> None:
        self.has_fetched = True
        self.fetch_deadline = fetch_deadline

    def leader_ended(self, election_at: float) -> None:
        """The leader has resigned. Grant pre-votes, and ask for one at the time that its list of successors gives."""
        self.has_fetched = False
        self.fetch_deadline = election_at

    def leader_died(self, election_at: float) -> None:
        """The leader is proven to be dead. Grant pre-votes, and ask for one soon."""
        self.has_fetched = False
        self.fetch_deadline = min(self.fetch_deadline, election_at)

    def can_grant(self, candidate: ReplicaKey, *, log_is_current: bool, pre_vote: bool) -> bool:
        return pre_vote and log_is_current and not self.has_fetched
