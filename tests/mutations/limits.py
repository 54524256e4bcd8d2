"""Faults that reviews proved: descriptors, memory, and whoever waits behind a connection that is gone."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

MUTATIONS: list[Mutation] = []
