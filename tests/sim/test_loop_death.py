"""A crashed node: nothing of it runs again, every handle of it is dead, and nobody hears a warning of it."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager
from pathlib import PurePath

import pytest

from highwater.model import Endpoint
from highwater.sim import NodeFailed, Simulation, matching
from highwater.world import Dead, Disk, Step
from tests.unit.world.contract_ends import End

DATA = PurePath("/data")


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()  # so that what earlier tests left is not reported here
    with Simulation(1) as simulation:
        yield simulation
    gc.collect()


def test_every_handle_of_a_crashed_node_is_dead(sim: Simulation) -> None:
    world = sim.world("a")
    sim.storage("a").provide(DATA)
    end = End()
    file = world.disk.open(DATA / "log", create=True)
    timer = world.clock.call_later(1, lambda: None)

    async def scenario() -> None:
        listener = await world.net.listen(End, Endpoint("a", 1))
        transport = await world.net.dial(lambda: end, Endpoint("a", 1))
        release = world.disk.lock(DATA / ".lock")
        job = world.run(_endless, done=lambda _: None)
        sim.crash("a", power_loss=False)
        uses: list[Callable[[], object]] = [
            world.clock.monotonic,
            world.clock.wall_ms,
            lambda: world.clock.call_later(1, print),
            lambda: world.clock.call_soon(print),
            timer.cancel,
            lambda: world.random("x"),
            lambda: world.run(_endless, done=lambda _: None),
            lambda: world.disk.open(DATA / "log"),
            lambda: world.disk.stat(DATA),
            lambda: world.disk.list(DATA),
            lambda: world.disk.mkdir(DATA / "x"),
            lambda: world.disk.rename(DATA / "log", DATA / "x"),
            lambda: world.disk.unlink(DATA / "log"),
            lambda: world.disk.rmdir(DATA),
            lambda: world.disk.sync_dir(DATA),
            lambda: world.disk.lock(DATA / ".lock"),
            lambda: world.disk.flush([file], print),
            lambda: file.append(b"x"),
            lambda: file.read(0, 1),
            lambda: file.read_cached(0, 1),
            file.sync,
            lambda: file.truncate(0),
            file.close,
            release,
            job.cancel,
            listener.close,
            lambda: transport.write(b"x"),
            lambda: transport.writelines([b"x"]),
            transport.write_eof,
            transport.close,
            transport.abort,
            transport.is_closing,
            transport.pause_reading,
            transport.resume_reading,
            transport.get_write_buffer_size,
            lambda: transport.get_extra_info("peername"),
        ]
        for use in uses:
            with pytest.raises(Dead):
                use()
        for coroutine in (world.net.dial(End, Endpoint("a", 1)), world.net.listen(End, Endpoint("a", 2))):
            with pytest.raises(Dead):
                await coroutine
        with pytest.raises(Dead):
            world.spawn("late", asyncio.sleep(1))

    sim.run(scenario())


def _endless(disk: Disk) -> Generator[Step, None, None]:
    try:
        while True:
            yield Step()
    finally:
        disk.unlink(DATA / "log")


def test_no_code_of_a_crashed_node_runs_again(sim: Simulation) -> None:
    world = sim.world("a")
    sim.storage("a").provide(DATA)
    world.disk.open(DATA / "log", create=True)
    ran: list[str] = []
    cleaned: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(10)
            ran.append("after sleep")
        finally:
            cleaned.append("finally")
            world.disk.unlink(DATA / "log")

    for name in ("one", "two"):
        world.spawn(name, work())
    world.clock.call_later(6, ran.append, "timer")
    world.run(_endless, done=lambda _: ran.append("job"))
    sim.at(5, sim.crash, "a", False)
    sim.advance(20)
    assert (ran, cleaned) == ([], [])
    assert sim.restart("a").disk.list(DATA) == ["log"]


def test_an_event_for_a_task_of_a_dead_node_wakes_no_task(sim: Simulation) -> None:
    world = sim.world("a")
    ran: list[str] = []

    async def wait(event: asyncio.Event) -> None:
        await event.wait()
        ran.append("woken")

    event = asyncio.Event()
    world.spawn("waiter", wait(event))
    world.clock.call_later(3, ran.append, "timer behind one of the living")
    sim.at(1, sim.crash, "a")
    sim.at(2, event.set)
    sim.at(3, lambda: None)
    sim.advance(4)
    assert ran == []


def test_dead_tasks_are_closed_without_a_warning(sim: Simulation) -> None:
    world = sim.world("a")

    @asynccontextmanager
    async def resource() -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.sleep(1)

    async def in_a_group() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(100))
            group.create_task(awaits_in_finally())

    async def awaits_in_finally() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await sim.loop.create_future()
            finally:
                await sim.loop.create_future()

    async def holds_a_resource() -> None:
        async with resource(), asyncio.timeout(50):
            await asyncio.get_running_loop().create_future()

    async def fails_and_nobody_asks() -> None:
        kept.append(asyncio.get_running_loop().create_future())
        kept[0].set_exception(ValueError("never retrieved"))
        await asyncio.sleep(100)

    kept: list[asyncio.Future[None]] = []
    for body in (in_a_group, awaits_in_finally, holds_a_resource, fails_and_nobody_asks):
        world.spawn(body.__name__, body())
    sim.advance(1)
    world.spawn("never begun", asyncio.sleep(1))
    sim.crash("a")
    kept.clear()
    sim.advance(100)
    sim.close()
    gc.collect()
    assert sim.failures == []


def test_a_crash_in_the_midst_of_the_nodes_own_code_unwinds_it(sim: Simulation) -> None:
    world = sim.world("a")
    sim.storage("a").provide(DATA)
    reached: list[str] = []

    async def work() -> None:
        file = world.disk.open(DATA / "log", create=True)
        for number in range(5):
            file.append(b"x")
            reached.append(str(number))

    point = sim.crash_at("a", matching("append", "*/log"), nth=3, phase="after", power_loss=False)
    world.spawn("work", work())
    sim.advance(1)
    assert reached == ["0", "1"]
    assert point.hit is not None and point.hit.subject == "/data/log"
    assert not sim.is_alive("a")
    assert sim.restart("a").disk.open(DATA / "log").size == 3


@pytest.mark.parametrize(("phase", "size"), [("before", 0), ("during", range(1, 100)), ("after", 100)])
def test_an_append_can_be_interrupted_before_during_and_after(phase: str, size: int | range) -> None:
    sizes = set()
    for seed in range(20):
        with Simulation(seed) as sim:
            world = sim.world("a")
            sim.storage("a").provide(DATA)
            sim.crash_at("a", matching("append"), phase=phase, power_loss=False)  # type: ignore[arg-type]
            with pytest.raises(Dead):
                world.disk.open(DATA / "log", create=True).append(b"x" * 100)
            sizes.add(sim.restart("a").disk.open(DATA / "log").size)
    if isinstance(size, range):
        assert len(sizes) > 10 and sizes & set(size)
    else:
        assert sizes == {size}


def test_waiting_for_a_node_that_crashes_ends_in_dead(sim: Simulation) -> None:
    world = sim.world("a")

    async def scenario() -> None:
        sim.at(1, sim.crash, "a")
        with pytest.raises(Dead):
            await world.perform(asyncio.sleep(10))
        with pytest.raises(Dead):
            await world.perform(asyncio.sleep(10))

    sim.run(scenario())
    assert sim.now == 1


def test_the_error_of_a_task_goes_to_the_failure_handler(sim: Simulation) -> None:
    noted: list[tuple[str, str]] = []
    sim.world("a", on_failure=lambda name, error: noted.append((name, repr(error)))).spawn("boom", _boom())
    sim.advance(1)
    assert noted == [("boom", "ValueError('boom')")]


def test_without_a_failure_handler_the_run_fails(sim: Simulation) -> None:
    sim.world("a").spawn("boom", _boom())
    with pytest.raises(NodeFailed, match="a: boom: ValueError"):
        sim.advance(1)


async def _boom() -> None:
    raise ValueError("boom")


def test_a_cancelled_task_is_no_failure(sim: Simulation) -> None:
    task = sim.world("a").spawn("sleeper", asyncio.sleep(10))
    sim.at(1, task.cancel)
    sim.advance(2)
    assert task.cancelled() and sim.failures == []


def test_random_streams_do_not_shift_each_other_and_differ_by_life(sim: Simulation) -> None:
    def draws(world_seed: int, spoil: bool) -> list[float]:
        with Simulation(world_seed) as one:
            world = one.world("a")
            if spoil:
                world.random("other").random()
            return [world.random("mine").random() for _ in range(3)]

    assert draws(1, spoil=False) == draws(1, spoil=True) != draws(2, spoil=False)
    first = sim.world("a").random("id").random()
    assert first != sim.restart("a").random("id").random()
    assert first != sim.world("b").random("id").random()


def test_wall_clocks_jump_and_drift_per_node_and_monotonic_ones_do_not(sim: Simulation) -> None:
    a, b = sim.world("a"), sim.world("b")
    begun = a.clock.monotonic()
    assert a.clock.wall_ms() == b.clock.wall_ms()
    sim.jump_clock("a", -3600)
    sim.drift_clock("b", 2.0)
    sim.advance(10)
    assert b.clock.wall_ms() - a.clock.wall_ms() == 3_600_000 + 10_000
    assert a.clock.monotonic() - begun == pytest.approx(10)
    assert sim.restart("a").clock.wall_ms() == b.clock.wall_ms() - 3_610_000, "the machine keeps its error"
    assert b.clock.monotonic() != begun + 10, "readings of two machines cannot be compared"
