"""All scenarios, in the order of their list: those with a test and a mutation, and those that wait."""

from __future__ import annotations

from tests.mutations import a, b, c, d, e
from tests.mutations.mutation import Mutation, Waiting

MUTATIONS: list[Mutation] = [*a.MUTATIONS, *b.MUTATIONS, *c.MUTATIONS, *d.MUTATIONS, *e.MUTATIONS]
WAITING: list[Waiting] = [*a.WAITING, *b.WAITING, *c.WAITING, *d.WAITING, *e.WAITING]
LAST = {"A": 20, "B": 19, "C": 12, "D": 16, "E": 13}
SCENARIOS = [f"{group}{number}" for group, last in LAST.items() for number in range(1, last + 1)]
