"""Voters that come back with another address: how the other nodes find them."""

from __future__ import annotations

import pytest

from highwater.config import NodeConfig
from tests.scenarios.metadata import agree, controller, create, has_quorum, leaders, others, quorum, raft
from tests.scenarios.stage import SETTINGS, Stage

MOVED_BY = 200


def give_another_port(stage: Stage, name: str, *moved: str) -> None:
    """The voters `moved` (by default this one alone) have other ports for their controllers. This node, which is down,
    is given its own and, as bootstrap servers, those of all."""
    member = stage.member(name)
    properties = {**member._properties([1, 2, 3]), **SETTINGS}
    for other in moved or (name,):
        port = stage.member(other).controller.port
        for key in ("listeners", "advertised.listeners", "controller.quorum.bootstrap.servers"):
            properties[key] = properties[key].replace(f":{port}", f":{port + MOVED_BY}")
    member.hosted.config = NodeConfig.parse(properties)


def elect(stage: Stage, name: str) -> str:
    """Kills leaders until this voter is elected. Returns the leader before it, which is down."""
    while True:
        (leader,) = leaders(stage)
        stage.kill(leader)
        stage.until(lambda: leaders(stage))
        if leaders(stage) == [name]:
            return leader
        stage.start(leader)
        stage.until(lambda: agree(stage, "n1", "n2", "n3"))


@pytest.mark.parametrize("late", ["voter", "broker"])
def test_a_node_that_starts_with_an_old_address_of_its_leader_learns_the_new_one(late: str) -> None:
    """It heard of the leader and wrote that down, and was killed before it had the record with the leader's new
    address. The epoch does not change any more."""
    with Stage(4, voters=3) as stage:
        moved = controller(stage)
        stage.until(lambda: agree(stage, *stage.cluster.names))
        stage.kill(moved)
        give_another_port(stage, moved)
        stage.until(lambda: leaders(stage))
        stage.start(moved)
        stage.until(lambda: agree(stage, *stage.cluster.names))
        if late == "broker":
            stage.kill("n4")
        third = elect(stage, moved)
        name = third if late == "voter" else "n4"
        stage.cut(moved, name)
        stage.start(name, waits=False)
        stage.until(lambda: has_quorum(stage, name) and quorum(stage, name).leader_id == int(moved[1:]))
        stage.until(lambda: not stage.node(name).raft.is_deciding)
        stage.kill(name)
        stage.heal()
        stage.start(name)
        stage.until(lambda: agree(stage, moved, name))
        assert leaders(stage) == [moved]


def test_a_quorum_whose_voters_have_all_moved_one_after_the_other_elects_a_leader() -> None:
    """Each is stopped, gets another port and starts again, when the others agree. The one that leads is the last. All
    names of the bootstrap servers are changed along."""
    with Stage(3, voters=3) as stage:
        last = controller(stage)
        for name in (*others(stage, last), last):
            stage.until(lambda: agree(stage, *stage.cluster.names))
            stage.stop(name)
            give_another_port(stage, name, *stage.cluster.names)
            stage.start(name, waits=False)
            stage.pass_time(3)
        stage.until(lambda: agree(stage, *stage.cluster.names))
        for name in stage.cluster.names:
            stage.kill(name)
            stage.until(lambda name=name: agree(stage, *others(stage, name)))  # type: ignore[misc]
            stage.start(name)
            stage.until(lambda: agree(stage, *stage.cluster.names))


def test_two_of_three_voters_elect_a_leader_though_one_has_moved_and_is_behind() -> None:
    """It has never led at its new address, so the voter set has the old one. Only the other one can lead."""
    with Stage(3, voters=3) as stage:
        lead = controller(stage)
        moved, whole = others(stage, lead)
        stage.until(lambda: agree(stage, *stage.cluster.names))
        for name in (moved, whole):
            stage.kill(name)
            give_another_port(stage, name, moved)
            stage.start(name)
            stage.until(lambda: agree(stage, *stage.cluster.names))
        stage.cut(lead, moved)
        stage.cut(whole, moved)
        create(stage, lead, "only-with-two")
        stage.until(lambda: raft(stage, whole).log.durable_end > raft(stage, moved).log.durable_end)
        stage.kill(lead)
        stage.heal()
        stage.until(lambda: agree(stage, moved, whole))
