"""Unattached: knows no leader of its epoch that it could reach. It looks for one, and may have voted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from highwater.model import Epoch, NodeId
from highwater.quorum.role import grants_without_leader
from highwater.quorum.transitions import Role
from highwater.quorum.voters import Listeners, ReplicaKey


@dataclass(slots=True)
class Unattached:
    role: ClassVar[Role] = Role.UNATTACHED
    epoch: Epoch
    election_deadline: float
    """For voters only: an observer never stands for election."""
    leader_id: NodeId | None = None
    """Set if the leader is known but its listeners are not."""
    voted: ReplicaKey | None = None

    @property
    def leader_listeners(self) -> Listeners:
        return ()

    def deadline(self) -> float:
        return self.election_deadline

    def can_grant(self, candidate: ReplicaKey, *, log_is_current: bool, pre_vote: bool) -> bool:
        return grants_without_leader(
            self.leader_id, self.voted, candidate, log_is_current=log_is_current, pre_vote=pre_vote
        )
