"""Faults that reviews proved: a cluster's directory, the processes of its nodes, and who is a voter."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

MUTATIONS: list[Mutation] = []
