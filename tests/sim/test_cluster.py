"""Trials of whole clusters: one trace per seed, every step looked at, findings reported. The seeds themselves: see
`test_cluster_seeds_even.py` and `test_cluster_seeds_odd.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from highwater.cli.sim import command
from highwater.sim import trial as trial_module
from highwater.sim.invariants import OneQuorumLeader, Violation
from highwater.sim.trial import Trial
from highwater.sim.view import ClusterView, NodeView

ROOT = Path(__file__).parents[2]
SEED = 4


def trace_under(hash_seed: str) -> str:
    program = f"from highwater.sim.trial import Trial\ntrial = Trial({SEED}, 3.0)\ntrial()\nprint(trial.sim.trace_hash)"
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_a_cluster_has_one_trace_per_seed_in_every_interpreter() -> None:
    here = Trial(SEED, 3.0)
    here()
    assert {trace_under(hash_seed) for hash_seed in ("0", "4242")} == {here.sim.trace_hash}


def test_the_command_runs_seeds_and_sums_them_up() -> None:
    ran = CliRunner().invoke(command, ["--seeds", "2", "--seconds", "1"])
    assert (ran.exit_code, "seeds     2, failed []" in ran.output) == (0, True), ran.output


def test_the_command_prints_the_story_of_a_seed() -> None:
    faults_alone = CliRunner().invoke(command, ["--seed", "4", "--seconds", "1"])
    whole = CliRunner().invoke(command, ["--seed", "4", "--seconds", "1", "--timeline"])
    assert (faults_alone.exit_code, whole.exit_code) == (0, 0)
    assert "seed 4: " in faults_alone.output and "everything heals" not in faults_alone.output
    assert "everything heals" in whole.output and "auditor" in whole.output
    assert faults_alone.output.splitlines()[-1] == whole.output.splitlines()[-1], "the trace of one run"


def test_the_command_wants_either_one_seed_or_many() -> None:
    assert CliRunner().invoke(command, []).exit_code == 2
    assert CliRunner().invoke(command, ["--seed", "1", "--seeds", "2"]).exit_code == 2


def test_the_command_draws_from_a_profile_and_knows_no_other() -> None:
    of_disks = CliRunner().invoke(command, ["--seed", "4", "--seconds", "1", "--profile", "disks"])
    usual = CliRunner().invoke(command, ["--seed", "4", "--seconds", "1"])
    assert (of_disks.exit_code, usual.exit_code) == (0, 0)
    assert of_disks.output.splitlines()[-1] != usual.output.splitlines()[-1]
    unknown = CliRunner().invoke(command, ["--seed", "4", "--profile", "weather"])
    assert unknown.exit_code == 2 and "'all', 'crashes', 'disks', 'operations', 'losses'" in unknown.output


class _NeverContent(OneQuorumLeader):
    def node(self, view: ClusterView, node: NodeView) -> None:
        if all(each.replicas for each in view.nodes):
            raise Violation(self, "crafted")


def test_a_failing_seed_is_reported_with_its_schedule_and_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_module, "all_invariants", lambda: [_NeverContent()])
    for arguments in (["--seed", "4", "--seconds", "2"], ["--seeds", "1", "--first", "4", "--seconds", "2"]):
        ran = CliRunner().invoke(command, arguments)
        assert ran.exit_code == 1
        for part in ("seed 4: ", "what went wrong:", "_NeverContent: crafted", "faults:", "timeline", "--seed 4"):
            assert part in ran.output
    of_disks = CliRunner().invoke(command, ["--seed", "4", "--seconds", "2", "--profile", "disks"])
    assert of_disks.output.rstrip().endswith("highwater sim --seed 4 --profile disks")


def test_a_violation_that_lasts_for_one_callback_is_seen() -> None:
    """The high watermark of a replica is taken back in one callback of its node, and put right in the very next."""
    trial = Trial(SEED, 2.0)

    def harm() -> None:
        leader = trial.cluster.leader_of(trial.shape.partitions[0])
        node = None if leader is None else trial.cluster.members[leader].node
        partition = None if node is None or node.broker is None else node.broker.hosted.get(trial.shape.partitions[0])
        if node is None or partition is None or partition.log.high_watermark == 0:
            trial.sim.at(trial.sim.now + 0.01, harm)
            return
        log, high = partition.log, partition.log.high_watermark
        clock = node.world.clock
        clock.call_soon(setattr, log, "high_watermark", high - 1)
        clock.call_soon(setattr, log, "high_watermark", high)

    trial.sim.at(0.5, harm)
    found = trial()
    assert found is not None and "HighWatermarkRises" in found.faults[0]
