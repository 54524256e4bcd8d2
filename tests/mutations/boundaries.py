"""Faults that reviews proved: failures that end what failed and nothing more."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

MUTATIONS: list[Mutation] = []
