"""Faults that reviews proved: what one client can make another wait for."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

LINGERING = "tests/sim/test_lingering.py::"
MUTATIONS: list[Mutation] = [
    Mutation(
        "F12",
        LINGERING + "test_without_a_controller_a_group_hears_at_once_that_there_is_no_coordinator",
        "src/highwater/broker/auto_creation.py",
        "if waiting.names <= waiting.refused.keys() or not self._controller.reaches_controller:",
        "if waiting.names <= waiting.refused.keys():",
    ),
    Mutation(
        "F12",
        LINGERING + "test_who_asks_for_a_dead_leader_reads_on_from_one_that_lives",
        "src/highwater/net/outbox.py",
        "if self.lingering and self.lingering.pop(slot, None) is None:",
        "if self.lingering and self.lingering.pop(slot, None) is None and False:",
    ),
    Mutation(
        "F12",
        LINGERING + "test_nobody_waits_for_the_proof_of_a_death_that_nobody_can_give",
        "src/highwater/broker/doubts.py",
        "if now - first >= PATIENCE_SECONDS:",
        "if False:",
    ),
]
