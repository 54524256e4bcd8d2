"""One term of one leader: how far its followers are, who is in sync, what is committed. Pure.

No acknowledgement message exists: the offset of a follower's next fetch is its acknowledgement. The ISR is changed only
by the controller; a change that is asked for and not yet answered counts for the high watermark at once if it adds a
replica, and not before it is committed if it takes one away (KIP-497: the maximal ISR).

Each input returns flags. The driver carries out what they name, in this order:

1. `SHRANK`: the followers' sessions are told that what they said of their place counts no more.
2. `COMMITTED`: the log's high watermark becomes `high_watermark`, and those in `released` are told.
3. `PROPOSAL`: the controller is asked for `proposal`; its answer comes back by `answered`.

`STALE` says that the input came from an older incarnation of a follower, and counts for nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from highwater.model import Epoch, NodeId, Offset
from highwater.replication.alter_partition import Answer, Meaning, meaning_of

SHRANK, COMMITTED, PROPOSAL, STALE = 1, 2, 4, 8

BrokerEpochs = Mapping[NodeId, int | None]
"""Of replicas: the epoch of the registered broker, or None where it may not be in an ISR. It is fenced, shuts down, is
not registered, or its replica is lost."""


@dataclass(slots=True)
class Contact:
    """One session of a follower's broker, over all partitions. A follower that has all sends no news of a partition:
    that its session goes on says that it still has all."""

    at: float
    """When it last fetched anything."""


@dataclass(slots=True)
class Progress:
    """One follower, as far as it has told in this term, in its present incarnation, since it last left the ISR."""

    end: Offset | None = None
    log_start: Offset | None = None
    has_deleted: bool = False
    """It begins no earlier than the leader did at its last fetch. DeleteRecords that come later wait for it."""
    broker_epoch: int | None = None
    caught_up_at: float | None = None
    """When it last had everything the leader had; while it has, `contact` says so instead."""
    fetched_at: float | None = None
    leader_end_at_fetch: Offset | None = None
    contact: Contact | None = None
    has_left: bool = False
    """It was taken out of the ISR and has not fetched since. What it said before does not bring it back."""

    def caught_up(self, at: float | None) -> None:
        if at is not None and (self.caught_up_at is None or at > self.caught_up_at):
            self.caught_up_at = at


class Proposal(NamedTuple):
    """A change of the ISR that the controller is asked for."""

    isr: tuple[NodeId, ...]
    epochs: tuple[int | None, ...]
    """The broker epochs of the members, as they were when it was made: a later incarnation may lack what this one had.
    None for the leader itself, and for a member that has not fetched in this term."""
    partition_epoch: Epoch
    expands: bool
    why: str = ""


class Terms(NamedTuple):
    """The settings that a leader goes by."""

    min_insync_replicas: int
    flushes: bool
    """What is not synced on the leader is not committed."""
    lag_seconds: float
    """How long a member of the ISR may go without having everything."""


class Leader:
    """Made anew for every leader epoch: what a follower said in another one does not count."""

    __slots__ = (
        "_counted",
        "_others",
        "brokers",
        "durable_end",
        "elr",
        "end",
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
        self.followers: dict[NodeId, Progress] = {
            replica: Progress(caught_up_at=now if replica in self.isr else None)
            for replica in self.replicas
            if replica != local
        }
        self.waiting: deque[tuple[Offset, Any]] = deque()
        """Tokens of those who wait for the high watermark to reach an offset, in the order of the offsets."""
        self.released: list[Any] = []
        """Tokens of those whose offset is committed; the driver takes them out."""
        self._counted: list[Progress] = []
        self._others: list[tuple[NodeId, Progress]] = []
        self._recount()

    # Inputs: its own log

    def begin(self, now: float) -> int:
        """The first input of a term: what is there already may be committed."""
        return self._advance(now)

    def appended(self, end: Offset, now: float) -> int:
        """Who had everything until now was caught up when its session last fetched."""
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
        return self._advance(now)

    # Inputs: who waits

    def wait(self, end: Offset, token: Any) -> None:
        """Until `end` is committed. Ends come in the order of the appends."""
        self.waiting.append((end, token))

    def take_over(self, before: Leader) -> None:
        """This replica led in the term before, too. Its records are still there, and those who wait go on waiting."""
        self.waiting, before.waiting = before.waiting, deque()

    def step_down(self) -> list[Any]:
        """The term is over: the tokens of all who still wait."""
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
        """A fetch of this leader epoch at `end`: everything from `log_start` to there is on that replica."""
        progress = self.followers[replica]
        known = progress.broker_epoch
        if known is not None and broker_epoch != known:
            if broker_epoch < known:
                return STALE
            # What the last incarnation had, this one may have lost.
            progress = self.followers[replica] = Progress()
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
        """Who may be in an ISR has changed. One that has caught up may have waited only for that."""
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
        """Metadata of this leader epoch. What an answer has told already is no news: it must not take back a change
        that was asked for since."""
        self.brokers, self.elr = dict(brokers), tuple(elr)
        flags = 0
        if partition_epoch > self.partition_epoch:
            flags = self._take(replicas, isr, partition_epoch) | self._expand_by_joining(now)
        return flags | self._advance(now)

    def answered(self, proposal: Proposal, answer: Answer, now: float) -> int:
        """The controller's answer. To what is no longer asked for, it says nothing.

        A change that was made counts when the metadata has it, with the settings that it was decided by: who is in the
        ELR follows from min.insync.replicas. Under an older bound more would be committed here than the ELR has.
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
        """Drops who was not caught up for too long; and who held the high watermark back by being nearly there may
        have fallen behind."""
        flags = self._maybe_shrink(now)
        flags |= self._advance(now)
        return flags | self._expand_by_joining(now)

    # What it knows

    @property
    def maximal_isr(self) -> tuple[NodeId, ...]:
        proposal = self.proposal
        return proposal.isr if proposal is not None and proposal.expands else self.isr

    @property
    def enough_in_sync(self) -> bool:
        """A topic with fewer replicas than min.insync.replicas asks only for what it has."""
        return len(self.isr) >= min(self.terms.min_insync_replicas, len(self.replicas))

    def caught_up_at(self, replica: NodeId) -> float | None:
        """None where it never was in this term."""
        progress = self.followers[replica]
        if progress.end is None or progress.end < self.end or progress.contact is None:
            return progress.caught_up_at
        at = progress.caught_up_at
        return progress.contact.at if at is None else max(at, progress.contact.at)

    def behind_since(self, replica: NodeId) -> float:
        """When it last had everything, or when this term began."""
        at = self.caught_up_at(replica)
        return self.since if at is None else max(at, self.since)

    def is_eligible(self, replica: NodeId) -> bool:
        """The incarnation that fetches is the one that is registered and may be in an ISR (KIP-841, KIP-903)."""
        epoch = self.followers[replica].broker_epoch
        return epoch is not None and epoch == self.brokers.get(replica)

    def low_watermark(self, log_start: Offset) -> Offset:
        """What no replica has any more that is live or in the ELR, if our own log begins at `log_start`. One that has
        told nothing in this term may have everything. Kafka looks at live replicas alone; but a member of the ELR may
        be elected cleanly when it comes back, and would show what was deleted."""
        for replica, progress in self.followers.items():
            if self.brokers.get(replica) is not None or replica in self.elr:
                log_start = min(log_start, -1 if progress.log_start is None else progress.log_start)
        return log_start

    # What is committed

    def _advance(self, now: float) -> int:
        """What every replica of the maximal ISR has, and those about to join it. It never goes back, and is frozen
        below min.insync.replicas (KAFKA-15583)."""
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
        """One that is nearly there holds the high watermark back a little, or it would never get there. Not one that
        has told nothing in this term or since it left the ISR: it may never."""
        progress = self.followers[replica]
        if progress.end is None or progress.has_left or not self.is_eligible(replica):
            return False
        at = self.caught_up_at(replica)
        return at is not None and now - at <= self.terms.lag_seconds

    def _recount(self) -> None:
        """After each change of the maximal ISR or of a follower's record."""
        counted = self.maximal_isr
        self._counted = [progress for replica, progress in self.followers.items() if replica in counted]
        self._others = [each for each in self.followers.items() if each[0] not in counted]

    # Who is in sync

    def _take(self, replicas: Sequence[NodeId], isr: Iterable[NodeId], partition_epoch: Epoch) -> int:
        """The controller's word: whatever was asked for is answered by it."""
        before, asked = self.isr, self.proposal
        self.replicas = tuple(replicas)
        self.isr = tuple(isr)
        self.partition_epoch = partition_epoch
        self.proposal = None
        self.reason = asked.why if asked is not None and set(asked.isr) == set(self.isr) else ""
        self.followers = {
            replica: self.followers.get(replica, Progress()) for replica in self.replicas if replica != self.local
        }
        for replica in before:
            if replica not in self.isr and replica in self.followers:
                self.followers[replica].has_left = True
        self._recount()
        return 0 if set(before) <= set(self.isr) else SHRANK

    def may_join(self, replica: NodeId) -> bool:
        """It has what is committed, and what was there when this epoch began, and would bring no deleted record back.
        It told so in this epoch, by a fetch that came after it had left the ISR, in the incarnation that is
        registered."""
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
            return 0  # such an ISR would be refused as a whole: that member has to leave first
        return self._propose((*self.isr, replica), True, f"{replica} has caught up")

    def _expand_by_joining(self, now: float) -> int:
        """Whoever caught up while another change was asked for: one that has all it wants says nothing more, and below
        min.insync.replicas nothing more may be written."""
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
