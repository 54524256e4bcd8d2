"""Faults as data: drawn from a seed, printed as a story, carried out on a cluster, undone in the end."""

from __future__ import annotations

import errno
from random import Random

import pytest

from highwater.sim.faults.fault import ANY, LEADER, Fault
from highwater.sim.faults.profiles import FAMILIES, PROFILES, draw_schedule
from highwater.sim.health import unhealthy
from highwater.sim.trial import Trial
from tests.scenarios.stage import Stage

SEED = 6


def drawn(profile: str, seed: int) -> list[Fault]:
    return draw_schedule(Random(seed), PROFILES[profile], 6.0)


def test_a_schedule_is_drawn_from_its_seed_alone_and_can_be_read() -> None:
    assert drawn("all", 7) == drawn("all", 7) != drawn("all", 8)
    for fault in drawn("all", 7):
        assert fault.verb in fault.text() and fault.target in fault.text()


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_draws_from_its_own_families_and_from_each_of_them(profile: str) -> None:
    verbs = {fault.verb for seed in range(100) for fault in drawn(profile, seed)} - {"kill"}
    for family, known in FAMILIES.items():
        assert bool(verbs & (known.keys() - {"kill"})) == (family in PROFILES[profile].families), family


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cluster_comes_through_every_fault_of_a_family(family: str) -> None:
    """One after the other, on any node and on leaders: each is known to somebody, and everything is well in the end."""
    faults = [
        Fault(0.4 + 0.3 * at, verb, whom, each.least, (0.37 * at) % 1)
        for at, (verb, each) in enumerate(FAMILIES[family].items())
        for whom in (ANY, LEADER)
    ]
    trial = Trial(SEED, faults[-1].at + 0.5, schedule=faults)
    found = trial()
    assert found is None, found.text()
    assert sum(trial.nemesis.struck.values()) >= len(FAMILIES[family]) / 2


def test_while_a_disk_has_lost_something_no_other_node_crashes() -> None:
    """Or what one member of an ISR kept would not be kept: that is all that is promised."""
    faults = [
        Fault(1.0, "damage bytes of", LEADER, 0.1, 0.1),
        *(Fault(1.05, "kill", ANY, 0.1, draw) for draw in (0.05, 0.4, 0.9)),
    ]
    trial = Trial(SEED, 2.0, schedule=faults)
    assert trial() is None
    assert trial.nemesis.struck["damaged bytes"] == 1
    assert any("is spared" in line for line in trial.nemesis.done)
    assert trial.nemesis.struck["kills"] <= 2


FAILED = OSError(errno.EIO, "as a node does")


@pytest.mark.parametrize(
    ("pattern", "why", "excused"),
    [
        ("/data/__cluster_metadata-0/*", FAILED, True),
        ("/data/__cluster_metadata-0/*", ValueError("a mistake"), False),
        ("/data/[!_]*-0/*", FAILED, False),
    ],
)
def test_a_node_that_gives_up_is_excused_where_its_metadata_could_not_be_kept_and_nowhere_else(
    pattern: str, why: Exception, excused: bool
) -> None:
    trial = Trial(SEED, 1.0, schedule=[])
    member = trial.cluster.members["n1"]

    def give_up() -> None:
        storage = trial.sim.storage("n1")
        storage.fail("append", pattern, errno.EIO)
        for path in [path for path, _ in storage.tree() if path.suffix == ".log"]:
            storage.strike("append", path)
        assert storage.struck and member.node is not None
        member.hosted._end(member.hosted._world, why)

    trial.sim.at(0.6, give_up)
    found = trial()
    assert (found is None) == excused
    assert found is None or "n1 gave up" in found.faults[0]


def test_health_names_what_is_not_well() -> None:
    with Stage(3) as stage:
        stage.create(replicas=(2, 3))
        stage.until(lambda: not unhealthy(stage.cluster, stage.truth))
        stage.log("n3").storage_failed(OSError(errno.EIO, "crafted"))
        stage.until(lambda: len(unhealthy(stage.cluster, stage.truth)) == 3)
        problems = "; ".join(unhealthy(stage.cluster, stage.truth))
        assert "ISR (2,)" in problems and "lost on 3" in problems and "in trouble: [Errno 5] crafted" in problems
        stage.kill("n3")
        assert "n3 does not serve" in unhealthy(stage.cluster, stage.truth)
        stage.start("n3")
        stage.until(lambda: not unhealthy(stage.cluster, stage.truth))
