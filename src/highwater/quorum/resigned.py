"""Resigned: a former leader of this epoch. It shut down, lost its majority (check-quorum) or restarted
(KAFKA-10527)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from highwater.model import Epoch, NodeId
from highwater.quorum.transitions import Role
from highwater.quorum.voters import Listeners, ReplicaKey


@dataclass(slots=True)
class Resigned:
    """The stored state still says that this node leads. So it does not vote in this epoch, and never leads it again."""

    role: ClassVar[Role] = Role.RESIGNED
    epoch: Epoch
    leader_id: NodeId
    leader_listeners: Listeners
    election_deadline: float
    unacknowledged: set[NodeId]
    """Voters that have not confirmed the EndQuorumEpoch. The set is only asked for membership, so its order is
    unused."""
    preferred_successors: tuple[ReplicaKey, ...] = field(default=())

    @property
    def voted(self) -> ReplicaKey | None:
        return None

    def deadline(self) -> float:
        return self.election_deadline

    def can_grant(self, candidate: ReplicaKey, *, log_is_current: bool, pre_vote: bool) -> bool:
        return pre_vote and log_is_current
