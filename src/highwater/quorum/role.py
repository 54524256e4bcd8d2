"""What all roles have in common, and the rule of voting that two of them share."""

from __future__ import annotations

from typing import Protocol

from highwater.model import Epoch, NodeId
from highwater.quorum.transitions import Role
from highwater.quorum.voters import Listeners, ReplicaKey


class RoleState(Protocol):
    """A role in an epoch. Only `epoch`, `leader_id` and `voted` are stored; the rest ends with the role."""

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
        """When this role has to act without an input."""
        ...

    def can_grant(self, candidate: ReplicaKey, *, log_is_current: bool, pre_vote: bool) -> bool:
        """Whether this role grants a vote in its own epoch. `log_is_current`: the candidate's log is not behind
        ours."""
        ...


def grants_without_leader(
    leader_id: NodeId | None,
    voted: ReplicaKey | None,
    candidate: ReplicaKey,
    *,
    log_is_current: bool,
    pre_vote: bool,
) -> bool:
    """The rule of Unattached and Prospective: at most one binding vote in an epoch, and none if the epoch has a
    leader."""
    if pre_vote:
        return log_is_current
    if voted is not None:
        return voted.names(candidate)
    return leader_id is None and log_is_current
