"""All scenarios, in the order of their list: those with a test and a mutation, and those that wait.

Then the faults that reviews proved, each under F and its number; and some of both once more, to be found by a seed.
"""

from __future__ import annotations

from tests.mutations import (
    a,
    attackers,
    b,
    boundaries,
    bystanders,
    c,
    console,
    d,
    disks,
    e,
    guards,
    hunts,
    kept,
    landing,
    limits,
    membership,
    memory,
    operations,
    owed,
    pipeline,
    quorum,
    replication,
    search,
    setbacks,
    soft_state,
    stalls,
    suite,
)
from tests.mutations.mutation import Mutation, Waiting

SCENARIO_MUTATIONS: list[Mutation] = [*a.MUTATIONS, *b.MUTATIONS, *c.MUTATIONS, *d.MUTATIONS, *e.MUTATIONS]
FAULT_MUTATIONS: list[Mutation] = [
    mutation
    for module in (
        replication,
        search,
        boundaries,
        membership,
        bystanders,
        limits,
        attackers,
        memory,
        kept,
        owed,
        landing,
        pipeline,
        setbacks,
        soft_state,
        disks,
        suite,
        operations,
        guards,
        quorum,
        stalls,
        console,
    )
    for mutation in module.MUTATIONS
]
MUTATIONS: list[Mutation] = [*SCENARIO_MUTATIONS, *FAULT_MUTATIONS, *hunts.MUTATIONS]
WAITING: list[Waiting] = [*a.WAITING, *b.WAITING, *c.WAITING, *d.WAITING, *e.WAITING]
LAST = {"A": 20, "B": 19, "C": 12, "D": 16, "E": 13}
SCENARIOS = [f"{group}{number}" for group, last in LAST.items() for number in range(1, last + 1)]
