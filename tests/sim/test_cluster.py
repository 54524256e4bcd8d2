"""Whole clusters in the simulated world: written to over the wire, crashed, cut, paused, healed, read and judged."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from highwater.cli.sim import command
from highwater.sim import trial as trial_module
from highwater.sim.invariants import OneQuorumLeader, Violation
from highwater.sim.trial import Trial
from highwater.sim.view import ClusterView

ROOT = Path(__file__).parents[2]
SEEDS = 40
GROUPS = 4
SEED = 4


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_cluster_keeps_its_promises_whatever_fails(group: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(group, SEEDS, GROUPS):
        trial = Trial(seed)
        found = trial()
        assert found is None, found.text()
        seen += trial.seen
        seen["faults"] += len(trial.nemesis.done)
    expected = {"acked": 1000, "read": 2000, "acked and judged": 1000, "faults": 20}
    assert {what: seen[what] for what, least in expected.items() if seen[what] < least} == {}


def trace_under(hash_seed: str) -> str:
    program = f"from highwater.sim.trial import Trial\ntrial = Trial({SEED}, 3.0)\ntrial()\nprint(trial.sim.trace_hash)"
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_a_cluster_has_one_trace_per_seed_in_every_interpreter() -> None:
    here = Trial(SEED, 3.0)
    here()
    assert {trace_under(hash_seed) for hash_seed in ("0", "4242")} == {here.sim.trace_hash}


def test_the_command_runs_seeds_and_sums_them_up() -> None:
    ran = CliRunner().invoke(command, ["--seeds", "2", "--seconds", "1"])
    assert (ran.exit_code, "seeds 2, failed []" in ran.output) == (0, True), ran.output


def test_the_command_wants_either_one_seed_or_many() -> None:
    assert CliRunner().invoke(command, []).exit_code == 2
    assert CliRunner().invoke(command, ["--seed", "1", "--seeds", "2"]).exit_code == 2


class _NeverContent(OneQuorumLeader):
    def check(self, view: ClusterView) -> None:
        if len(view.nodes) == 3 and all(node.replicas for node in view.nodes):
            raise Violation(self, "crafted")


def test_a_failing_seed_is_told_with_its_schedule_and_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_module, "all_invariants", lambda: [_NeverContent()])
    for arguments in (["--seed", "4", "--seconds", "2"], ["--seeds", "1", "--first", "4", "--seconds", "2"]):
        ran = CliRunner().invoke(command, arguments)
        assert ran.exit_code == 1
        for part in ("seed 4", "what went wrong:", "_NeverContent: crafted", "faults:", "timeline"):
            assert part in ran.output
