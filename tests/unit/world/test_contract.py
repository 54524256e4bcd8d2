"""The simulated and the real world keep the same contract."""

from __future__ import annotations

import asyncio
from pathlib import Path, PurePath

import pytest

from highwater.sim import Simulation
from highwater.world import World
from highwater.world.real import RealWorld, new_event_loop
from tests.unit.world.contract import SCENARIOS, Scenario

SEEDS = 5
REAL_SECONDS = 120

each_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)


@each_scenario
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_simulated_world_keeps_it(scenario: Scenario, seed: int) -> None:
    with Simulation(seed) as sim:
        world = sim.world("node")
        root = PurePath("/data")
        sim.storage("node").provide(root)
        # Run from outside, so that a crash of the node leaves the scenario alive to look at it.
        sim.run(scenario(world, root))
        assert sim.failures == []


@each_scenario
def test_the_real_world_keeps_it(scenario: Scenario, tmp_path: Path) -> None:
    loop = new_event_loop()
    failures: list[tuple[str, BaseException]] = []
    world = RealWorld(loop, lambda name, error: failures.append((name, error)))
    try:
        loop.run_until_complete(asyncio.wait_for(scenario(world, PurePath(tmp_path)), REAL_SECONDS))
    finally:
        # The other end of a connection may not have heard of its end yet. uvloop warns of a transport that is open when
        # the loop is closed, and where warnings are errors it then waits for that for ever.
        world.crash()
        world.close()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    assert failures == []


def test_the_simulated_world_is_a_world() -> None:
    with Simulation(1) as sim:
        world: World = sim.world("node")
        assert world.clock.monotonic() >= 0
