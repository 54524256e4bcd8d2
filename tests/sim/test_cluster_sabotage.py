"""The seeds are worth their time only if they find breakage: each rule of replication is broken on purpose."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import PurePath

import pytest

from highwater.partition import fetching
from highwater.partition.followed import Followed
from highwater.raft_node import raft_node
from highwater.replication.leader import COMMITTED, Leader
from highwater.sim.trial import Trial
from highwater.world import Disk, Place, Step, World
from highwater.world.jobs import finished

SEEDS = 200


def first_finding() -> str:
    for seed in range(SEEDS):
        found = Trial(seed, profile="crashes")()
        if found is not None:
            return "\n".join(found.faults)
    raise AssertionError(f"{SEEDS} seeds have found nothing")


def unsynced(disk: Disk, path: PurePath, data: bytes) -> Generator[Step, None, None]:
    """replace_file without the sync before the rename."""
    aside = path.with_name(path.name + ".tmp")
    file = disk.open(aside, create=True)
    file.truncate(0)
    file.append(data)
    yield Step()
    disk.rename(aside, path)
    yield Step()
    disk.sync_dir(path.parent)
    file.close()


async def replaced_unsynced(world: World, path: PurePath, data: bytes, where: Place) -> None:
    await finished(world, unsynced, path, data, where=where)


@pytest.mark.slow
def test_a_high_watermark_that_waits_for_no_replica_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(leader: Leader, now: float) -> int:
        leader.high_watermark = max(leader.end, leader.high_watermark)
        return COMMITTED

    monkeypatch.setattr(Leader, "_advance", hasty)
    assert "HoldsCommitted" in first_finding()


@pytest.mark.slow
def test_a_log_that_is_not_cut_where_epochs_part_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "divergence", lambda *_: None)
    assert "LogMatching" in first_finding()


@pytest.mark.slow
def test_a_vote_that_is_not_synced_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raft_node, "replaced", replaced_unsynced)
    found = first_finding()
    assert "quorum-state" in found or "QuorumLeader" in found or "QuorumEpoch" in found or "cannot start" in found


@pytest.mark.slow
def test_a_leader_that_does_not_count_possible_isr_members_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leader, "maximal_isr", property(lambda leader: leader.isr))
    assert "MaximalIsr" in first_finding()


@pytest.mark.slow
def test_a_follower_that_fetches_on_before_it_has_synced_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(followed: Followed, done: Callable[[], None]) -> None:
        followed.partition.log.flush()
        done()

    monkeypatch.setattr(Followed, "when_durable", at_once)
    assert "FlushedIsrHoldsCommitted" in first_finding()
