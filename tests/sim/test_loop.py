"""The seeded loop: virtual time, order within a node, interleaving between nodes, and all of asyncio on top."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Iterator

import pytest

from highwater.sim import Deadlock, Livelock, NodeFailed, Simulation, TimeLimit
from highwater.sim import loop as loop_module


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(1) as simulation:
        yield simulation


def test_an_hour_of_sleep_is_not_waited_for(sim: Simulation) -> None:
    begun = time.perf_counter()
    sim.run(asyncio.sleep(3600), limit=4000)
    assert sim.now == 3600
    assert time.perf_counter() - begun < 100


def test_timers_fire_by_time_and_equal_ones_in_order(sim: Simulation) -> None:
    fired: list[tuple[float, str]] = []
    for when, name in [(2, "c"), (1, "a"), (1, "b"), (3, "e"), (2, "d")]:
        sim.at(when, lambda name=name: fired.append((sim.now, name)))
    sim.advance(3)
    assert fired == [(1, "a"), (1, "b"), (2, "c"), (2, "d"), (3, "e")]


def test_a_cancelled_timer_and_callback_never_run(sim: Simulation) -> None:
    fired: list[str] = []
    sim.loop.call_later(1, fired.append, "timer").cancel()
    sim.loop.call_soon(fired.append, "callback").cancel()
    sim.advance(2)
    assert fired == []


def test_timeouts_events_groups_and_queues_of_asyncio_work(sim: Simulation) -> None:
    async def scenario() -> list[str]:
        seen: list[str] = []
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(10)
        assert sim.now == 5
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 2)
        assert sim.now == 7
        queue: asyncio.Queue[str] = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            group.create_task(queue.put("queued"), name="named")
            seen.append(await queue.get())
        assert list(await asyncio.gather(asyncio.sleep(1, "a"), asyncio.sleep(2, "b"))) == ["a", "b"]
        assert sim.now == 9
        with pytest.raises(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(100))
                group.create_task(_fail())
        assert sim.now == 9
        lock = asyncio.Lock()
        async with lock:
            seen.append("locked")
        task = asyncio.create_task(asyncio.sleep(50))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return seen

    assert sim.run(scenario()) == ["queued", "locked"]


async def _fail() -> None:
    raise ValueError("failed")


def test_context_variables_are_kept(sim: Simulation) -> None:
    var: contextvars.ContextVar[str] = contextvars.ContextVar("var", default="outside")
    seen: list[str] = []

    async def scenario() -> None:
        var.set("inside")
        sim.loop.call_soon(lambda: seen.append(var.get()))
        await asyncio.create_task(_append(seen, var))

    sim.run(scenario())
    assert seen == ["inside", "inside"]
    assert var.get() == "outside"


async def _append(seen: list[str], var: contextvars.ContextVar[str]) -> None:
    seen.append(var.get())


def orders(seed: int) -> str:
    """The order in which the callbacks of three nodes run that are all due at once."""
    with Simulation(seed) as sim:
        ran: list[str] = []
        for node in "abc":
            world = sim.world(node)
            for number in range(5):
                world.clock.call_soon(ran.append, f"{node}{number}")
        sim.advance(1)
    return " ".join(ran)


def test_nodes_interleave_by_the_seed_and_each_keeps_its_own_order() -> None:
    seen = {orders(seed) for seed in range(20)}
    assert len(seen) > 15
    for order in seen:
        for node in "abc":
            own = [entry for entry in order.split() if entry.startswith(node)]
            assert own == [f"{node}{number}" for number in range(5)]
    assert orders(7) == orders(7)


def test_waiting_for_what_never_comes_is_a_deadlock(sim: Simulation) -> None:
    with pytest.raises(Deadlock):
        sim.run(asyncio.Event().wait())


def test_turning_on_the_spot_is_a_livelock(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "TURNS_PER_INSTANT", 1000)

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Livelock):
        sim.run(spin())


def test_a_run_that_takes_too_long_ends_at_its_limit(sim: Simulation) -> None:
    with pytest.raises(TimeLimit):
        sim.run(asyncio.sleep(100), limit=10)
    assert sim.now == 10


def test_waiting_for_a_condition_ends_when_it_holds_or_the_limit_is_reached(sim: Simulation) -> None:
    done: list[int] = []
    sim.at(1.5, done.append, 1)

    async def scenario() -> None:
        await sim.until(lambda: bool(done))
        assert 1.5 <= sim.now < 1.51
        with pytest.raises(TimeLimit):
            await sim.until(lambda: False, limit=1)

    sim.run(scenario(), until=lambda: sim.now >= 2.5)


def test_an_error_that_is_not_caught_fails_the_run(sim: Simulation) -> None:
    world = sim.world("a")
    world.clock.call_later(1, _raise)
    with pytest.raises(NodeFailed, match="a: .*KeyError"):
        sim.advance(2)


def _raise() -> None:
    raise KeyError("nobody catches this")


def test_real_threads_and_sockets_are_out_of_reach(sim: Simulation) -> None:
    with pytest.raises(NotImplementedError):
        sim.loop.run_in_executor(None, print)
    with pytest.raises(NotImplementedError):
        sim.run(sim.loop.create_server(asyncio.Protocol, "127.0.0.1", 0))


def test_a_paused_node_is_held_and_resumes_where_it_was(sim: Simulation) -> None:
    ran: list[tuple[str, float]] = []

    async def beat(name: str) -> None:
        while True:
            ran.append((name, sim.now))
            await asyncio.sleep(1)

    sim.world("a").spawn("beat", beat("a"))
    sim.world("b").spawn("beat", beat("b"))
    sim.at(2.5, sim.pause, "a")
    sim.at(7.25, sim.resume, "a")
    sim.advance(9)
    assert [at for name, at in ran if name == "a"] == [0, 1, 2, 7.25, 8.25]
    assert [at for name, at in ran if name == "b"] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_the_loop_is_fast_enough_to_explore_with(sim: Simulation) -> None:
    left = 50_000

    def tick() -> None:
        nonlocal left
        left -= 1
        if left > 0:
            sim.loop.call_soon(tick)

    for name in "abc":
        sim.world(name).clock.call_soon(tick)
    begun = time.thread_time()
    sim.loop.run_until(lambda: left <= 0)
    assert 50_000 / (time.thread_time() - begun) > 50_000
