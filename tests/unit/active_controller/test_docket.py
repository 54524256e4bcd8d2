"""One decision after the other: what takes long gives way to the loop, and to no other decision."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from highwater.active_controller.docket import Case, Docket
from highwater.metadata.pieces import Pieces
from highwater.sim.simulation import Simulation


class Court:
    """A docket in a simulated world, and what happened in it."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.world = sim.world("n1")
        self.docket = Docket(self.world)
        self.heard: list[str] = []

    def case(self, name: str, pieces: int, mistaken: bool = False) -> Case:
        def begin() -> Pieces[None]:
            for number in range(1, pieces + 1):
                self.heard.append(f"{name}{number}")
                if number < pieces:
                    yield
            if mistaken:
                raise ValueError(name)

        return Case(begin, lambda: self.heard.append(f"no {name}"))

    def add(self, name: str, pieces: int = 1, takes_long: bool = False, mistaken: bool = False) -> None:
        self.world.call(self.docket.add, self.case(name, pieces, mistaken), takes_long)

    def turn(self) -> None:
        """Whatever else the node has to do."""
        self.world.call(self.world.clock.call_soon, self.heard.append, "turn")

    def adjourn(self) -> None:
        self.sim.advance(1.0)


@pytest.fixture
def court() -> Iterator[Court]:
    sim = Simulation(1)
    yield Court(sim)
    sim.close()


def test_a_decision_of_one_piece_is_made_at_once(court: Court) -> None:
    court.add("a")
    assert court.heard == ["a1"]
    assert court.docket.is_free


def test_between_two_pieces_the_loop_does_other_things(court: Court) -> None:
    court.add("a", 3)
    court.turn()
    assert court.heard == ["a1"]
    court.adjourn()
    assert court.heard == ["a1", "a2", "turn", "a3"]


def test_nothing_is_decided_amid_another_decision(court: Court) -> None:
    court.add("a", 3, takes_long=True)
    court.add("b")
    court.add("c", 2)
    assert court.heard == ["a1"]
    court.adjourn()
    assert court.heard == ["a1", "a2", "a3", "b1", "c1", "c2"]
    assert court.docket.is_free


def test_a_short_one_waits_for_one_long_decision_at_most(court: Court) -> None:
    for name in "abc":
        court.add(name, 2, takes_long=True)
    court.add("short")
    court.adjourn()
    assert court.heard == ["a1", "a2", "short1", "b1", "b2", "c1", "c2"]


def test_a_new_case_comes_after_the_waiting_ones(court: Court) -> None:
    court.add("a", 2, takes_long=True)
    court.add("b")
    court.sim.loop.run_until(lambda: court.heard[-1] == "a2")
    court.add("c")
    court.adjourn()
    assert court.heard == ["a1", "a2", "b1", "c1"]


def test_all_requests_are_given_up_and_each_is_answered_once(court: Court) -> None:
    court.add("a", 3, takes_long=True)
    court.add("b", 2, takes_long=True)
    court.add("c")
    court.docket.give_up()
    assert court.heard == ["a1", "no a", "no c", "no b"]
    assert court.docket.is_free
    court.add("d", 2)
    court.adjourn()
    assert court.heard[4:] == ["d1", "d2"]


def test_an_exception_is_raised_while_the_caller_waits(court: Court) -> None:
    with pytest.raises(ValueError, match="a"):
        court.add("a", mistaken=True)
    assert court.docket.is_free


def test_a_mistake_in_a_later_piece_ends_that_decision_alone(court: Court) -> None:
    court.add("a", 2, mistaken=True)
    court.add("b")
    court.add("c", mistaken=True)
    court.add("d")
    court.sim.loop.run_until(lambda: court.heard[-1] == "d1")
    assert court.heard == ["a1", "a2", "no a", "b1", "c1", "no c", "d1"]
    assert [str(error) for _, _, error in court.sim.failures] == ["a", "c"]


def test_a_decision_amid_which_all_are_given_up_does_not_end_the_next_one(court: Court) -> None:
    """As when a controller resigns amid a decision, and is asked again before that decision has returned."""

    def begin() -> Pieces[None]:
        court.docket.give_up()
        court.docket.add(court.case("b", 2))
        yield from ()

    court.world.call(court.docket.add, Case(begin, lambda: court.heard.append("no a")))
    court.add("c")
    court.adjourn()
    assert court.heard == ["no a", "b1", "b2", "c1"]
    assert court.docket.is_free
