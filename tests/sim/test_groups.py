"""Groups whose coordinators are killed, paused and cut off: what was acknowledged stays, and owners are alone."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sim.group_trial import GroupTrial

SEEDS = 20


@pytest.mark.slow
def test_no_acknowledged_commit_is_lost_and_no_partition_has_two_owners_in_one_generation() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        trial = GroupTrial(seed)
        assert trial() == [], "\n".join([f"seed {seed}", *trial.notes[-60:]])
        seen += trial.load.seen
    assert seen["committed"] > 50 * SEEDS
    assert seen["joined"] > 8 * SEEDS
    assert {"NOT_COORDINATOR", "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "lost"} <= set(seen), seen
