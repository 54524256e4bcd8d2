"""Leader: the progress of each replica, the commit rule and check-quorum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from highwater.model import Epoch, NodeId, Offset
from highwater.quorum.settings import Timing
from highwater.quorum.transitions import Role
from highwater.quorum.voters import Listeners, ReplicaKey, VoterNode, VoterSet

OBSERVER_SESSION_TIMEOUT = 300.0
"""Seconds after which an observer that stopped fetching is forgotten."""
OBSERVERS_MAX = 1000
"""The most observers. Beyond it the oldest one is forgotten: a client that invents replica ids must not fill our
memory."""


@dataclass(slots=True)
class ReplicaProgress:
    """The progress of a voter or an observer, as its fetches show it."""

    key: ReplicaKey
    end_offset: Offset | None = None
    """The durable end of its log; None until it has fetched in this epoch."""
    last_fetch: float | None = None
    last_caught_up: float | None = None
    leader_end_at_fetch: Offset = -1

    def fetched(self, offset: Offset, leader_end: Offset, now: float) -> None:
        if offset >= leader_end:
            self.last_caught_up = now
        elif 0 < self.leader_end_at_fetch <= offset:
            self.last_caught_up = self.last_fetch
        self.leader_end_at_fetch = leader_end
        self.last_fetch = now
        self.end_offset = offset


class Leader:
    role: ClassVar[Role] = Role.LEADER

    def __init__(
        self, local: VoterNode, epoch: Epoch, epoch_start: Offset, voters: VoterSet, timing: Timing, now: float
    ) -> None:
        self.local = local
        self.epoch = epoch
        self.epoch_start = epoch_start
        self.high_watermark: Offset | None = None
        """Unknown until an entry of this epoch is committed, though the node may know one of an earlier epoch."""
        self.voters: dict[NodeId, ReplicaProgress] = {key.id: ReplicaProgress(key) for key in voters.keys}
        self.observers: dict[ReplicaKey, ReplicaProgress] = {}
        self.begin_epoch_at = now
        """When the next BeginQuorumEpoch goes to voters that do not fetch."""
        self._timing = timing
        self._check_quorum_at = now + timing.check_quorum_timeout
        self._heard: set[NodeId] = set()
        self._local_end: Offset = -1
        self._written_end: Offset = -1
        self._syncing_since = now
        """Since when the disk has synced nothing, if it has something to sync."""

    @property
    def leader_id(self) -> NodeId:
        return self.local.key.id

    @property
    def leader_listeners(self) -> Listeners:
        return self.local.listeners

    @property
    def voted(self) -> ReplicaKey | None:
        return None

    def deadline(self) -> float:
        resigns_at = self.resigns_at
        return self.begin_epoch_at if resigns_at is None else min(self.begin_epoch_at, resigns_at)

    def can_grant(self, candidate: ReplicaKey, *, log_is_current: bool, pre_vote: bool) -> bool:
        return False

    @property
    def is_voter(self) -> bool:
        """False for a leader that has removed itself from the voters and leads until that is committed (KIP-853)."""
        return self.local.key.id in self.voters and self.voters[self.local.key.id].key.names(self.local.key)

    def _progress(self, key: ReplicaKey) -> ReplicaProgress:
        voter = self.voters.get(key.id)
        if voter is not None and voter.key.names(key):
            return voter
        if key not in self.observers and len(self.observers) >= OBSERVERS_MAX:
            del self.observers[next(iter(self.observers))]
        return self.observers.setdefault(key, ReplicaProgress(key))

    # The commit rule

    def wrote(self, written_end: Offset, now: float) -> None:
        """The leader appended up to here. That is not durable yet."""
        if self._written_end <= self._local_end:
            self._syncing_since = now
        self._written_end = written_end

    def flushed(self, durable_end: Offset, now: float) -> bool:
        """The leader's own log is durable up to here. It counts itself like any other voter. True if that commits
        records."""
        if durable_end < self._local_end:
            raise AssertionError(f"a leader's log only grows: {self._local_end} -> {durable_end}")
        if durable_end > self._local_end:
            self._syncing_since = now
        self._local_end = durable_end
        if self.is_voter:
            self.voters[self.local.key.id].end_offset = durable_end
        return self._commit()

    def fetched(self, key: ReplicaKey, offset: Offset, now: float) -> bool:
        """A replica fetched from `offset`, so it has everything below on disk. True if that commits records."""
        self._progress(key).fetched(offset, self._local_end, now)
        self.heard_from(key, now)
        return self._commit()

    def _commit(self) -> bool:
        """Records that a majority has are committed, if an entry of this epoch is among them (Raft, 5.4.2)."""
        ends = sorted(
            (-1 if voter.end_offset is None else voter.end_offset for voter in self.voters.values()), reverse=True
        )
        replicated = ends[len(ends) // 2]
        if replicated <= (self.epoch_start if self.high_watermark is None else self.high_watermark):
            return False  # after a change of voters it may be smaller, but the high watermark never moves back
        self.high_watermark = replicated
        return True

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters. The one with the longest log comes first, those that never fetched come last."""
        others = [voter for voter in self.voters.values() if not voter.key.names(self.local.key)]
        others.sort(key=lambda voter: (voter.end_offset is None, -(voter.end_offset or 0), voter.key))
        return tuple(voter.key for voter in others)

    # Check-quorum (KAFKA-15489), the leader's own disk, and the announcement of the epoch

    @property
    def resigns_at(self) -> float | None:
        """When the leader must resign, unless before that a majority fetches and its disk syncs. Replicas get only what
        it has synced: with a disk that hangs it would lead on, and nothing would be committed. None for the only voter,
        because no other one can lead."""
        if len(self.voters) == 1 and self.is_voter:
            return None
        if self._written_end <= self._local_end:
            return self._check_quorum_at
        return min(self._check_quorum_at, self._syncing_since + self._timing.sync_timeout)

    def why_resigning(self, now: float) -> str:
        """What has been missing for too long at `resigns_at`."""
        if now >= self._check_quorum_at:
            return f"no majority of the voters has fetched for {self._timing.check_quorum_timeout:g} s"
        return f"its disk has synced nothing of the metadata log for {now - self._syncing_since:.1f} s"

    def heard_from(self, key: ReplicaKey, now: float) -> None:
        """A replica fetched records or a snapshot. If it is a voter, it counts for check-quorum."""
        voter = self.voters.get(key.id)
        if voter is None or not voter.key.names(key):
            return
        self._heard.add(key.id)
        if len(self._heard) + self.is_voter >= len(self.voters) // 2 + 1:
            self._heard.clear()
            self._check_quorum_at = now + self._timing.check_quorum_timeout

    def silent_voters(self, now: float) -> tuple[ReplicaKey, ...]:
        """Voters that have never fetched, or not for an interval: they may not know this leader."""
        return tuple(
            voter.key
            for voter in self.voters.values()
            if voter.key.id != self.local.key.id
            and (voter.last_fetch is None or now - voter.last_fetch >= self._timing.begin_epoch_interval)
        )

    # Membership

    def set_voters(self, voters: VoterSet) -> None:
        """Adopts a new voter set. The progress of replicas that become voters or observers is kept."""
        before = self.voters
        self.voters = {key.id: ReplicaProgress(key) for key in voters.keys}
        for old in before.values():
            self.observers.setdefault(old.key, old)
        for key in voters.keys:
            known = next((known for known in self.observers if key.names(known) or known.names(key)), None)
            if known is not None:
                self.voters[key.id] = self.observers.pop(known)
                self.voters[key.id].key = key
        self._heard.intersection_update(self.voters)

    def forget_idle_observers(self, now: float) -> None:
        for key, observer in list(self.observers.items()):
            idle = observer.last_fetch is None or now - observer.last_fetch >= OBSERVER_SESSION_TIMEOUT
            if idle and key != self.local.key:
                del self.observers[key]
