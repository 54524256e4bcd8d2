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
    "a table": 5,
    "a group": 10,
    "slow code": 25,
}
FAULTS = {  # at most half of what was seen: every change of the code gives the seeds other stories
    "kills": 60,
    "kills before registration": 5,
    "power cuts before registration": 2,
    "second kills": 8,
    "power cuts": 25,
    "torn writes": 3,
    "pauses": 8,
    "clock jumps": 2,
    "controlled restarts": 15,
    "rolled clusters": 2,
    "cuts": 6,
    "one-way cuts": 5,
    "isolations": 12,
    "slow links": 4,
    "resets": 4,
    "full disks": 5,
    "descriptors gone": 5,
    "slow disks": 8,
    "failed writes": 2,
    "failed reads": 2,
    "failed truncations": 1,
    "failed syncs": 4,
    "failed creations": 3,
    "failed renamings": 3,
    "damaged bytes": 1,
    "deletions of records": 10,
    "deletions of records beside": 2,
    "retentions": 2,
    "settings changed": 5,
    "topics created or deleted": 20,
    "partitions added": 1,
}
ROLES = ("a leader", "the controller")
MET = {
    **{
        f"{kind} of {role}": 5
        for kind in ("kills", "power cuts", "isolations", "controlled restarts")
        for role in ROLES
    },
    **{f"{kind} of {role}": 2 for kind in ("full disks", "descriptors gone", "pauses") for role in ROLES},
    "kills of a follower": 5,
    "kills of a node that starts": 3,
    "second kills of a node that starts": 3,
    "failed syncs of a leader": 2,
}
"""Faults, by what the node was to its cluster that they happened to."""
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
RECORDS = {
    "acked": 20_000,
    "acked and judged": 20_000,
    "read": 50_000,
    "keys acked": 150,
    "keys compacted away": 100,
    "group: joined": 60,
    "group: committed": 600,
}
STEPS = 500_000


def keep_their_promises(seeds: Sequence[int]) -> None:
    """Reports the first seed that finds anything, with its timeline; then, whether the run was worth its time."""
    tally = Tally()
    for seed in seeds:
        found = tally.run(seed)
        assert found is None, found.text()
    assert tally.seeds == len(seeds)
    assert tally.steps > STEPS
    for counts, floors in (
        (tally.clusters, SHAPES),
        (tally.faults, FAULTS),
        (tally.met, MET),
        (tally.events, EVENTS),
        (tally.records, RECORDS),
    ):
        few = too_few(counts, floors)
        assert not few, f"seen less often than in earlier runs: {few}"


def too_few(counts: Counter[str], floors: Mapping[str, int]) -> dict[str, int]:
    return {what: counts[what] for what, least in floors.items() if counts[what] < least}
