"""Faults that reviews proved: the connector, the dead letters and the jobs."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

MUTATIONS: list[Mutation] = []
