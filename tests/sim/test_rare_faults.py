"""Kinds of faults that two hundred seeds of all kinds meet too seldom: seeds of profiles that have more of them, and
what those must have gone through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from highwater.sim.faults.spoiling import KINDS
from highwater.sim.tally import Tally
from tests.sim.cluster_seeds import PATIENCE_SECONDS, too_few


class Rare(NamedTuple):
    seeds: int
    faults: Mapping[str, int]
    """How often each kind must have happened at least, and to nodes in which state."""
    records: Mapping[str, int] = {}
    """How many records must have met with what."""


RARE = {
    "spoiled-files": Rare(14, {"starts refused for a spoiled file": 3}),
    "truncations": Rare(8, {"failed truncations": 3, "failed truncations of the controller": 1}),
    "metadata": Rare(
        6,
        {
            "failed writes of metadata": 8,
            "failed writes of metadata of a leader": 3,
            "failed writes of metadata of the controller": 3,
            "slow disks": 10,
        },
    ),
    "incarnations": Rare(6, {"power cuts before registration": 2, "kills before registration": 2}),
    "rot": Rare(6, {"damaged bytes": 3}),
    "disks": Rare(16, {"failed reads": 2}, {"unknown": 1}),
    "deletions": Rare(8, {}, {"deleted unread": 2}),
    "bounds": Rare(8, {"bounds changed": 20}),
}


SPOILED_KINDS = len(KINDS) - 4
SPOILED = {"a leader": 5, "the controller": 4}
"""How many kinds of files, and how many files of nodes in which state."""


def tallied(profile: str, seeds: int) -> Tally:
    tally = Tally()
    for seed in range(seeds):
        found = tally.run(seed, profile=profile)
        assert found is None, found.text()
    return tally


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE_SECONDS)
@pytest.mark.parametrize("profile", RARE)
def test_clusters_keep_their_promises_under_faults_that_are_rare(profile: str) -> None:
    tally = tallied(profile, RARE[profile].seeds)
    met: Counter[str] = tally.faults + tally.met
    assert too_few(met, RARE[profile].faults) == {}
    assert too_few(tally.records, RARE[profile].records) == {}
    if profile == "spoiled-files":
        assert sum(met[f"spoiled {kind}"] > 0 for kind in KINDS) >= SPOILED_KINDS
        files = Counter({state: sum(met[f"spoiled {kind} of {state}"] for kind in KINDS) for state in SPOILED})
        assert too_few(files, SPOILED) == {}
