"""Jobs in the simulated world: one step per event, crash points between, and the border to another process."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import PurePath

import pytest

from highwater.sim import Simulation, matching
from highwater.sim.disk import Blocking
from highwater.world import Dead, Disk, Step
from highwater.world.jobs import finished
from tests.unit.world.contract import counting, not_picklable

DATA = PurePath("/data")


def writing(disk: Disk, name: str, steps: int) -> Generator[Step, None, int]:
    file = disk.open(DATA / name, create=True)
    for _ in range(steps):
        file.append(b"x")
        yield Step(file.size)
    file.sync()
    return file.size


def test_two_jobs_interleave_as_the_seed_has_it() -> None:
    def order(seed: int) -> str:
        with Simulation(seed) as sim:
            world = sim.world("a")
            sim.storage("a").provide(DATA)
            seen: list[str] = []
            for name in "ab":
                world.run(writing, name, 5, done=lambda _: None, step=lambda _, name=name: seen.append(name))  # type: ignore[misc]
            sim.advance(1)
            return "".join(seen)

    seen = {order(seed) for seed in range(20)}
    assert len(seen) > 10
    assert all(sorted(order) == list("aaaaabbbbb") for order in seen)


def test_a_crash_falls_between_any_two_steps() -> None:
    for steps_done in range(6):
        with Simulation(3) as sim:
            world = sim.world("a")
            sim.storage("a").provide(DATA)
            sim.crash_at("a", matching("step", "writing"), nth=steps_done + 1, power_loss=False)
            done: list[object] = []
            world.run(writing, "log", 5, done=done.append)
            sim.advance(1)
            assert done == []
            stat = sim.restart("a").disk.stat(DATA / "log")
            assert (stat.size if stat else 0) == steps_done


def test_a_pause_between_steps_is_kept() -> None:
    def pausing(disk: Disk) -> Generator[Step, None, str]:
        yield Step(takes=30.0)
        return "done"

    with Simulation(1) as sim:
        assert sim.run(finished(sim.world("a"), pausing)) == "done"
        assert 30 < sim.now < 31


def test_a_paused_node_takes_no_step() -> None:
    with Simulation(1) as sim:
        world = sim.world("a")
        sim.storage("a").provide(DATA)
        done: list[object] = []
        world.run(writing, "log", 50, done=done.append)
        sim.at(0.01, sim.pause, "a")
        sim.advance(0.011)
        before = sum(len(node.data) for _, node in sim.storage("a").tree())
        sim.advance(10)
        assert sum(len(node.data) for _, node in sim.storage("a").tree()) == before
        sim.resume("a")
        sim.advance(1)
        assert done == [50]


def test_a_process_job_gets_and_gives_copies_and_no_more_than_can_be_pickled() -> None:
    with Simulation(1) as sim:
        world = sim.world("a")
        assert sim.run(finished(world, counting, 2, where="process")) == 2
        with pytest.raises((AttributeError, TypeError)):
            world.run(lambda disk: counting(disk, 1), done=lambda _: None, where="process")
        with pytest.raises((AttributeError, TypeError)):
            sim.run(finished(world, not_picklable, where="process"))
        assert callable(sim.run(finished(world, not_picklable)))


def test_blocking_on_the_loop_is_an_error_and_in_a_job_it_is_not() -> None:
    with Simulation(1) as sim:
        world = sim.world("a")
        sim.storage("a").provide(DATA)
        file = world.disk.open(DATA / "log", create=True)

        def on_the_loop() -> None:
            for operation in (lambda: file.read(0, 1), file.sync, lambda: world.disk.sync_dir(DATA)):
                with pytest.raises(Blocking):
                    operation()

        world.call(on_the_loop)
        assert sim.run(finished(world, writing, "other", 1)) == 1


def test_a_cancelled_job_is_closed_at_its_next_step_and_may_clean_up() -> None:
    closed: list[bool] = []

    def endless(disk: Disk) -> Generator[Step, None, None]:
        file = disk.open(DATA / "temporary", create=True)
        try:
            while True:
                yield Step()
        finally:
            file.sync()
            disk.unlink(DATA / "temporary")
            closed.append(True)

    with Simulation(1) as sim:
        world = sim.world("a")
        sim.storage("a").provide(DATA)
        done: list[object] = []
        job = world.run(endless, done=done.append)
        sim.advance(0.1)
        job.cancel()
        assert closed == []
        sim.advance(0.1)
        assert (closed, done, world.disk.list(DATA)) == ([True], [], [])


def test_a_job_of_a_dead_node_does_not_begin() -> None:
    with Simulation(1) as sim:
        world = sim.world("a")
        sim.crash("a")
        with pytest.raises(Dead):
            world.run(writing, "log", 1, done=lambda _: None)
