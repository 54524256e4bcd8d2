"""Counts the votes of one election."""

from __future__ import annotations

from highwater.model import NodeId
from highwater.quorum.voters import ReplicaKey, VoterSet


class Tally:
    """The votes of one voter set. Each voter counts once, and a response of any other node does not count."""

    __slots__ = ("_votes", "voters")

    def __init__(self, voters: VoterSet, local_id: NodeId) -> None:
        self.voters = voters
        self._votes: dict[NodeId, bool] = {local_id: True}

    def record(self, voter: NodeId, granted: bool) -> None:
        """The last response counts: a pre-vote that was refused may be granted later."""
        self._votes[voter] = granted

    @property
    def granting(self) -> tuple[ReplicaKey, ...]:
        return tuple(key for key in self.voters.keys if self._votes.get(key.id) is True)

    @property
    def unrecorded(self) -> tuple[ReplicaKey, ...]:
        return tuple(key for key in self.voters.keys if key.id not in self._votes)

    @property
    def is_granted(self) -> bool:
        return len(self.granting) >= self.voters.majority

    @property
    def is_rejected(self) -> bool:
        """Whether a majority can no longer be reached, even with all votes that are still missing."""
        return len(self.granting) + len(self.unrecorded) < self.voters.majority
