"""The deadline queue and the loop-lag sampler, on virtual time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.net.deadlines import TICK, DeadlineQueue
from highwater.net.stats import LoopLag
from highwater.sim import Simulation


class Noted(Exception):
    pass


def test_deadlines_fire_in_order_never_early_and_at_most_a_tick_late() -> None:
    with Simulation(1) as sim:
        clock = sim.world("node").clock
        queue = DeadlineQueue(clock)
        start = clock.monotonic()
        fired: list[tuple[float, float]] = []
        for due in (0.3, 0.1, 0.2, 0.0, 5.0):
            queue.add(due, lambda due=due: fired.append((due, clock.monotonic() - start)))
        sim.advance(6.0)
        assert [due for due, _ in fired] == [0.0, 0.1, 0.2, 0.3, 5.0]
        assert all(due <= at + 1e-6 and at <= due + TICK + 0.01 for due, at in fired)
        assert len(queue) == 0


def test_equal_deadlines_fire_in_the_order_they_were_added() -> None:
    with Simulation(1) as sim:
        clock = sim.world("node").clock
        queue = DeadlineQueue(clock)
        at = clock.monotonic() + 1
        fired: list[int] = []
        for n in range(20):
            queue.add_at(at, fired.append, n)
        sim.advance(2)
        assert fired == list(range(20))


def test_a_cancelled_deadline_does_not_fire_and_frees_what_it_held() -> None:
    with Simulation(1) as sim:
        queue = DeadlineQueue(sim.world("node").clock)
        fired: list[int] = []
        kept = queue.add(1, fired.append, 0)
        for n in range(1, 10_000):
            queue.add(1000 + n, fired.append, n).cancel()
        assert len(queue) == 1
        assert len(queue._heap) < 200
        sim.advance(2)
        assert fired == [0]
        assert not kept.pending
        kept.cancel()
        kept.cancel()
        assert len(queue) == 0


def test_an_empty_queue_sets_no_timer() -> None:
    with Simulation(1) as sim:
        queue = DeadlineQueue(sim.world("node").clock)
        assert queue._timer is None
        queue.add(100, lambda: None).cancel()
        sim.advance(1)
        assert queue._timer is None
        fired: list[int] = []
        queue.add(0.01, fired.append, 1)
        sim.advance(1)
        assert fired == [1]


def test_a_deadline_may_add_and_cancel_others() -> None:
    with Simulation(1) as sim:
        queue = DeadlineQueue(sim.world("node").clock)
        fired: list[str] = []
        victim = queue.add(0.2, fired.append, "victim")

        def first() -> None:
            fired.append("first")
            victim.cancel()
            queue.add(0.1, fired.append, "second")

        queue.add(0.2, first)
        queue.add(0.1, victim.cancel)
        sim.advance(1)
        assert fired == ["first", "second"]


def test_a_deadline_that_raises_does_not_stop_the_others() -> None:
    def fail() -> None:
        raise Noted

    with Simulation(1) as sim:
        queue = DeadlineQueue(sim.world("node").clock)
        fired: list[int] = []
        queue.add(0.1, fail)
        queue.add(0.1, fired.append, 1)
        with pytest.raises(AssertionError, match="Noted"):
            sim.advance(1)
        assert fired == [1]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.floats(0, 3), st.booleans()), max_size=200))
def test_exactly_those_not_cancelled_fire(entries: list[tuple[float, bool]]) -> None:
    with Simulation(1) as sim:
        queue = DeadlineQueue(sim.world("node").clock)
        fired: list[int] = []
        handles = [queue.add(due, fired.append, n) for n, (due, _) in enumerate(entries)]
        for handle, (_, cancelled) in zip(handles, entries, strict=True):
            if cancelled:
                handle.cancel()
        assert len(queue) == sum(not cancelled for _, cancelled in entries)
        sim.advance(4)
        assert sorted(fired) == [n for n, (_, cancelled) in enumerate(entries) if not cancelled]
        assert len(queue) == 0


def test_loop_lag_is_how_long_the_loop_stood_still() -> None:
    with Simulation(1) as sim:
        world = sim.world("node")
        lag = LoopLag(world.clock)
        lag.start()
        sim.advance(1.05)
        assert sum(lag.counts) == lag.counts[0] == 10
        sim.pause("node")
        sim.advance(0.3)
        sim.resume("node")
        sim.advance(0.1)
        assert 0.2 < lag.max < 0.35
        assert lag.counts[LoopLag.BOUNDS.index(0.5)] == 1
        lag.stop()
        samples = sum(lag.counts)
        sim.advance(1)
        assert sum(lag.counts) == samples
