"""Counting the votes of one election."""

from __future__ import annotations

from highwater.model import NodeId
from highwater.quorum.voters import ReplicaKey, VoterSet


class Tally:
    """Votes of one voter set: each voter counts once, and an answer from anybody else not at all."""

    __slots__ = ("_votes", "voters")

    def __init__(self, voters: VoterSet, local_id: NodeId) -> None:
        self.voters = voters
        self._votes: dict[NodeId, bool] = {local_id: True}

    def record(self, voter: NodeId, granted: bool) -> None:
        """The latest answer counts: a pre-vote that was refused may be granted when it is asked again."""
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
        """Whether those who have not answered could not make up a majority any more."""
        return len(self.granting) + len(self.unrecorded) < self.voters.majority
