"""What a server keeps for its clients, by the counters alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater.net.budget import Budget, FrameKind

LIMIT, AMPLE, TIGHT = 8_000, 500, 1
SURE, HALF = LIMIT // 8, LIMIT // 2


class Receiving:
    def __init__(self) -> None:
        self.woken = 0

    def go_on(self) -> None:
        self.woken += 1


def a_budget(monotonic: Callable[[], float] = lambda: 0.0) -> tuple[Budget, list[int]]:
    budget, crowded = Budget(LIMIT, AMPLE, TIGHT, monotonic), []
    budget.on_crowded = lambda: crowded.append(budget.unread)
    return budget, crowded


@pytest.mark.parametrize("kind", ["unsent", "written", "unanswered", "receiving"])
def test_all_memory_in_use_leaves_less_room_for_large_frames(kind: str) -> None:
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


def test_too_many_unread_responses_are_reported_once() -> None:
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


def test_a_small_frame_does_not_wait_behind_a_large_one() -> None:
    budget, _ = a_budget()
    budget.unanswered = LIMIT
    large, small = Receiving(), Receiving()
    assert budget.admit(Receiving(), 100), "the favoured one"
    assert not budget.admit(large, 100)
    budget.unanswered = 2 * LIMIT
    assert not budget.admit(small, 10, FrameKind.SMALL)
    budget.unanswered = LIMIT
    budget.wake()
    assert (small.woken, large.woken) == (1, 0)


def test_a_receiver_is_favoured_until_there_is_room_for_it() -> None:
    budget, _ = a_budget()
    first, second = Receiving(), Receiving()
    budget.unanswered = LIMIT
    assert budget.admit(first, 100)
    assert not budget.admit(second, 100)
    budget.unanswered = 0
    assert budget.admit(first, 100)
    budget.unanswered = LIMIT
    assert budget.admit(second, 100), "the favour is free again"
    assert not budget.admit(first, 100)


def test_the_budget_favours_another_receiver_after_a_while() -> None:
    now = 0.0
    budget, _ = a_budget(lambda: now)
    first, second = Receiving(), Receiving()
    budget.unanswered = LIMIT
    now = 5.0
    assert budget.admit(first, 100)
    assert not budget.admit(second, 100)
    budget.let_another_go_on(4.9)
    assert second.woken == 0
    budget.let_another_go_on(5.0)
    assert second.woken == 1
    assert budget.admit(second, 100)
    assert not budget.admit(first, 100)


def test_large_requests_of_nodes_have_a_bound_too() -> None:
    """Clients may send fetches that wait as long as they may."""
    budget, _ = a_budget()
    budget.unanswered = LIMIT + LIMIT // 4
    fetch, another = Receiving(), Receiving()
    assert budget.admit(fetch, 100, FrameKind.NODE)
    budget.leave(fetch)
    budget.unanswered += 1
    assert not budget.admit(another, 100, FrameKind.NODE)
    budget.unanswered -= 1
    budget.wake()
    assert another.woken == 1


def test_no_large_produce_request_is_read_while_unanswered_ones_take_all_memory() -> None:
    """It would be answered after them. But a fetch may be what they wait for."""
    budget, _ = a_budget()
    budget.unanswered = LIMIT + 1
    produce, fetch = Receiving(), Receiving()
    assert not budget.admit(produce, 100, FrameKind.CLIENT)
    assert budget.admit(fetch, 100, FrameKind.NODE)
    budget.wake()
    assert produce.woken == 0
    budget.leave(fetch)
    budget.receiving -= 100
    assert produce.woken == 0
    budget.unanswered = LIMIT
    budget.wake()
    assert produce.woken == 1
    assert budget.admit(produce, 100, FrameKind.CLIENT), "one at a time goes beyond the limit"


class Asking(Receiving):
    """Asks again when there may be room, as a connection does."""

    def __init__(self, budget: Budget) -> None:
        super().__init__()
        self._budget = budget
        self.is_admitted = budget.admit(self, 10)

    def go_on(self) -> None:
        super().go_on()
        self.is_admitted = self._budget.admit(self, 10)


def test_when_the_favoured_receiver_leaves_the_next_one_may_go_beyond_the_limit() -> None:
    budget, _ = a_budget()
    budget.unanswered = LIMIT
    first, second, third = (Asking(budget) for _ in range(3))
    assert [each.is_admitted for each in (first, second, third)] == [True, False, False]
    budget.leave(first)
    assert [each.is_admitted for each in (second, third)] == [True, False]
    budget.leave(second)
    assert third.is_admitted
