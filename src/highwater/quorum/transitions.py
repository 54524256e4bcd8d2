"""The table of all legal moves between roles. Each transition of the machine is checked against it."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from highwater.model import Epoch
from highwater.quorum.violation import IllegalTransition


class Role(Enum):
    UNATTACHED = "Unattached"
    PROSPECTIVE = "Prospective"
    CANDIDATE = "Candidate"
    LEADER = "Leader"
    FOLLOWER = "Follower"
    RESIGNED = "Resigned"


class EpochRule(Enum):
    SAME = "same"
    NEXT = "next"
    HIGHER = "higher"
    SAME_OR_HIGHER = "same or higher"

    def allows(self, before: Epoch, after: Epoch) -> bool:
        match self:
            case EpochRule.SAME:
                return after == before
            case EpochRule.NEXT:
                return after == before + 1
            case EpochRule.HIGHER:
                return after > before
            case EpochRule.SAME_OR_HIGHER:
                return after >= before


class Transition(NamedTuple):
    source: Role
    target: Role
    epoch: EpochRule
    cause: str


TRANSITIONS = (
    Transition(Role.UNATTACHED, Role.UNATTACHED, EpochRule.SAME_OR_HIGHER, "learns of an election, or votes in it"),
    Transition(Role.UNATTACHED, Role.PROSPECTIVE, EpochRule.SAME, "election timeout, or the only voter starts"),
    Transition(Role.UNATTACHED, Role.FOLLOWER, EpochRule.SAME_OR_HIGHER, "discovers the leader"),
    Transition(
        Role.PROSPECTIVE, Role.UNATTACHED, EpochRule.SAME_OR_HIGHER, "loses the pre-vote, or learns of an epoch"
    ),
    Transition(Role.PROSPECTIVE, Role.PROSPECTIVE, EpochRule.SAME, "votes for another candidate"),
    Transition(Role.PROSPECTIVE, Role.CANDIDATE, EpochRule.NEXT, "a majority grants the pre-vote"),
    Transition(Role.PROSPECTIVE, Role.FOLLOWER, EpochRule.SAME_OR_HIGHER, "loses to a known leader, or discovers one"),
    Transition(Role.CANDIDATE, Role.UNATTACHED, EpochRule.HIGHER, "learns of a later election"),
    Transition(Role.CANDIDATE, Role.PROSPECTIVE, EpochRule.SAME, "election timeout"),
    Transition(Role.CANDIDATE, Role.LEADER, EpochRule.SAME, "a majority grants the vote"),
    Transition(Role.CANDIDATE, Role.FOLLOWER, EpochRule.SAME_OR_HIGHER, "discovers the leader"),
    Transition(Role.LEADER, Role.UNATTACHED, EpochRule.HIGHER, "learns of a later election"),
    Transition(Role.LEADER, Role.RESIGNED, EpochRule.SAME, "shuts down, is asked to, or lost its majority"),
    Transition(Role.LEADER, Role.FOLLOWER, EpochRule.HIGHER, "discovers a later leader"),
    Transition(Role.FOLLOWER, Role.UNATTACHED, EpochRule.HIGHER, "learns of a later election"),
    Transition(Role.FOLLOWER, Role.PROSPECTIVE, EpochRule.SAME, "fetch timeout, or proof of the leader's death"),
    Transition(Role.FOLLOWER, Role.FOLLOWER, EpochRule.SAME_OR_HIGHER, "discovers a leader, or more of its listeners"),
    Transition(Role.RESIGNED, Role.UNATTACHED, EpochRule.HIGHER, "learns of a later election, or election timeout"),
    Transition(Role.RESIGNED, Role.PROSPECTIVE, EpochRule.SAME, "the only voter starts again"),
    Transition(Role.RESIGNED, Role.FOLLOWER, EpochRule.HIGHER, "discovers a later leader"),
)

VOTER_ROLES = frozenset({Role.PROSPECTIVE, Role.CANDIDATE, Role.LEADER})
"""Roles for voters only: a replica outside the voter set never takes part in an election."""

INITIAL_ROLES = frozenset({Role.UNATTACHED, Role.CANDIDATE, Role.FOLLOWER, Role.RESIGNED})
"""No replica starts as leader. A former leader starts as Resigned, because it may have lost unsynced records
(KAFKA-10527)."""

_RULES = {(row.source, row.target): row.epoch for row in TRANSITIONS}


def check_initial(role: Role) -> None:
    if role not in INITIAL_ROLES:
        raise IllegalTransition(f"a replica does not start as {role.value}")


def check_transition(source: Role, before: Epoch, target: Role, after: Epoch, *, voter: bool) -> None:
    """Raises IllegalTransition unless the table has this move."""
    rule = _RULES.get((source, target))
    if rule is None or not rule.allows(before, after):
        raise IllegalTransition(f"{source.value} in epoch {before} may not become {target.value} in epoch {after}")
    if not voter and target in VOTER_ROLES:
        raise IllegalTransition(f"an observer may not become {target.value}")
