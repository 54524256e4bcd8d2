"""One leader in one leader epoch: the progress of its followers, the ISR and the high watermark. Pure.

There is no acknowledgement message: the offset of a follower's next fetch is its acknowledgement. Only the controller
changes the ISR. A replica that the leader proposes to add counts for the high watermark at once; a replica that it
proposes to remove counts until the removal is committed (KIP-497: the maximal ISR).

Each input returns flags. The driver carries them out in this order:

1. `SHRANK`: invalidate the positions that the followers' fetch sessions hold, until their next fetch confirms them.
2. `COMMITTED`: move the log's high watermark to `high_watermark`, and notify the callers in `released`.
3. `PROPOSAL`: send `proposal` to the controller. Its answer comes back through `answered`.

`STALE` means that the input came from an older incarnation of a follower and was ignored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from highwater.model import Epoch, NodeId, Offset
from highwater.replication.alter_partition import Answer, Meaning, Proposal, meaning_of
from highwater.replication.follower_progress import Contact, FollowerProgress

SHRANK, COMMITTED, PROPOSAL, STALE = 1, 2, 4, 8

BrokerEpochs = Mapping[NodeId, int | None]
"""For each replica the epoch of its registered broker; None if the broker may not be in an ISR, because it is fenced,
shuts down or is not registered, or because its replica is lost."""


class Terms(NamedTuple):
    """The settings that a leader obeys."""

    min_insync_replicas: int
    flushes: bool
    """Whether a record must be synced on the leader before it is committed."""
    lag_seconds: float
    """How long a member of the ISR may lag behind (replica.lag.time.max.ms)."""


class Leader:
    """There is a new one for every leader epoch, because fetches of an earlier epoch do not count."""

    __slots__ = (
        "_counted",
        "_others",
        "brokers",
        "durable_end",
        "elr",
        "end",
        "enough_in_sync",
        "epoch",
        "epoch_start",
        "followers",
        "high_watermark",
        "is_frozen",
        "isr",
        "local",
        "partition_epoch",
        "proposal",
        "reason",
        "released",
        "replicas",
        "since",
        "terms",
        "waiting",
    )

    def __init__(
        self,
        local: NodeId,
        epoch: Epoch,
        end: Offset,
        durable_end: Offset,
        high_watermark: Offset,
        replicas: Sequence[NodeId],
        isr: Sequence[NodeId],
        partition_epoch: Epoch,
        brokers: BrokerEpochs,
        terms: Terms,
        now: float,
        elr: Sequence[NodeId] = (),
    ) -> None:
        self.local = local
        self.epoch = epoch
        self.epoch_start = self.end = end
        self.durable_end = durable_end
        self.high_watermark = high_watermark
        self.replicas = tuple(replicas)
        self.isr = tuple(isr)
        self.elr = tuple(elr)
        self.partition_epoch = partition_epoch
        self.brokers = dict(brokers)
        self.terms = terms
        self.since = now
        self.is_frozen = False
        self.proposal: Proposal | None = None
        self.reason = ""
        """Why the ISR last changed, where this leader had asked for the change."""
        self.followers: dict[NodeId, FollowerProgress] = {
            replica: FollowerProgress(caught_up_at=now if replica in self.isr else None)
            for replica in self.replicas
            if replica != local
        }
        self.waiting: deque[tuple[Offset, Any]] = deque()
        """Offsets that the high watermark has not reached yet, ascending, each with the token of its waiting caller."""
        self.released: list[Any] = []
        """Tokens of callers whose offset is committed now; the driver removes and notifies them."""
        self.enough_in_sync = False
        """Whether the ISR reaches min.insync.replicas, or the number of replicas where that is smaller. Each append
        asks."""
        self._counted: list[FollowerProgress] = []
        self._others: list[tuple[NodeId, FollowerProgress]] = []
        self._recount()

    # Inputs: its own log

    def begin(self, now: float) -> int:
        """The first input of a term: records that are in the log already may be committed."""
        return self._advance(now)

    def appended(self, end: Offset, now: float) -> int:
        """Records were appended. A follower that had everything before was caught up at its session's last fetch."""
        before, self.end = self.end, end
        for progress in self.followers.values():
            if progress.end == before and progress.contact is not None:
                progress.caught_up(progress.contact.at)
        return self._advance(now)

    def synced(self, durable_end: Offset, now: float) -> int:
        self.durable_end = durable_end
        return self._advance(now)

    def freeze(self) -> None:
        """The log has failed, or the metadata has ended this term: nothing more is committed in it."""
        self.is_frozen = True

    def settings_changed(self, terms: Terms, now: float) -> int:
        self.terms = terms
        self._recount()
        return self._advance(now)

    # Inputs: callers that wait for the high watermark

    def wait(self, end: Offset, token: Any) -> None:
        """Release `token` when the high watermark reaches `end`. Call this in the order of the appends."""
        self.waiting.append((end, token))

    def take_over(self, before: Leader) -> None:
        """This replica was the leader in the previous term, too: its records are still there, and callers keep
        waiting."""
        self.waiting, before.waiting = before.waiting, deque()

    def step_down(self) -> list[Any]:
        """The term is over. Returns the tokens of all callers that still wait."""
        waiting, self.waiting = self.waiting, deque()
        return [token for _, token in waiting]

    # Inputs: followers

    def fetched(
        self,
        replica: NodeId,
        broker_epoch: int,
        end: Offset,
        log_start: Offset,
        own_log_start: Offset,
        contact: Contact,
        now: float,
    ) -> int:
        """A follower fetched in this leader epoch: it has everything from `log_start` up to `end`."""
        progress = self.followers[replica]
        known = progress.broker_epoch
        if known is not None and broker_epoch != known:
            if broker_epoch < known:
                return STALE
            # The new incarnation may have lost what the last one had.
            progress = self.followers[replica] = FollowerProgress()
            self._recount()
        if progress.leader_end_at_fetch is not None and end >= progress.leader_end_at_fetch:
            progress.caught_up(progress.fetched_at)
        progress.end = end
        progress.log_start = log_start
        progress.has_deleted = log_start >= own_log_start
        progress.broker_epoch = broker_epoch
        progress.fetched_at = now
        progress.leader_end_at_fetch = self.end
        progress.contact = contact
        progress.has_left = False
        flags = 0
        if replica not in self.maximal_isr:
            flags = self._maybe_expand(replica)
        return flags | self._advance(now)

    # Inputs: the controller

    def brokers_changed(self, brokers: BrokerEpochs, now: float) -> int:
        """The set of brokers that may be in an ISR has changed. A follower that is caught up may join now."""
        self.brokers.update((replica, brokers[replica]) for replica in self.followers if replica in brokers)
        flags = 0
        for replica in self.followers:
            if replica in brokers:
                flags |= self._maybe_expand(replica)
        return flags | self._advance(now)

    def assigned(
        self,
        replicas: Sequence[NodeId],
        isr: Sequence[NodeId],
        partition_epoch: Epoch,
        brokers: BrokerEpochs,
        now: float,
        elr: Sequence[NodeId] = (),
    ) -> int:
        """New metadata of this leader epoch. Metadata with a known partition epoch is ignored: it must not cancel a
        change that was proposed later."""
        self.brokers, self.elr = dict(brokers), tuple(elr)
        flags = 0
        if partition_epoch > self.partition_epoch:
            flags = self._take(replicas, isr, partition_epoch) | self._expand_by_joining(now)
        return flags | self._advance(now)

    def answered(self, proposal: Proposal, answer: Answer, now: float) -> int:
        """The controller's answer to a proposal. An answer to an earlier proposal is ignored.

        A change counts only when it arrives in the metadata, together with the settings under which it was decided: the
        members of the ELR depend on min.insync.replicas. Under an older value of that setting the leader could commit
        records that the ELR does not have.
        """
        if self.proposal is not proposal:
            return 0
        meaning = meaning_of(answer.code)
        is_coming = meaning is Meaning.MADE and answer.partition_epoch > self.partition_epoch
        if is_coming or meaning not in (Meaning.MADE, Meaning.REFUSED):
            return 0
        self.proposal = None
        self._recount()
        return self._advance(now)

    def tick(self, now: float) -> int:
        """Called again and again. Proposes to remove a replica that was not caught up for too long. The high watermark
        may also move, because a replica that was about to join has fallen behind."""
        flags = self._maybe_shrink(now)
        flags |= self._advance(now)
        return flags | self._expand_by_joining(now)

    # What it knows

    @property
    def maximal_isr(self) -> tuple[NodeId, ...]:
        proposal = self.proposal
        return proposal.isr if proposal is not None and proposal.expands else self.isr

    def caught_up_at(self, replica: NodeId) -> float | None:
        """When the follower was last caught up; None if it never was in this term."""
        progress = self.followers[replica]
        if progress.end is None or progress.end < self.end or progress.contact is None:
            return progress.caught_up_at
        at = progress.caught_up_at
        return progress.contact.at if at is None else max(at, progress.contact.at)

    def behind_since(self, replica: NodeId) -> float:
        """When the follower last had everything; at the earliest, the beginning of this term."""
        at = self.caught_up_at(replica)
        return self.since if at is None else max(at, self.since)

    def is_eligible(self, replica: NodeId) -> bool:
        """Whether the fetching incarnation is the registered one and may be in an ISR (KIP-841, KIP-903)."""
        epoch = self.followers[replica].broker_epoch
        return epoch is not None and epoch == self.brokers.get(replica)

    def low_watermark(self, log_start: Offset) -> Offset:
        """The lowest log start of all replicas that are live or in the ELR, if our own log begins at `log_start`. A
        replica that has not fetched in this term may still have everything. Kafka looks at live replicas only; but a
        member of the ELR may be elected cleanly when it comes back, and its readers would see deleted records."""
        for replica, progress in self.followers.items():
            if self.brokers.get(replica) is not None or replica in self.elr:
                log_start = min(log_start, -1 if progress.log_start is None else progress.log_start)
        return log_start

    # What is committed

    def _advance(self, now: float) -> int:
        """Move the high watermark to the offset up to which every replica of the maximal ISR, and every replica that is
        about to join, has everything. It never moves back. It does not move while the ISR is smaller than
        min.insync.replicas (KAFKA-15583)."""
        lowest = self.durable_end if self.terms.flushes else self.end
        if lowest <= self.high_watermark or self.is_frozen or not self.enough_in_sync:
            return 0
        for progress in self._counted:
            if progress.end is None:
                return 0
            if progress.end < lowest:
                lowest = progress.end
        for replica, progress in self._others:
            if progress.end is not None and progress.end < lowest and self._is_joining(replica, now):
                lowest = progress.end
        if lowest <= self.high_watermark:
            return 0
        self.high_watermark = lowest
        waiting = self.waiting
        while waiting and waiting[0][0] <= lowest:
            self.released.append(waiting.popleft()[1])
        return COMMITTED

    def _is_joining(self, replica: NodeId, now: float) -> bool:
        """Whether the replica is about to join the ISR. Such a replica holds the high watermark back for a short time,
        since otherwise it might never catch up. A replica that has not fetched in this term, or not since it left the
        ISR, does not: it may never fetch again."""
        progress = self.followers[replica]
        if progress.end is None or progress.has_left or not self.is_eligible(replica):
            return False
        at = self.caught_up_at(replica)
        return at is not None and now - at <= self.terms.lag_seconds

    def _recount(self) -> None:
        """Call this after each change of the ISR, the maximal ISR, `followers` or `terms`."""
        self.enough_in_sync = len(self.isr) >= min(self.terms.min_insync_replicas, len(self.replicas))
        counted = self.maximal_isr
        self._counted = [progress for replica, progress in self.followers.items() if replica in counted]
        self._others = [each for each in self.followers.items() if each[0] not in counted]

    # The ISR

    def _take(self, replicas: Sequence[NodeId], isr: Iterable[NodeId], partition_epoch: Epoch) -> int:
        """Take over the controller's decision. It also ends an open proposal."""
        before, asked = self.isr, self.proposal
        self.replicas = tuple(replicas)
        self.isr = tuple(isr)
        self.partition_epoch = partition_epoch
        self.proposal = None
        self.reason = asked.why if asked is not None and set(asked.isr) == set(self.isr) else ""
        self.followers = {
            replica: self.followers.get(replica, FollowerProgress())
            for replica in self.replicas
            if replica != self.local
        }
        for replica in before:
            if replica not in self.isr and replica in self.followers:
                self.followers[replica].has_left = True
        self._recount()
        return 0 if set(before) <= set(self.isr) else SHRANK

    def may_join(self, replica: NodeId) -> bool:
        """Whether the replica may join the ISR: it has everything below the high watermark and everything below the
        start of this epoch, and it has no record that the leader has deleted. Its registered incarnation must have
        shown this by a fetch in this epoch, after it last left the ISR."""
        progress = self.followers[replica]
        return (
            progress.end is not None
            and not progress.has_left
            and progress.end >= self.high_watermark
            and progress.end >= self.epoch_start
            and progress.has_deleted
            and self.is_eligible(replica)
        )

    def _maybe_expand(self, replica: NodeId) -> int:
        if self.proposal is not None or replica in self.isr or not self.may_join(replica):
            return 0
        if any(each != self.local and self.brokers.get(each) is None for each in self.isr):
            return 0  # the controller would refuse this ISR as a whole: that member has to leave first
        return self._propose((*self.isr, replica), True, f"{replica} has caught up")

    def _expand_by_joining(self, now: float) -> int:
        """Propose a replica that caught up while another proposal was open. A caught-up replica sends no further news
        of the partition, and below min.insync.replicas no new record would make it fetch."""
        flags = 0
        for replica in self.followers:
            if self._is_joining(replica, now):
                flags |= self._maybe_expand(replica)
        return flags

    def _maybe_shrink(self, now: float) -> int:
        if self.proposal is not None:
            return 0
        out = {replica: self.caught_up_at(replica) for replica in self.isr if self._is_out_of_sync(replica, now)}
        if not out:
            return 0
        limit = self.terms.lag_seconds
        ages = (
            f"{replica} never caught up" if at is None else f"{replica} last caught up {now - at:.1f} s ago"
            for replica, at in out.items()
        )
        left = tuple(each for each in self.isr if each not in out)
        return self._propose(left, False, f"{', '.join(ages)}, limit {limit:g} s")

    def _is_out_of_sync(self, replica: NodeId, now: float) -> bool:
        if replica not in self.followers or self.followers[replica].end == self.end:
            return False
        at = self.caught_up_at(replica)
        return at is None or now - at > self.terms.lag_seconds

    def _propose(self, isr: tuple[NodeId, ...], expands: bool, why: str) -> int:
        epochs = tuple(self.followers[each].broker_epoch if each in self.followers else None for each in isr)
        self.proposal = Proposal(isr, epochs, self.partition_epoch, expands, why)
        self._recount()
        return PROPOSAL
