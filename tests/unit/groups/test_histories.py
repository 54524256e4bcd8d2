"""Random histories: members of all kinds, writes that fail or tarry, coordinators that move."""

from __future__ import annotations

import pytest

from tests.unit.groups.history import History


@pytest.mark.parametrize("seed", range(40))
def test_in_a_random_history_every_invariant_holds(seed: int) -> None:
    History(seed).run(250)


def test_random_histories_come_to_generations_assignments_and_commits() -> None:
    histories = [History(seed) for seed in range(10)]
    for history in histories:
        history.run(250)
    assert sum(len(history.assigned) for history in histories) > 10
    assert sum(len(history.leaders) for history in histories) > 20
    assert sum(history.acknowledged for history in histories) > 10
