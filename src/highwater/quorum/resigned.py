"""Resigned: a leader that leads its epoch no more, by its will, by check-quorum or by a restart (KAFKA-10527)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from highwater.model import Epoch, NodeId
from highwater.quorum.transitions import Role
from highwater.quorum.voters import Listeners, ReplicaKey


@dataclass(slots=True)
class Resigned:
    """Its persisted state still says that it leads: so it can neither vote in this epoch nor lead it again."""

    role: ClassVar[Role] = Role.RESIGNED
    epoch: Epoch
    leader_id: NodeId
    leader_listeners: Listeners
    election_deadline: float
    unacknowledged: set[NodeId]
    """Voters that have not confirmed the EndQuorumEpoch; only ever asked for membership."""
    preferred_successors: tuple[ReplicaKey, ...] = field(default=())

    @property
    def voted(self) -> ReplicaKey | None:
        return None

    def deadline(self) -> float:
        return self.election_deadline

    def can_grant(self, candidate: ReplicaKey, *, log_is_current: bool, pre_vote: bool) -> bool:
        return pre_vote and log_is_current
