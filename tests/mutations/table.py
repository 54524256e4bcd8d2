"""All scenarios, in the order of their list: those with a test and a mutation, and those that wait."""

from __future__ import annotations

from tests.mutations import a, b, c
from tests.mutations.mutation import Mutation, Waiting

MUTATIONS: list[Mutation] = [*a.MUTATIONS, *b.MUTATIONS, *c.MUTATIONS]
WAITING: list[Waiting] = [*a.WAITING, *b.WAITING, *c.WAITING]
SCENARIOS = [*(f"A{n}" for n in range(1, 21)), *(f"B{n}" for n in range(1, 20)), *(f"C{n}" for n in range(1, 13))]
