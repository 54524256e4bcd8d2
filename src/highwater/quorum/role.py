"""What all roles have in common, and the vote that two of them give by the same rule."""

from __future__ import annotations

from typing import Protocol

from highwater.model import Epoch, NodeId
from highwater.quorum.transitions import Role
from highwater.quorum.voters import Listeners, ReplicaKey


class RoleState(Protocol):
    """A role in an epoch. It holds what dies with it; what must be remembered is `epoch`, `leader_id` and `voted`."""

    @property
    def role(self) -> Role: ...

    @property
    def epoch(self) -> Epoch: ...

    @property
    def leader_id(self) -> NodeId | None: ...

    @property
    def leader_listeners(self) -> Listeners: ...

    @property
    def voted(self) -> ReplicaKey | None: ...

    def deadline(self) -> float:
        """When this role has to act of its own accord."""
        ...

    def can_grant(self, candidate: ReplicaKey, *, log_is_current: bool, pre_vote: bool) -> bool:
        """Whether a vote asked in this role's own epoch may be given; `log_is_current`: the asker's log is."""
        ...


def grants_without_leader(
    leader_id: NodeId | None,
    voted: ReplicaKey | None,
    candidate: ReplicaKey,
    *,
    log_is_current: bool,
    pre_vote: bool,
) -> bool:
    """The rule of Unattached and Prospective: one real vote in an epoch, and none against a leader it has."""
    if pre_vote:
        return log_is_current
    if voted is not None:
        return voted.names(candidate)
    return leader_id is None and log_is_current
