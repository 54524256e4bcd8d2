"""The simulation is worth its seeds only if it finds breakage: each rule taken away is noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from highwater.quorum import ElectionState, LogPosition, LogView, QuorumViolation, core, fetching
from highwater.quorum.leader import Leader
from highwater.quorum.log_view import VALID, Verdict
from tests.unit.quorum.cluster import World
from tests.unit.quorum.faults import SWIFT, NotLive, ordeal
from tests.unit.quorum.invariants import Broken
from tests.unit.quorum.memory_log import MemoryLog
from tests.unit.quorum.node import Node

SEEDS = 300


def first_finding(world: Callable[[int], World]) -> tuple[int, AssertionError]:
    for seed in range(SEEDS):
        try:
            ordeal(world(seed))
        except (Broken, QuorumViolation, NotLive) as found:
            return seed, found
    raise AssertionError(f"{SEEDS} seeds have found nothing")


class Forgetful(Node):
    def to_store(self, election: ElectionState) -> ElectionState:
        return replace(election, voted=None)


def test_votes_that_are_not_persisted_are_found() -> None:
    _, found = first_finding(lambda seed: World(seed, 3, SWIFT, Forgetful))
    assert isinstance(found, Broken)


class CommitsEarlierEpochs(Leader):
    """Counts replicas of any entry, as Raft's figure 8 warns; goes back for nobody, so that only loss betrays it."""

    known = -1

    def _commit(self) -> bool:
        ends = sorted(-1 if voter.end_offset is None else voter.end_offset for voter in self.voters.values())
        replicated = ends[(len(ends) - 1) // 2]
        if replicated <= max(self.high_watermark or 0, type(self).known):
            return False
        self.high_watermark = type(self).known = replicated
        return True


def test_a_commit_rule_without_the_start_of_the_epoch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "Leader", CommitsEarlierEpochs)

    def world(seed: int) -> World:
        CommitsEarlierEpochs.known = -1
        return World(seed, 3, SWIFT)

    _, found = first_finding(world)
    assert isinstance(found, Broken | QuorumViolation)


class Hasty(MemoryLog):
    """Takes what is written for durable."""

    @property
    def durable_end(self) -> int:
        return self.written_end


class HastyWorld(World):
    def view_of(self, log: MemoryLog) -> LogView:
        hasty = Hasty()
        hasty.__dict__ = log.__dict__
        return hasty


class Hurried(Node):
    """Reports a sync when it begins."""

    def sync(self) -> None:
        super().sync()
        self.world.later(0, self.guarded(lambda: self.feed(lambda quorum: quorum.log_flushed(self.world.now))))


def test_counting_what_is_written_and_not_synced_is_found() -> None:
    _, found = first_finding(lambda seed: HastyWorld(seed, 3, SWIFT, Hurried))
    assert isinstance(found, Broken | QuorumViolation)


def test_truncation_that_ignores_epochs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge_by_offset(log: LogView, offset: int, last_fetched_epoch: int) -> Verdict:
        if offset <= log.durable_end:
            return VALID
        return Verdict(diverging=LogPosition(log.last_epoch, log.durable_end))

    monkeypatch.setattr(fetching, "judge_fetch", judge_by_offset)
    _, found = first_finding(lambda seed: World(seed, 3, SWIFT))
    assert isinstance(found, Broken | QuorumViolation)


def test_a_cut_in_the_wrong_place_that_never_ends_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut_at_the_leaders_offset(log: LogView, diverging: LogPosition) -> int:
        return min(diverging.offset, log.durable_end)

    monkeypatch.setattr(fetching, "truncation_point", cut_at_the_leaders_offset)
    _, found = first_finding(lambda seed: World(seed, 3, SWIFT))
    assert isinstance(found, NotLive)
