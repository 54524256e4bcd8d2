from __future__ import annotations

from itertools import product

import pytest

from highwater.quorum import IllegalTransition, Role
from highwater.quorum.transitions import (
    INITIAL_ROLES,
    TRANSITIONS,
    VOTER_ROLES,
    EpochRule,
    Transition,
    check_initial,
    check_transition,
)

LEGAL = {(row.source, row.target): row.epoch for row in TRANSITIONS}
EPOCHS_ALLOWED = {
    EpochRule.SAME: {0},
    EpochRule.NEXT: {1},
    EpochRule.HIGHER: {1, 2},
    EpochRule.SAME_OR_HIGHER: {0, 1, 2},
}


@pytest.mark.parametrize("row", TRANSITIONS, ids=lambda row: f"{row.source.value}-{row.target.value}")
def test_each_row_of_the_table_allows_exactly_its_epochs(row: Transition) -> None:
    for step in (-1, 0, 1, 2):
        if step in EPOCHS_ALLOWED[row.epoch]:
            check_transition(row.source, 5, row.target, 5 + step, voter=True)
        else:
            with pytest.raises(IllegalTransition):
                check_transition(row.source, 5, row.target, 5 + step, voter=True)


@pytest.mark.parametrize(
    ("source", "target"),
    [pair for pair in product(Role, Role) if pair not in LEGAL],
    ids=lambda role: role.value,
)
def test_a_transition_that_is_not_in_the_table_is_illegal_in_every_epoch(source: Role, target: Role) -> None:
    for step in (-1, 0, 1, 2):
        with pytest.raises(IllegalTransition):
            check_transition(source, 5, target, 5 + step, voter=True)


def test_the_table_has_no_row_twice() -> None:
    assert len(LEGAL) == len(TRANSITIONS) == 20


@pytest.mark.parametrize("row", TRANSITIONS, ids=lambda row: f"{row.source.value}-{row.target.value}")
def test_an_observer_never_becomes_a_candidate(row: Transition) -> None:
    step = max(EPOCHS_ALLOWED[row.epoch])
    if row.target in VOTER_ROLES:
        with pytest.raises(IllegalTransition, match="observer"):
            check_transition(row.source, 5, row.target, 5 + step, voter=False)
    else:
        check_transition(row.source, 5, row.target, 5 + step, voter=False)


def test_a_leader_is_only_ever_made_by_an_election() -> None:
    assert {row.source for row in TRANSITIONS if row.target == Role.LEADER} == {Role.CANDIDATE}
    with pytest.raises(IllegalTransition, match="does not start as"):
        check_initial(Role.LEADER)
    for role in INITIAL_ROLES:
        check_initial(role)


def test_only_a_candidate_raises_its_own_epoch() -> None:
    assert {row.target for row in TRANSITIONS if row.epoch == EpochRule.NEXT} == {Role.CANDIDATE}
