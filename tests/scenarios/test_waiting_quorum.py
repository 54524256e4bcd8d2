"""What waits at the quorum: fetches without news, inputs while a vote cannot be written, a snapshot that takes long."""

from __future__ import annotations

import errno
from collections.abc import Generator
from typing import Any

import pytest

from highwater.raft_node import installing
from highwater.world import Step
from tests.scenarios.metadata import METADATA, agree, controller, create, others, raft
from tests.scenarios.stage import Stage
from tests.scenarios.test_c_snapshots import SMALL


def test_fetches_that_were_answered_are_forgotten_in_an_idle_cluster_that_writes_no_noops() -> None:
    """`metadata.max.idle.interval.ms=0`: nothing is appended to an idle metadata log, so nothing wakes the fetches that
    wait for news. Each of them is answered after half a second, and must be forgotten then."""
    with Stage(3, metadata_max_idle_interval_ms=0) as stage:
        stage.pass_time(30)
        before = len(raft(stage, "n1")._news)
        stage.pass_time(60)
        after = len(raft(stage, "n1")._news)
        assert after <= before + 2, f"{after} answered fetches are kept, {after - before} more than a minute ago"


def test_fetches_that_were_answered_are_forgotten_while_the_only_controllers_disk_is_full() -> None:
    with Stage(3) as stage:
        stage.pass_time(5)
        stage.storage("n1").fail("append", f"{METADATA}/*.log", errno.ENOSPC, times=None)
        stage.pass_time(30)
        before = len(raft(stage, "n1")._news)
        stage.pass_time(60)
        after = len(raft(stage, "n1")._news)
        assert after <= before + 2, f"{after} answered fetches are kept, {after - before} more than a minute ago"


def lagging(stage: Stage) -> str:
    """Stops a voter and lets the others write until their logs begin behind its end. Returns its name; it is down."""
    active = controller(stage)
    stage.until(lambda: agree(stage, *stage.cluster.names))
    (late, _) = others(stage, active)
    stage.kill(late)
    end = raft(stage, active).log_end
    for number in range(60):
        create(stage, controller(stage), f"t{number}")
        if all(raft(stage, name).log.start_offset > end for name in others(stage, late)):
            return late
    raise AssertionError("no log was cut")


@pytest.mark.parametrize("seconds", [0.5, 3.0])
def test_a_voter_whose_snapshot_takes_longer_than_the_fetch_timeout_to_sync_and_read_installs_it(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """The last step, `finish`, syncs and decodes the whole snapshot. Nothing is heard of the leader meanwhile."""
    begun: list[float] = []
    with Stage(3, voters=3, **SMALL) as stage:
        late = lagging(stage)
        finish = installing.finish

        def slowly(*args: Any) -> Generator[Step, None, Any]:
            begun.append(stage.now)
            while stage.now < begun[-1] + seconds:
                yield Step()
            return (yield from finish(*args))

        monkeypatch.setattr(installing, "finish", slowly)
        stage.start(late, waits=False)
        stage.pass_time(40)
        assert agree(stage, *stage.cluster.names), f"it has fetched the snapshot {len(begun)} times, and has not it yet"


def test_inputs_that_wait_while_a_vote_cannot_be_written_are_bounded() -> None:
    """A voter without room for its vote takes nothing in until there is room. Its peers ask again and again, and give
    up their requests after two seconds."""
    with Stage(3, voters=3) as stage:
        active = controller(stage)
        stage.until(lambda: agree(stage, *stage.cluster.names))
        (full, _) = others(stage, active)
        stage.storage(full).fail("append", f"{METADATA}/quorum-state*", errno.ENOSPC, times=None)
        stage.kill(active)
        stage.pass_time(10)
        stage.start(active, waits=False)
        stage.pass_time(30)
        waiting = raft(stage, full)._inputs._waiting
        assert raft(stage, full).is_deciding
        before = len(waiting)
        stage.pass_time(120)
        assert len(waiting) <= before + 5, f"{len(waiting)} inputs wait, two minutes ago {before}"
