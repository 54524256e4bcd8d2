"""A whole node in the simulated world: produced to through the wire, crashed at chosen points, restarted, audited."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sim.crash_points import NAMED
from tests.sim.single_node import survive

SEEDS = 100
GROUPS = 4


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_node_keeps_its_promises_wherever_it_crashes(group: int) -> None:
    """Every group by itself meets each kind of crash: then all of them do."""
    hits: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for seed in range(group, SEEDS, GROUPS):
        run = survive(seed)
        hits += run.hits
        seen += run.witness.seen
    assert {kind: hits[kind] for kind in NAMED if hits[kind] < 3} == {}
    expected = {"acked": 1500, "in doubt": 1, "records read": 3000, "topics deleted": 5, "settings changed": 20}
    expected |= {"records deleted": 10, "power cuts": 20, "kills": 20, "disk full": 1, "clean stops": 3}
    assert {what: seen[what] for what, least in expected.items() if seen[what] < least} == {}
