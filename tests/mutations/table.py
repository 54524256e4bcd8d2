"""All scenarios, in the order of their list: those with a test and a mutation, and those that wait."""

from __future__ import annotations

from tests.mutations import a, b, c, d
from tests.mutations.mutation import Mutation, Waiting

MUTATIONS: list[Mutation] = [*a.MUTATIONS, *b.MUTATIONS, *c.MUTATIONS, *d.MUTATIONS]
WAITING: list[Waiting] = [*a.WAITING, *b.WAITING, *c.WAITING, *d.WAITING]
_LAST = {"A": 20, "B": 19, "C": 12, "D": 16}
SCENARIOS = [f"{group}{number}" for group, last in _LAST.items() for number in range(1, last + 1)]
