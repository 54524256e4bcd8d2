"""A world in which code takes time: what it shows to the code, and what comes between two pieces of work."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.net.turns import SLICE_SECONDS, Errand, Share, Turns, Work
from highwater.sim.knobs import SLICE, Knobs
from highwater.sim.simulation import Simulation

SLOW = Knobs(slow_code=1.0)


def test_by_default_code_takes_no_time() -> None:
    with Simulation(1) as sim:
        clock = sim.world("a").clock
        seen: list[float] = []
        clock.call_soon(lambda: seen.extend((clock.monotonic(), clock.monotonic())))
        sim.advance(1)
        assert seen[0] == seen[1]


def test_a_look_at_the_clock_shows_that_code_took_a_slice_and_all_that_follows_comes_later() -> None:
    with Simulation(1, SLOW) as sim:
        world, other = sim.world("a"), sim.world("b")
        clock, events = world.clock, list[tuple[str, float]]()

        def note(what: str) -> None:
            events.append((what, sim.now))

        def work() -> None:
            begun, wall = clock.monotonic(), clock.wall_ms()
            assert SLICE[0] <= clock.monotonic() - begun <= SLICE[1] + 1e-9
            assert clock.wall_ms() - wall in range(3, 6)
            clock.call_soon(note, "soon")
            clock.call_later(1.0, note, "later")
            note("work")

        clock.call_soon(work)
        clock.call_soon(note, "queued before")
        other.clock.call_later(0.001, note, "another node")
        clock.call_later(0.002, note, "a timer")
        sim.advance(2)
        assert [what for what, _ in events] == ["work", "another node", "queued before", "a timer", "soon", "later"]
        times = dict(events)
        assert (times["work"], times["another node"]) == (0.0, 0.001)
        assert 2 * SLICE[0] <= times["queued before"] == times["a timer"] == times["soon"] <= 2 * SLICE[1]
        assert abs(times["later"] - times["soon"] - 1.0) < 1e-9


def test_a_pause_and_a_crash_of_a_node_whose_code_is_running_hold() -> None:
    with Simulation(1, SLOW) as sim:
        ran: list[str] = []
        for name in ("paused", "dead"):
            clock = sim.world(name).clock
            clock.call_soon(clock.monotonic)  # type: ignore[arg-type]
            clock.call_soon(ran.append, name)
        sim.advance(SLICE[0] / 2)
        sim.pause("paused")
        sim.crash("dead", power_loss=False)
        sim.advance(1)
        assert ran == []
        sim.resume("paused")
        sim.advance(1)
        assert ran == ["paused"]


def test_work_by_turns_is_interrupted_after_every_piece() -> None:
    """And what came meanwhile goes first."""
    with Simulation(1, SLOW) as sim:
        clock = sim.world("a").clock
        turns, events = Turns(clock), list[str]()

        def pieces() -> Iterator[None]:
            for number in range(3):
                events.append(f"piece {number}")
                clock.call_later(SLICE_SECONDS / 2, events.append, f"after {number}")
                yield None

        def begin() -> None:
            work: Work = (piece for piece in pieces())
            Errand(turns, Share(), work, lambda: True, lambda: events.append("done"), lambda failed: None).begin()

        clock.call_soon(begin)
        sim.advance(1)
        assert events == ["piece 0", "after 0", "piece 1", "after 1", "piece 2", "after 2", "done"]
