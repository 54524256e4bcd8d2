from __future__ import annotations

from highwater.controller.suspicion import AT_ONCE, FENCINGS_WITHIN, Suspicion, was_stalled
from highwater.model import NodeId

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def dies(suspicion: Suspicion, broker: NodeId, epoch: int, now: float, unfenced: int = 3) -> bool:
    return suspicion.hint(broker, epoch, now) and suspicion.proven(broker, epoch, now + 0.006, unfenced)


def test_a_hint_asks_for_a_probe_and_the_proof_fences() -> None:
    suspicion = Suspicion()
    assert suspicion.hint(ONE, 7, 10.0)
    assert suspicion.proven(ONE, 7, 10.006, unfenced=3)


def test_a_new_controller_needs_no_hint() -> None:
    assert Suspicion().proven(ONE, 7, 10.0, unfenced=3)


def test_after_three_fencings_in_a_minute_that_it_survived_only_the_timer_counts() -> None:
    suspicion = Suspicion()
    for now in (0.0, 10.0, 20.0):
        assert dies(suspicion, ONE, 7, now)
        suspicion.heard(ONE, 7)
    assert not suspicion.hint(ONE, 7, 30.0)
    assert not suspicion.proven(ONE, 7, 30.0, unfenced=3)
    assert dies(suspicion, TWO, 8, 40.0)
    # The first of the three is forgotten a minute after it.
    assert not suspicion.hint(ONE, 7, FENCINGS_WITHIN)
    assert dies(suspicion, ONE, 7, FENCINGS_WITHIN + 0.01)
    assert not suspicion.hint(ONE, 7, FENCINGS_WITHIN + 0.02)


def test_an_incarnation_that_came_after_a_real_death_is_not_damped_by_it() -> None:
    suspicion = Suspicion()
    for life in range(10):
        assert dies(suspicion, ONE, 100 + life, 2.0 * life)


def test_if_half_the_brokers_vanish_at_once_the_controller_suspects_itself() -> None:
    suspicion = Suspicion()
    assert suspicion.hint(ONE, 7, 0.0)
    assert suspicion.hint(TWO, 8, 0.0)
    assert not suspicion.proven(ONE, 7, 0.006, unfenced=3)
    assert not suspicion.proven(TWO, 8, 0.006, unfenced=3)


def test_two_of_five_that_vanish_at_once_are_fenced() -> None:
    suspicion = Suspicion()
    assert suspicion.hint(ONE, 7, 0.0)
    assert suspicion.hint(TWO, 8, 0.0)
    assert suspicion.proven(ONE, 7, 0.006, unfenced=5)
    assert suspicion.proven(TWO, 8, 0.006, unfenced=5)


def test_two_deaths_one_after_the_other_are_two_deaths() -> None:
    suspicion = Suspicion()
    assert dies(suspicion, ONE, 7, 0.0)
    assert dies(suspicion, TWO, 8, 2 * AT_ONCE, unfenced=2)


def test_one_of_two_brokers_or_the_only_one_may_die() -> None:
    assert dies(Suspicion(), ONE, 7, 0.0, unfenced=2)
    assert dies(Suspicion(), ONE, 7, 0.0, unfenced=1)


def test_a_broker_that_was_heard_again_has_not_vanished() -> None:
    suspicion = Suspicion()
    suspicion.hint(ONE, 7, 0.0)
    suspicion.hint(TWO, 8, 0.0)
    suspicion.heard(TWO, 8)
    assert suspicion.proven(ONE, 7, 0.006, unfenced=3)


def test_a_new_controller_that_finds_half_the_brokers_gone_suspects_itself_at_the_second() -> None:
    suspicion = Suspicion()
    assert suspicion.proven(ONE, 7, 0.0, unfenced=4)
    assert not suspicion.proven(TWO, 8, 0.0, unfenced=3)
    assert not suspicion.proven(THREE, 9, 0.0, unfenced=3)


def test_a_timer_half_a_second_late_proves_a_stall() -> None:
    assert not was_stalled(due=10.0, now=10.5)
    assert was_stalled(due=10.0, now=10.501)


def test_who_was_fenced_a_moment_ago_counts_among_those_there_were() -> None:
    suspicion = Suspicion()
    assert dies(suspicion, ONE, 7, 0.0, unfenced=5)
    assert dies(suspicion, TWO, 8, AT_ONCE / 2, unfenced=4)
    assert not dies(suspicion, THREE, 9, AT_ONCE / 2, unfenced=3)
