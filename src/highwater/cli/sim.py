"""`highwater sim`: clusters in the simulated world, one per seed, until one of them breaks a promise."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence

import click

from highwater.sim.trial import Trial


@click.command(name="sim")
@click.option("--seeds", type=click.IntRange(min=1), help="How many seeds to run, from --first on.")
@click.option("--seed", type=click.IntRange(min=0), help="The one seed to run, with its whole timeline.")
@click.option("--first", type=click.IntRange(min=0), default=0, show_default=True, help="The first of --seeds.")
@click.option("--seconds", type=click.FloatRange(min=1), default=8.0, show_default=True, help="Virtual, of faults.")
@click.option("--keep-going", is_flag=True, help="Do not stop at the first seed that fails.")
def command(seeds: int | None, seed: int | None, first: int, seconds: float, keep_going: bool) -> None:
    """Run whole clusters on a virtual clock under seeded faults, and check every promise.

    Exits with 1 if a seed found anything wrong; the same seed finds it again.
    """
    if (seeds is None) == (seed is None):
        raise click.UsageError("Give either --seeds or --seed.")
    if seed is not None:
        sys.exit(_run_one(seed, seconds))
    assert seeds is not None
    sys.exit(_run_many(range(first, first + seeds), seconds, keep_going))


def _run_one(seed: int, seconds: float) -> int:
    trial = Trial(seed, seconds)
    found = trial()
    if found is not None:
        click.echo(found.text())
        return 1
    click.echo("faults:")
    for line in trial.nemesis.done:
        click.echo(line)
    click.echo(_summary([seed], [], trial.seen, trial.sim.now))
    click.echo(f"trace {trial.sim.trace_hash}")
    return 0


def _run_many(seeds: Sequence[int], seconds: float, keep_going: bool) -> int:
    begun = time.monotonic()
    seen: Counter[str] = Counter()
    run: list[int] = []
    failed: list[int] = []
    virtual = 0.0
    for seed in seeds:
        trial = Trial(seed, seconds)
        found = trial()
        run.append(seed)
        seen += trial.seen
        virtual += trial.sim.now
        if found is not None:
            failed.append(seed)
            click.echo(
                f"\n{found.text()}" if not keep_going or len(failed) == 1 else f"\nseed {seed}: {found.faults[0]}"
            )
            if not keep_going:
                break
        rate = len(run) / max(time.monotonic() - begun, 1e-9)
        click.echo(f"\r{len(run)}/{len(seeds)} seeds, {len(failed)} failed, {rate:.1f} seeds/s ", err=True, nl=False)
    click.echo("", err=True)
    click.echo(_summary(run, failed, seen, virtual))
    return 1 if failed else 0


def _summary(run: Sequence[int], failed: Sequence[int], seen: Counter[str], virtual: float) -> str:
    counts = " ".join(f"{name}={seen[name]}" for name in ("acked", "unknown", "failed", "read"))
    return f"seeds {len(run)}, failed {list(failed)}, {virtual:.0f} virtual seconds, records: {counts}"
