"""Each invariant of the simulation sees the violation it is there for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from highwater.quorum import Role
from tests.unit.quorum.bench import ONE, TWO
from tests.unit.quorum.invariants import (
    Broken,
    Committed,
    LeaderCompleteness,
    LeadsOnce,
    LogMatching,
    MonotonicEpoch,
    MonotonicHighWatermark,
    OneVote,
    SingleLeader,
)
from tests.unit.quorum.memory_log import Entry

A, B, C = Entry(1, "a"), Entry(1, "b"), Entry(2, "c")


@dataclass(frozen=True)
class Seen:
    id: int = 1
    is_up: bool = True
    role: Role = Role.FOLLOWER
    epoch: int = 1
    high_watermark: int | None = None
    life: int = 1
    log: list[Entry] = field(default_factory=list)
    disk: list[Entry] = field(default_factory=list)


def holding(node: int, *entries: Entry, **more: object) -> Seen:
    return replace(Seen(node, log=list(entries), disk=list(entries)), **more)  # type: ignore[arg-type]


def test_two_leaders_in_one_epoch_are_seen_even_at_different_times() -> None:
    invariant, leader = SingleLeader(), Seen(1, role=Role.LEADER, epoch=3)
    invariant.check(leader, [leader])
    invariant.check(replace(leader, id=2, epoch=4), [])
    with pytest.raises(Broken):
        invariant.check(replace(leader, id=2), [])


def test_an_epoch_led_in_two_lives_is_seen() -> None:
    invariant, leader = LeadsOnce(), Seen(1, role=Role.LEADER, epoch=3)
    invariant.check(leader, [])
    with pytest.raises(Broken):
        invariant.check(replace(leader, life=2), [])


def test_an_epoch_that_goes_back_is_seen_across_lives() -> None:
    invariant = MonotonicEpoch()
    invariant.check(Seen(epoch=3), [])
    with pytest.raises(Broken):
        invariant.check(Seen(epoch=2, life=2), [])


def test_a_high_watermark_that_goes_back_is_seen_in_one_life_only() -> None:
    invariant = MonotonicHighWatermark()
    invariant.check(Seen(high_watermark=3), [])
    invariant.check(Seen(high_watermark=2, life=2), [])
    with pytest.raises(Broken):
        invariant.check(Seen(high_watermark=2), [])


def test_two_different_committed_entries_are_seen() -> None:
    invariant = Committed()
    one, two = holding(1, A, B, high_watermark=2), holding(2, A, B)
    invariant.check(one, [one, two, Seen(3)])
    with pytest.raises(Broken, match="another entry"):
        invariant.check(holding(3, A, C, high_watermark=2), [one, two])


def test_a_commit_that_is_on_too_few_disks_is_seen() -> None:
    one, two = holding(1, A, B, high_watermark=2), replace(holding(2, A, B), disk=[A])
    with pytest.raises(Broken, match="disks of"):
        Committed().check(one, [one, two, Seen(3)])


def test_a_commit_that_vanishes_from_a_disk_later_is_seen() -> None:
    invariant = Committed()
    one, two = holding(1, A, B, high_watermark=2), holding(2, A, B)
    invariant.check(one, [one, two, Seen(3)])
    lost = holding(2, A, is_up=False)
    with pytest.raises(Broken, match="disks of"):
        invariant.check(lost, [one, lost, Seen(3)])


def test_a_high_watermark_beyond_the_log_is_seen() -> None:
    with pytest.raises(Broken, match="has 1"):
        Committed().check(holding(1, A, high_watermark=2), [])


def test_a_leader_without_a_committed_entry_is_seen() -> None:
    committed = Committed()
    one, two = holding(1, A, B, high_watermark=2), holding(2, A, B)
    committed.check(one, [one, two, Seen(3)])
    with pytest.raises(Broken, match="without all committed"):
        LeaderCompleteness(committed).check(holding(3, A, role=Role.LEADER, epoch=2), [])
    LeaderCompleteness(committed).check(holding(2, A, B, role=Role.LEADER, epoch=2), [])


def test_two_records_at_one_offset_of_one_epoch_are_seen() -> None:
    invariant = LogMatching()
    invariant.written(3, A)
    invariant.written(3, C)
    invariant.written(4, B)
    with pytest.raises(Broken):
        invariant.written(3, B)


def test_two_votes_in_one_epoch_are_seen() -> None:
    invariant = OneVote()
    invariant.voted(3, 1, ONE)
    invariant.voted(3, 1, ONE)
    invariant.voted(3, 2, TWO)
    with pytest.raises(Broken):
        invariant.voted(3, 1, TWO)
