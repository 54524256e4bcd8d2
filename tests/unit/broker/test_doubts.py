"""How long a request for a leader that may be dead is kept waiting."""

from __future__ import annotations

import pytest

from highwater.broker.doubts import ACQUAINTED_SECONDS, DOUBT_SECONDS, HINT_SECONDS, PATIENCE_SECONDS, Doubts
from highwater.model import NodeId
from highwater.sim import Simulation

OTHER, DEAD = NodeId(2), NodeId(3)
STEP = 0.001


class Scene:
    """A broker whose virtual clock is moved; `answered` has the time of each answer, from the beginning."""

    def __init__(self, seed: int = 1) -> None:
        self.sim = Simulation(seed)
        self.world = self.sim.world("broker")
        self.doubts = Doubts(self.world.clock)
        self.leader = DEAD
        self.begun = self.world.clock.monotonic()
        self.answered: list[float] = []

    @property
    def now(self) -> float:
        return self.world.clock.monotonic() - self.begun

    def ask(self, connected_for: float = 0.0) -> None:
        connected_at = self.world.clock.monotonic() - connected_for
        self.world.call(self.doubts.ask, lambda: {self.leader}, connected_at, lambda: self.answered.append(self.now))

    def cast(self) -> None:
        self.world.call(self.doubts.cast, DEAD)

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        self.world.clock.call_later(seconds, lambda: None)
        self.sim.run(self.sim.until(lambda: self.now >= end, limit=10 * seconds))


def test_a_new_client_is_answered_at_once() -> None:
    scene = Scene()
    with scene.sim:
        scene.ask()
        assert scene.answered == [0.0]


def test_a_repeated_request_waits_for_hints_that_are_on_their_way() -> None:
    scene = Scene()
    with scene.sim:
        scene.ask(connected_for=2 * ACQUAINTED_SECONDS)
        assert scene.answered == []
        scene.pass_time(HINT_SECONDS / 2)
        scene.cast()
        scene.pass_time(HINT_SECONDS)
        assert scene.answered == [], "the leader's connection to us broke meanwhile"
        scene.leader = OTHER
        scene.doubts.settle()
        assert len(scene.answered) == 1 and scene.answered[0] < 3 * HINT_SECONDS


def test_a_doubt_that_nothing_comes_of_passes() -> None:
    scene = Scene()
    with scene.sim:
        scene.cast()
        scene.ask()
        scene.pass_time(DOUBT_SECONDS / 2)
        assert scene.answered == []
        scene.pass_time(DOUBT_SECONDS)
        assert len(scene.answered) == 1
        assert DOUBT_SECONDS - STEP < scene.answered[0] < DOUBT_SECONDS + 10 * STEP


@pytest.mark.parametrize("seed", range(5))
def test_a_doubt_passes_though_its_timer_and_the_clock_differ_by_a_rounding(seed: int) -> None:
    """A timer may go off a hair before the moment that the clock would name. The seed sets the clock."""
    scene = Scene(seed)
    with scene.sim:
        for number in range(1, 21):
            scene.pass_time(0.0137 * number)
            scene.cast()
            scene.pass_time(DOUBT_SECONDS + STEP)
            scene.ask()
            assert len(scene.answered) == number


def test_a_request_about_a_leader_known_to_be_alive_is_answered_at_once() -> None:
    scene = Scene()
    with scene.sim:
        scene.cast()
        scene.ask()
        scene.doubts.clear(DEAD)
        scene.doubts.settle()
        assert scene.answered == [0.0]


def test_a_request_waits_at_most_a_second_for_an_unfenced_leader_that_refuses() -> None:
    scene = Scene()
    with scene.sim:
        scene.cast()
        scene.ask()
        while scene.now < 2 * PATIENCE_SECONDS:
            scene.cast()
            scene.pass_time(DOUBT_SECONDS / 2)
        assert len(scene.answered) == 1
        assert PATIENCE_SECONDS - STEP < scene.answered[0] < PATIENCE_SECONDS + DOUBT_SECONDS


def test_a_broker_that_was_heard_of_again_is_doubted_anew() -> None:
    """However long the hints before that went on: they were about another death."""
    scene = Scene()
    with scene.sim:
        while scene.now < PATIENCE_SECONDS + DOUBT_SECONDS:
            scene.cast()
            scene.pass_time(DOUBT_SECONDS / 2)
        scene.cast()
        scene.ask()
        assert len(scene.answered) == 1, "it is not fenced: hints bring nothing new"
        scene.doubts.clear(DEAD)
        scene.cast()
        scene.ask()
        assert len(scene.answered) == 1
