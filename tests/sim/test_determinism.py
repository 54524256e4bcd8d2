"""Same seed, same trace, whatever the interpreter's hash seed; another seed, another trace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

from highwater.sim import Knobs, Simulation
from highwater.sim.trace import Trace
from tests.sim import toy

ROOT = Path(__file__).parents[2]
SEEDS = (1, 2, 3)


def traces_under(hash_seed: str) -> list[str]:
    program = f"from tests.sim import toy\nfor seed in {SEEDS}: print(toy.run(seed).trace_hash)"
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


def test_a_seed_has_one_trace_in_every_interpreter() -> None:
    traces = [traces_under(hash_seed) for hash_seed in ("0", "1", "4242")]
    assert traces[0] == traces[1] == traces[2] == [toy.run(seed).trace_hash for seed in SEEDS]
    assert len(traces[0]) == len(SEEDS)


def test_different_seeds_have_different_traces() -> None:
    assert len({toy.run(seed).trace_hash for seed in range(20)}) == 20


def test_every_part_of_an_event_distinguishes_a_trace() -> None:
    def digest(at: float = 1.0, node: str = "a", kind: str = "send", subject: str = "b", note: str = "3") -> str:
        trace = Trace(lambda: at)
        trace.record(node, kind, subject, note)
        return trace.digest

    variants = [
        digest(),
        digest(at=1.0000001),
        digest(node="c"),
        digest(kind="append"),
        digest(subject="c"),
        digest(note="4"),
    ]
    assert len(set(variants)) == len(variants)
    assert digest() == digest()


def test_the_toy_meets_every_kind_of_event() -> None:
    kinds: set[str] = set()
    for seed in range(10):
        kinds.update(kind for _, kind in toy.run(seed).trace.counts)
    expected = (
        "start crash cut heal stall reset dial listen send receive lost fin close append create flush sync flushed"
    )
    assert set(expected.split()) <= kinds
    assert {"rename", "sync_dir", "truncate", "step", "run", "job", "timer", "spawn"} <= kinds


def test_a_swarm_of_seeds_gives_worlds_of_different_kinds() -> None:
    kinds = [Knobs.swarm(Random(seed)) for seed in range(50)]
    assert len(set(kinds)) == 50
    assert kinds[7] == Knobs.swarm(Random(7))
    assert all(knobs.link_delay[0] < knobs.link_delay[1] for knobs in kinds)
    assert min(knobs.window for knobs in kinds) < 1000 < 100_000 < max(knobs.window for knobs in kinds)


def test_one_draw_more_in_one_node_leaves_the_dice_of_the_others_as_they_were() -> None:
    """Streams are forked by label: the initial draws of everybody else are the same."""

    def draws(extra: bool) -> list[float]:
        with Simulation(5) as sim:
            a, b = sim.world("a"), sim.world("b")
            if extra:
                a.random("x").random()
            return [b.random("x").random(), sim.world("c").random("y").random(), b.clock.monotonic()]

    assert draws(extra=False) == draws(extra=True)
