"""Faults that reviews proved: what one client can make another wait for."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

MUTATIONS: list[Mutation] = []
