"""Faults that reviews proved: what a leader believes of its followers, and what a follower does with its log."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

MUTATIONS: list[Mutation] = []
