"""The states of a group, and the table of all legal moves between them. Each move is checked against it."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class State(Enum):
    """The values are the names in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Transition(NamedTuple):
    source: State
    target: State
    cause: str


TRANSITIONS: Final = (
    Transition(State.EMPTY, State.PREPARING, "the first member joins"),
    Transition(State.EMPTY, State.DEAD, "its deletion or expiry is being written"),
    Transition(State.PREPARING, State.COMPLETING, "the members joined, or the time for it is over"),
    Transition(State.PREPARING, State.EMPTY, "the last member is gone"),
    Transition(State.COMPLETING, State.STABLE, "the leader's assignment is committed"),
    Transition(State.COMPLETING, State.PREPARING, "a member joins, changes or goes, or the assignment is not written"),
    Transition(State.STABLE, State.PREPARING, "a member joins, changes or goes"),
    Transition(State.DEAD, State.EMPTY, "its deletion could not be written"),
)

_LEGAL: Final = frozenset((row.source, row.target) for row in TRANSITIONS)


class IllegalTransition(Exception):
    """A move that is not in the table: a bug of Highwater, never a mistake of a client."""


def may_become(source: State, target: State) -> bool:
    return (source, target) in _LEGAL


def check_transition(source: State, target: State) -> None:
    if not may_become(source, target):
        raise IllegalTransition(f"a group that is {source.value} may not become {target.value}")
