"""Writers that lose a race pause before the next, for longer each time and never for the same time."""

from __future__ import annotations

import pytest

from highwater.pipeline.landing.races import FIRST_PAUSE, LAST_PAUSE, RACES, until_won


class Lost(Exception):
    pass


def test_each_lost_race_is_followed_by_a_pause_that_may_be_twice_as_long() -> None:
    pauses: list[float] = []
    attempts = iter(range(RACES))

    def attempt() -> str:
        if next(attempts) < RACES - 1:
            raise Lost
        return "won"

    assert until_won(attempt, Lost, pause=pauses.append) == "won"
    assert len(pauses) == RACES - 1
    assert all(0 <= pause <= min(FIRST_PAUSE * 2**turn, LAST_PAUSE) for turn, pause in enumerate(pauses))
    assert max(pauses) > 8 * FIRST_PAUSE
    assert len(set(pauses)) == len(pauses), "two writers that lost together do not meet again"


def test_a_writer_that_always_loses_gets_an_error_and_other_errors_are_not_retried() -> None:
    pauses: list[float] = []

    def lose() -> None:
        raise Lost

    with pytest.raises(Lost):
        until_won(lose, Lost, pause=pauses.append)
    assert len(pauses) == RACES - 1
    with pytest.raises(Lost):
        until_won(lose, KeyError, pause=pauses.append)
    assert len(pauses) == RACES - 1
