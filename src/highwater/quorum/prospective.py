"""Prospective: asks for pre-votes, to learn whether it could win an election, before it starts one (KIP-996)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from highwater.model import Epoch, NodeId
from highwater.quorum.role import grants_without_leader
from highwater.quorum.transitions import Role
from highwater.quorum.voters import Listeners, ReplicaKey
from highwater.quorum.votes import Tally


@dataclass(slots=True)
class Prospective:
    """Keeps the epoch, the leader and the vote of the role before it: a pre-vote changes nothing on disk."""

    role: ClassVar[Role] = Role.PROSPECTIVE
    epoch: Epoch
    election_deadline: float
    tally: Tally
    leader_id: NodeId | None = None
    leader_listeners: Listeners = ()
    voted: ReplicaKey | None = None
    yields_until: float | None = None
    """Set once, when it grants a pre-vote to a peer that ranks higher. So of two replicas that ask at the same time,
    one goes first. Otherwise both would become candidates and vote for themselves. If a third voter is dead, both would
    then wait for a timeout."""

    def may_stand(self, now: float) -> bool:
        return self.tally.is_granted and (self.yields_until is None or now >= self.yields_until)

    def deadline(self) -> float:
        if self.yields_until is not None and self.tally.is_granted:
            return min(self.yields_until, self.election_deadline)
        return self.election_deadline

    def can_grant(self, candidate: ReplicaKey, *, log_is_current: bool, pre_vote: bool) -> bool:
        return grants_without_leader(
            self.leader_id, self.voted, candidate, log_is_current=log_is_current, pre_vote=pre_vote
        )
