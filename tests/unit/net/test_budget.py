"""What a server keeps for its clients, by the counters alone."""

from __future__ import annotations

import pytest

from highwater.net.budget import Budget

LIMIT, AMPLE, TIGHT = 8_000, 500, 1
SURE, HALF = LIMIT // 8, LIMIT // 2


class Receiving:
    def __init__(self) -> None:
        self.told = 0

    def go_on(self) -> None:
        self.told += 1


def a_budget() -> tuple[Budget, list[int]]:
    budget, crowded = Budget(LIMIT, AMPLE, TIGHT), []
    budget.on_crowded = lambda: crowded.append(budget.unread)
    return budget, crowded


@pytest.mark.parametrize("kind", ["unsent", "written", "unanswered", "receiving"])
def test_whatever_is_kept_leaves_less_room_for_large_frames(kind: str) -> None:
    budget, _ = a_budget()
    assert budget.admit(Receiving(), LIMIT + 1), "the favoured one"
    budget.receiving = 0
    setattr(budget, kind, LIMIT - 10)
    assert not budget.admit(Receiving(), 11)
    assert budget.admit(Receiving(), 10)


def test_answers_have_half_of_the_limit_and_an_eighth_while_requests_take_the_rest() -> None:
    budget, _ = a_budget()
    assert budget.answers == HALF
    budget.receiving = budget.unanswered = LIMIT // 3
    assert budget.answers == LIMIT - 2 * (LIMIT // 3)
    budget.receiving = budget.unanswered = LIMIT
    assert budget.answers == SURE


def test_a_connection_has_one_answer_once_all_take_too_much() -> None:
    budget, _ = a_budget()
    budget.unsent, budget.written = HALF - 1, 1
    assert budget.answer_bound > TIGHT
    budget.written = 2
    assert budget.answer_bound == TIGHT
    budget.unsent, budget.written, budget.unanswered = SURE, 0, LIMIT
    assert budget.answer_bound > TIGHT
    budget.written = 1
    assert budget.answer_bound == TIGHT


def test_too_many_unread_answers_are_told_of_once_whoever_holds_them() -> None:
    budget, crowded = a_budget()
    budget.answered(HALF)
    assert not crowded
    budget.answered(1)
    budget.answered(1)
    assert crowded == [HALF + 1]
    budget, crowded = a_budget()
    budget.unreading(HALF)
    assert not crowded
    budget.unreading(1)
    assert crowded == [HALF + 1]
