"""Candidate: asks for votes in a new epoch, in which it has voted for itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from highwater.model import Epoch, NodeId
from highwater.quorum.transitions import Role
from highwater.quorum.voters import Listeners, ReplicaKey
from highwater.quorum.votes import Tally


@dataclass(slots=True)
class Candidate:
    """A candidate that has lost waits for its election timeout and then asks for pre-votes again. So epochs do not grow
    without need."""

    role: ClassVar[Role] = Role.CANDIDATE
    epoch: Epoch
    election_deadline: float
    tally: Tally
    voted: ReplicaKey
    """Itself."""

    @property
    def leader_id(self) -> NodeId | None:
        return None

    @property
    def leader_listeners(self) -> Listeners:
        return ()

    def deadline(self) -> float:
        return self.election_deadline

    def can_grant(self, candidate: ReplicaKey, *, log_is_current: bool, pre_vote: bool) -> bool:
        return pre_vote and log_is_current
