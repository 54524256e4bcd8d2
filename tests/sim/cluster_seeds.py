"""Two hundred seeds, in halves for two workers, and what they must have gone through: then silence means something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from highwater.sim.tally import Tally

SEEDS = 200
PATIENCE_SECONDS = 1500
"""Far more than a half takes."""

SHAPES = {
    "3 nodes": 30,
    "4 nodes": 15,
    "5 nodes": 8,
    "combined": 40,
    "apart": 10,
    "RF 2": 20,
    "RF 3": 40,
    "min ISR 1": 15,
    "min ISR 2": 40,
    "flushed": 90,
    "cached": 30,
    "unclean off": 60,
    "unclean on": 10,
}
FAULTS = {
    "kills": 40,
    "kills after a write": 3,
    "power cuts": 40,
    "torn writes": 6,
    "pauses": 20,
    "cuts": 20,
    "one-way cuts": 20,
    "isolations": 30,
    "slow links": 12,
    "resets": 8,
    "clock jumps": 5,
    "controlled restarts": 12,
}
EVENTS = {
    "leader changes": 150,
    "partitions without a leader": 10,
    "elections of a last known leader": 8,
    "unclean elections": 2,
    "eligible leader replicas": 30,
    "ISR shrinks": 250,
    "ISR expansions": 250,
    "truncations": 10,
    "controller elections": 60,
    "metadata truncations": 6,
    "metadata prefixes dropped": 200,
    "snapshots installed": 10,
}
RECORDS = {"acked": 20_000, "acked and judged": 20_000, "unknown": 10, "read": 50_000}
STEPS = 500_000


def keep_their_promises(seeds: Sequence[int]) -> None:
    """The first seed that finds anything is told with its timeline; then, whether the run was worth its time."""
    tally = Tally()
    for seed in seeds:
        found = tally.run(seed)
        assert found is None, found.text()
    assert tally.seeds == len(seeds)
    assert tally.steps > STEPS
    assert too_few(tally.clusters, SHAPES) == {}
    assert too_few(tally.faults, FAULTS) == {}
    assert too_few(tally.events, EVENTS) == {}
    assert too_few(tally.records, RECORDS) == {}


def too_few(counts: Counter[str], floors: Mapping[str, int]) -> dict[str, int]:
    return {what: counts[what] for what, least in floors.items() if counts[what] < least}
