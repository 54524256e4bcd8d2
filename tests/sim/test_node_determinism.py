"""The same node code, the same seed: the same run, event by event, in every interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.sim.single_node import Run

ROOT = Path(__file__).parents[2]
SEED = 1
SEEDS = range(10)


def trace_under(hash_seed: str) -> str:
    program = f"from tests.sim.single_node import Run\nprint(Run({SEED})().sim.trace_hash)"
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_a_node_has_one_trace_per_seed_in_every_interpreter() -> None:
    assert {trace_under(hash_seed) for hash_seed in ("0", "1", "4242")} == {Run(SEED)().sim.trace_hash}


def test_different_seeds_are_different_runs_and_the_same_seed_is_the_same() -> None:
    first = [Run(seed)().sim.trace_hash for seed in SEEDS]
    assert len(set(first)) == len(SEEDS)
    assert [Run(seed)().sim.trace_hash for seed in SEEDS[:5]] == first[:5]
