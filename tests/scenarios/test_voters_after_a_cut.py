"""What a voter knows of the voters after it started again and cut its log."""

from __future__ import annotations

import pytest

from highwater.config import NodeConfig
from tests.scenarios.metadata import agree, controller, create, has_quorum, leaders, others, raft, snapshots
from tests.scenarios.stage import SETTINGS, Stage

SEEDS = range(1, 4)


def test_two_of_three_voters_elect_a_leader_though_one_has_just_cut_off_the_first_epochs_voters() -> None:
    """The first leader of a cluster writes the voters, dies before anyone has them, and starts again. It cuts them off,
    and at that moment the next leader dies: the other two are a majority."""
    with Stage(3, voters=3, starts=False) as stage:
        stage.start("n1", "n2", "n3", waits=False)
        stage.until(lambda: leaders(stage))
        (old,) = leaders(stage)
        for other in others(stage, old):
            stage.cut(old, other)
        stage.until(lambda: raft(stage, old).log.durable_end >= 3)
        stage.kill(old)
        stage.heal()
        stage.until(lambda: leaders(stage))
        (new,) = leaders(stage)
        (third,) = others(stage, old, new)
        stage.until(lambda: agree(stage, new, third))
        stage.start(old, waits=False)
        stage.until(lambda: has_quorum(stage, old))
        assert raft(stage, old).log.durable_end >= 3 and len(raft(stage, old).voters) == 3
        stage.until(lambda: raft(stage, old).log.written_end == 0 and not raft(stage, old).is_deciding)
        stage.kill(new)
        stage.pass_time(20)
        known = raft(stage, old).voters.ids
        assert leaders(stage), f"{old} and {third} are a majority and have no leader: {old} knows the voters {known}"


def elect(stage: Stage, name: str) -> str:
    """Kills leaders until this node is elected. Returns the leader before it, which is down."""
    while True:
        (leader,) = leaders(stage)
        stage.kill(leader)
        stage.until(lambda: leaders(stage))
        if leaders(stage) == [name]:
            return leader
        stage.start(leader)
        stage.until(lambda: agree(stage, *stage.cluster.names))


def cut_off_its_own_change_of_address(stage: Stage) -> tuple[str, int]:
    """A voter gets another address, is elected, writes the voters with it and dies before anyone has that. It starts
    again, follows the next leader and cuts it off. Returns the voter, and where its log ended before its election."""
    moved = controller(stage)
    stage.until(lambda: agree(stage, *stage.cluster.names))
    stage.kill(moved)
    member = stage.member(moved)
    properties = {**member._properties([1, 2, 3]), **SETTINGS}
    for key in ("listeners", "advertised.listeners"):
        properties[key] = properties[key].replace(f":{member.controller.port}", ":9700")
    member.hosted.config = NodeConfig.parse(properties)
    stage.until(lambda: leaders(stage))
    stage.start(moved)
    stage.until(lambda: agree(stage, *stage.cluster.names))
    second = elect(stage, moved)
    (third,) = others(stage, moved, second)
    stage.isolate(moved)
    before = raft(stage, moved).log.durable_end
    stage.until(lambda: raft(stage, moved).log.durable_end > before)
    stage.kill(moved)
    stage.heal()
    stage.start(second)
    stage.until(lambda: agree(stage, second, third))
    stage.start(moved)
    stage.until(lambda: agree(stage, *stage.cluster.names))
    return moved, before


@pytest.mark.parametrize("seed", SEEDS)
def test_a_voter_that_cuts_off_its_own_change_of_address_remains_a_voter(seed: int) -> None:
    """The voters are those that were committed before."""
    with Stage(3, voters=3, seed=seed) as stage:
        moved, _ = cut_off_its_own_change_of_address(stage)
        stage.pass_time(5)
        assert raft(stage, moved).voters.ids == (1, 2, 3), "it is a voter no longer, and only a restart mends that"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_voter_that_cuts_off_its_own_change_of_address_remains_a_voter_after_a_snapshot_and_a_restart(
    seed: int,
) -> None:
    """As above; and then it writes a snapshot of the metadata and starts again."""
    with Stage(3, voters=3, seed=seed) as stage:
        moved, before = cut_off_its_own_change_of_address(stage)
        for number in range(60):
            if max((at.offset for at in snapshots(stage, moved)), default=0) > before:
                break
            create(stage, controller(stage), f"t{number}")
            stage.pass_time(0.05)
        assert max(at.offset for at in snapshots(stage, moved)) > before
        stage.kill(moved)
        stage.start(moved)
        stage.until(lambda: agree(stage, *stage.cluster.names))
        stage.pass_time(5)
        assert raft(stage, moved).voters.ids == (1, 2, 3), "its own snapshot says that there are no voters"
        (lead,) = leaders(stage)
        stage.kill(lead)
        stage.pass_time(20)
        assert leaders(stage), "two of three voters are up"
