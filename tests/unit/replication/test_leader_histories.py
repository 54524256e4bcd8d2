"""Properties of a leader that hold after every input of a random history, whatever its followers and controller do."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import NamedTuple

import pytest

from highwater.errors import Code
from highwater.model import NodeId
from highwater.replication.alter_partition import Answer, Proposal
from highwater.replication.follower_progress import Contact, FollowerProgress
from highwater.replication.leader import COMMITTED, PROPOSAL, SHRANK, STALE, Leader, Terms

ME = NodeId(1)
REPLICAS = tuple(map(NodeId, (1, 2, 3, 4)))
LAG = 5.0
STEPS = 150


class Said(NamedTuple):
    """By a follower, in this term and since it last left the ISR."""

    broker_epoch: int
    end: int


class History:
    """A leader, and beside it what the controller has committed and what each follower has said."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.now = 100.0
        self.registered = {replica: 10 * replica for replica in REPLICAS}
        self.isr = self.some_isr()
        self.partition_epoch = 7
        self.end = self.durable = random.randint(0, 8)
        self.terms = Terms(random.randint(1, 3), random.random() < 0.4, LAG)
        high_watermark = random.randint(0, self.end)
        self.leader = Leader(
            ME,
            4,
            self.end,
            self.end,
            high_watermark,
            REPLICAS,
            self.isr,
            self.partition_epoch,
            self.brokers(),
            self.terms,
            self.now,
        )
        self.epoch_start = self.end
        self.said: dict[NodeId, Said] = {}
        self.contacts: dict[NodeId, Contact] = {}
        self.unheard: list[Proposal] = []
        """Asked for once, and answered or given up since."""
        self.waiting: list[tuple[int, int]] = []
        self.tokens = 0
        self.is_offline = False
        self.fenced: set[NodeId] = set()

    def some_isr(self) -> tuple[NodeId, ...]:
        return (ME, *(each for each in REPLICAS[1:] if self.random.random() < 0.5))

    def brokers(self) -> dict[NodeId, int | None]:
        fenced = getattr(self, "fenced", set())
        return {replica: None if replica in fenced else epoch for replica, epoch in self.registered.items()}

    # Inputs

    def step(self) -> None:
        inputs = (
            *[self.fetch] * 6,
            *[self.append] * 3,
            *[self.answer] * 3,
            *(self.sync, self.assign, self.repeat_old_metadata, self.change_brokers, self.tick, self.set, self.wait),
            *(self.fetch_of_an_earlier_life, self.answer_to_another),
        )
        self.now += self.random.choice((0.0, 0.5, 2.0))
        self.watched(self.random.choice(inputs))

    def fetch(self) -> int:
        replica = self.random.choice(REPLICAS[1:])
        if self.random.random() < 0.1:
            self.registered[replica] += 1  # a new life, which may have less; the leader hears of it by the fetch
            end = self.random.randint(0, self.end)
        else:
            before = self.said.get(replica)
            end = self.random.choice((self.end, self.random.randint(before.end if before else 0, self.end)))
        contact = self.contacts.setdefault(replica, Contact(self.now))
        contact.at = self.now
        self.said[replica] = Said(self.registered[replica], end)
        return self.leader.fetched(replica, self.registered[replica], end, 0, 0, contact, self.now)

    def fetch_of_an_earlier_life(self) -> int:
        known = dict(self.said)
        if not known:
            return 0
        replica = self.random.choice(list(known))
        before = deepcopy(_known_to(self.leader))
        flags = self.leader.fetched(
            replica, known[replica].broker_epoch - 1, self.end, 0, 0, Contact(self.now), self.now
        )
        assert (flags, _known_to(self.leader)) == (STALE, before), "an earlier life counts for nothing"
        return 0

    def append(self) -> int:
        self.end += self.random.randint(1, 3)
        return self.leader.appended(self.end, self.now)

    def sync(self) -> int:
        self.durable = self.random.randint(self.durable, self.end)
        return self.leader.synced(self.durable, self.now)

    def wait(self) -> int:
        flags = self.append()
        if self.leader.high_watermark < self.end:
            self.tokens += 1
            self.waiting.append((self.end, self.tokens))
            self.leader.wait(self.end, self.tokens)
        return flags

    def answer(self) -> int:
        proposal = self.leader.proposal
        if proposal is None:
            return 0
        code = self.random.choice((Code.NONE, Code.NONE, Code.INELIGIBLE_REPLICA, Code.INVALID_UPDATE_VERSION))
        if code is not Code.NONE:
            flags = self.leader.answered(proposal, Answer(code), self.now)
            assert (self.leader.proposal is not proposal) is (code is Code.INELIGIBLE_REPLICA)
            return flags
        return self.grant(proposal)

    def grant(self, proposal: Proposal) -> int:
        """The answer comes before the metadata, and moves nothing."""
        before = deepcopy(_known_to(self.leader))
        answer = Answer(Code.NONE, self.partition_epoch + 1)
        assert self.leader.answered(proposal, answer, self.now) == 0
        assert _known_to(self.leader) == before
        self.commit(proposal.isr)
        return self.leader.assigned(REPLICAS, self.isr, self.partition_epoch, self.brokers(), self.now)

    def answer_to_another(self) -> int:
        if not self.unheard:
            return 0
        before = deepcopy(_known_to(self.leader))
        answer = Answer(Code.NONE, self.partition_epoch + 1)
        assert self.leader.answered(self.random.choice(self.unheard), answer, self.now) == 0
        assert _known_to(self.leader) == before, "nobody asks for that any more"
        return 0

    def assign(self) -> int:
        """The controller grants what it was asked for, and the answer is lost; or takes members out by itself, and what
        it was asked for is void then."""
        proposal = self.leader.proposal
        if proposal is not None and self.random.random() < 0.5:
            self.commit(proposal.isr)
        else:
            self.commit((ME, *(each for each in self.isr[1:] if self.random.random() < 0.7)))
        return self.leader.assigned(REPLICAS, self.isr, self.partition_epoch, self.brokers(), self.now)

    def repeat_old_metadata(self) -> int:
        isr, proposal = self.leader.isr, self.leader.proposal
        older = self.partition_epoch - self.random.randint(0, 2)
        flags = self.leader.assigned(REPLICAS, self.some_isr(), older, self.brokers(), self.now)
        assert (self.leader.isr, self.leader.proposal) == (isr, proposal), "that is no news"
        return flags

    def change_brokers(self) -> int:
        replica = self.random.choice(REPLICAS[1:])
        self.fenced ^= {replica}
        return self.leader.brokers_changed({replica: self.brokers()[replica]}, self.now)

    def tick(self) -> int:
        self.now += self.random.choice((0.0, LAG + 1))
        for replica, contact in self.contacts.items():
            if self.random.random() < 0.5 and replica in self.said:
                contact.at = self.now
        return self.leader.tick(self.now)

    def set(self) -> int:
        self.terms = Terms(self.random.randint(1, 3), self.random.random() < 0.4, LAG)
        return self.leader.settings_changed(self.terms, self.now)

    def commit(self, isr: tuple[NodeId, ...]) -> None:
        for replica in set(self.isr) - set(isr):
            self.said.pop(replica, None)
        self.isr = isr
        self.partition_epoch += 1

    # Properties

    def watched(self, act: object) -> None:
        leader = self.leader
        before, isr, asked = leader.high_watermark, leader.isr, leader.proposal
        flags = act()  # type: ignore[operator]
        assert leader.isr == self.isr, "only the controller changes the ISR"
        assert bool(flags & SHRANK) == (not set(isr) <= set(leader.isr))
        assert bool(flags & COMMITTED) == (leader.high_watermark > before)
        assert leader.high_watermark >= before, "it never goes back"
        if flags & COMMITTED:
            self.check_commit()
        self.check_released()
        if flags & PROPOSAL:
            assert leader.proposal is not None and leader.proposal is not asked
            assert asked is None or leader.partition_epoch > asked.partition_epoch, "one at a time"
            self.check_proposal(leader.proposal)
        elif asked is not None and leader.proposal is None:
            self.unheard.append(asked)
        else:
            assert leader.proposal is asked
        if flags & PROPOSAL and asked is not None:
            self.unheard.append(asked)

    def check_commit(self) -> None:
        leader, committed = self.leader, self.leader.high_watermark
        assert not self.is_offline
        assert committed <= (self.durable if self.terms.flushes else self.end)
        assert len(self.isr) >= min(self.terms.min_insync_replicas, len(REPLICAS))
        proposed = () if leader.proposal is None else leader.proposal.isr
        for replica in {*self.isr, *proposed} - {ME}:
            assert replica in self.said, f"{replica} has said nothing since it left"
            assert self.said[replica].end >= committed, f"{replica} of the maximal ISR does not have it"

    def check_released(self) -> None:
        due = [token for end, token in self.waiting if end <= self.leader.high_watermark]
        assert self.leader.released == due, "in their order, and nobody twice"
        self.leader.released = []
        self.waiting = self.waiting[len(due) :]

    def check_proposal(self, proposal: Proposal) -> None:
        assert proposal.partition_epoch == self.partition_epoch
        assert proposal.isr[0] == ME and len(set(proposal.isr)) == len(proposal.isr)
        joins, leaves = set(proposal.isr) - set(self.isr), set(self.isr) - set(proposal.isr)
        assert proposal.expands is bool(joins) is not bool(leaves)
        for replica in joins:
            said = self.said[replica]
            assert said.end >= max(self.epoch_start, self.leader.high_watermark)
            assert said.broker_epoch == self.leader.brokers[replica], "the life that said so is not the registered one"
        for replica in leaves:
            assert replica not in self.said or self.said[replica].end < self.end, f"{replica} has everything"
        for replica, epoch in zip(proposal.isr, proposal.epochs, strict=True):
            known = self.said.get(replica)
            assert epoch == (known.broker_epoch if known is not None else None)

    def heal(self) -> None:
        """Everybody fetches, the controller grants everything, and the disk is synced."""
        self.fenced.clear()
        self.terms = self.terms._replace(min_insync_replicas=1)
        self.watched(lambda: self.leader.settings_changed(self.terms, self.now))
        self.watched(lambda: self.leader.brokers_changed(self.brokers(), self.now))
        for _ in range(12):
            for replica in REPLICAS[1:]:
                self.watched(lambda replica=replica: self.fetch_all(replica))
            proposal = self.leader.proposal
            if proposal is not None:
                self.watched(lambda proposal=proposal: self.grant(proposal))
        self.durable = self.end
        self.watched(lambda: self.leader.synced(self.end, self.now))
        assert set(self.leader.isr) == set(REPLICAS)
        assert (self.leader.high_watermark, self.waiting, self.leader.proposal) == (self.end, [], None)

    def fetch_all(self, replica: NodeId) -> int:
        self.said[replica] = Said(self.registered[replica], self.end)
        return self.leader.fetched(replica, self.registered[replica], self.end, 0, 0, Contact(self.now), self.now)


def _known_to(leader: Leader) -> tuple[dict[NodeId, FollowerProgress], int, tuple[NodeId, ...], Proposal | None, int]:
    return leader.followers, leader.high_watermark, leader.isr, leader.proposal, leader.partition_epoch


@pytest.mark.parametrize("seed", range(60))
def test_all_possible_leaders_have_what_is_committed_and_everything_heals(seed: int) -> None:
    history = History(seed)
    history.watched(lambda: history.leader.begin(history.now))
    for _ in range(STEPS):
        history.step()
    history.heal()


@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_committed_after_a_failure_and_waiting_tokens_are_released_in_order(seed: int) -> None:
    history = History(seed)
    for _ in range(STEPS // 3):
        history.step()
    history.leader.freeze()
    history.is_offline = True
    for _ in range(STEPS // 3):
        history.step()
    assert history.leader.step_down() == [token for _, token in history.waiting]
    assert history.leader.step_down() == []
