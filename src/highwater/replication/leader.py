"""A leader's view of its partition: how far its followers are, who is in sync, what is committed. Pure.

No acknowledgement message exists: the offset of a follower's next fetch is its acknowledgement. The ISR is changed only
by the controller; a change that is asked for and not yet answered counts for the high watermark at once if it adds a
replica, and not before it is committed if it takes one away (KIP-497: the maximal ISR).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from highwater.model import Epoch, NodeId, Offset

UNKNOWN = -1


@dataclass(slots=True)
class Progress:
    """One follower, as far as it has told in this leader epoch."""

    end: Offset = UNKNOWN
    log_start: Offset = UNKNOWN
    broker_epoch: int = UNKNOWN
    caught_up_at: float = 0.0
    """When it last had everything the leader had; while it has, `last_fetch` says so instead."""
    fetched_at: float = 0.0
    leader_end_at_fetch: Offset = UNKNOWN
    last_fetch: Callable[[], float] | None = None
    """When its session last fetched anything: a follower that has all sends no news of a partition."""
    has_left: bool = False
    """It was taken out of the ISR and has not fetched since. What it said before does not bring it back."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change of the ISR that the controller has been asked for."""

    isr: tuple[NodeId, ...]
    epochs: tuple[int, ...]
    """The broker epochs of the members, as they were when it was made: a later incarnation may lack what this one had.
    Of the leader itself, and of a member that has not fetched in this term, UNKNOWN."""
    partition_epoch: int
    expands: bool
    why: str = ""


class LeaderState:
    """One term of one leader. Made anew for every leader epoch."""

    def __init__(
        self,
        local: NodeId,
        epoch: Epoch,
        epoch_start: Offset,
        replicas: Sequence[NodeId],
        isr: Sequence[NodeId],
        now: float = 0.0,
    ) -> None:
        self.local = local
        self.epoch = epoch
        self.epoch_start = epoch_start
        self.replicas = tuple(replicas)
        self.isr = tuple(isr)
        self.since = now
        self.proposal: Proposal | None = None
        self.followers: dict[NodeId, Progress] = {
            replica: Progress(caught_up_at=now if replica in self.isr else 0.0)
            for replica in self.replicas
            if replica != local
        }

    def assigned(self, replicas: Sequence[NodeId], isr: Sequence[NodeId]) -> None:
        """The controller's word within this epoch: whatever was asked for is answered by it."""
        before = self.isr
        self.replicas = tuple(replicas)
        self.isr = tuple(isr)
        self.proposal = None
        self.followers = {
            replica: self.followers.get(replica, Progress()) for replica in self.replicas if replica != self.local
        }
        for replica in before:
            if replica not in self.isr and replica in self.followers:
                self.followers[replica].has_left = True

    @property
    def maximal_isr(self) -> tuple[NodeId, ...]:
        if self.proposal is not None and self.proposal.expands:
            return self.proposal.isr
        return self.isr

    def enough_in_sync(self, min_insync_replicas: int) -> bool:
        """A topic with fewer replicas than min.insync.replicas asks only for what it has."""
        return len(self.isr) >= min(min_insync_replicas, len(self.replicas))

    # What followers tell

    def fetched(
        self,
        replica: NodeId,
        end: Offset,
        log_start: Offset,
        broker_epoch: int,
        leader_end: Offset,
        now: float,
        last_fetch: Callable[[], float],
    ) -> bool:
        """A fetch of this epoch at `end`. False where it comes from an older incarnation than one we heard."""
        progress = self.followers[replica]
        if broker_epoch < progress.broker_epoch:
            return False
        if broker_epoch > progress.broker_epoch != UNKNOWN:
            # What the last incarnation had, this one may have lost.
            progress = self.followers[replica] = Progress()
        if end >= leader_end:
            progress.caught_up_at = max(progress.caught_up_at, now)
        elif end >= progress.leader_end_at_fetch:
            progress.caught_up_at = max(progress.caught_up_at, progress.fetched_at)
        progress.end = end
        progress.log_start = log_start
        progress.broker_epoch = broker_epoch
        progress.fetched_at = now
        progress.leader_end_at_fetch = leader_end
        progress.last_fetch = last_fetch
        progress.has_left = False
        return True

    def appended(self, before: Offset) -> None:
        """The log grew from `before` on: who had everything until now was caught up when it last fetched."""
        for progress in self.followers.values():
            if progress.end == before and progress.last_fetch is not None:
                progress.caught_up_at = max(progress.caught_up_at, progress.last_fetch())

    def caught_up_at(self, replica: NodeId, leader_end: Offset) -> float:
        progress = self.followers[replica]
        if progress.end >= leader_end and progress.last_fetch is not None:
            return max(progress.caught_up_at, progress.last_fetch())
        return progress.caught_up_at

    # What is committed

    def high_watermark(
        self,
        local_end: Offset,
        current: Offset,
        min_insync_replicas: int,
        joining: Callable[[NodeId], bool] = lambda replica: False,
    ) -> Offset:
        """What every replica of the maximal ISR has, and those about to join it. Never goes back; frozen below
        min.insync.replicas (KAFKA-15583)."""
        if not self.enough_in_sync(min_insync_replicas):
            return current
        lowest = local_end
        counted = self.maximal_isr
        for replica, progress in self.followers.items():
            if progress.end < lowest and (replica in counted or joining(replica)):
                lowest = progress.end
        return max(lowest, current)

    # Who is in sync

    def out_of_sync(self, leader_end: Offset, now: float, lag_seconds: float) -> tuple[NodeId, ...]:
        """Members of the ISR that were not caught up for too long."""
        return tuple(
            replica
            for replica in self.isr
            if replica != self.local
            and replica in self.followers
            and self.followers[replica].end != leader_end
            and now - self.caught_up_at(replica, leader_end) > lag_seconds
        )

    def may_join(self, replica: NodeId, high_watermark: Offset) -> bool:
        """It has what is committed, and what was there when this epoch began, and told so in this epoch, by a fetch
        that came after it had left the ISR."""
        progress = self.followers.get(replica)
        return (
            progress is not None
            and not progress.has_left
            and replica not in self.maximal_isr
            and self.proposal is None
            and progress.end >= high_watermark
            and progress.end >= self.epoch_start
        )

    def propose(self, isr: Sequence[NodeId], partition_epoch: int, why: str = "") -> Proposal:
        """One change at a time is asked for."""
        assert self.proposal is None, "a change of the ISR is under way"
        epochs = tuple(self.followers[each].broker_epoch if each in self.followers else UNKNOWN for each in isr)
        self.proposal = Proposal(tuple(isr), epochs, partition_epoch, len(isr) > len(self.isr), why)
        return self.proposal

    def withdraw(self, proposal: Proposal) -> bool:
        """The controller refused it: back to the committed ISR. False if another has taken its place."""
        if self.proposal is not proposal:
            return False
        self.proposal = None
        return True
