"""`highwater sim`: clusters in the simulated world, one per seed, until one of them breaks a promise."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import click

from highwater.sim.faults.profiles import PROFILES, USUAL
from highwater.sim.tally import Tally
from highwater.sim.timeline import LAST_LINES
from highwater.sim.trial import SECONDS, Trial

LONGEST = 2**31


@click.command(name="sim")
@click.option("--seeds", type=click.IntRange(min=1), help="How many seeds to run, from --first on.")
@click.option("--seed", type=click.IntRange(min=0), help="The one seed to run.")
@click.option("--first", type=click.IntRange(min=0), default=0, show_default=True, help="The first of --seeds.")
@click.option("--seconds", type=click.FloatRange(min=1), default=SECONDS, show_default=True, help="Virtual, of faults.")
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    default=USUAL,
    show_default=True,
    help="Which faults the seeds are drawn from.",
)
@click.option("--keep-going", is_flag=True, help="Do not stop at the first seed that fails.")
@click.option("--timeline", is_flag=True, help="Tell the whole story of --seed, whether it fails or not.")
def command(
    seeds: int | None, seed: int | None, first: int, seconds: float, profile: str, keep_going: bool, timeline: bool
) -> None:
    """Run whole clusters on a virtual clock under seeded faults, and check every promise.

    Exits with 1 if a seed found anything wrong; the same seed finds it again.
    """
    if (seeds is None) == (seed is None):
        raise click.UsageError("Give either --seeds or --seed.")
    if seed is not None:
        sys.exit(_run_one(seed, seconds, profile, timeline))
    assert seeds is not None
    sys.exit(_run_many(range(first, first + seeds), seconds, profile, keep_going))


def _run_one(seed: int, seconds: float, profile: str, timeline: bool) -> int:
    trial, tally = Trial(seed, seconds, profile), Tally()
    found = trial()
    tally.add(trial, found)
    if found is not None:
        click.echo(found.text(LONGEST if timeline else LAST_LINES))
        return 1
    click.echo(f"seed {seed}: {trial.shape.text()}\n")
    for line in trial.timeline.lines if timeline else ["faults:", *trial.nemesis.done]:
        click.echo(line)
    click.echo(f"\n{tally.text()}\ntrace     {trial.sim.trace_hash}")
    return 0


def _run_many(seeds: Sequence[int], seconds: float, profile: str, keep_going: bool) -> int:
    begun = time.monotonic()
    tally = Tally()
    for seed in seeds:
        found = tally.run(seed, seconds, profile)
        if found is not None:
            is_first = len(tally.failed) == 1
            click.echo(f"\n{found.text()}" if is_first else f"\nseed {seed}: {found.faults[0]}")
            if not keep_going:
                break
        rate = tally.seeds / max(time.monotonic() - begun, 1e-9)
        progress = f"{tally.seeds}/{len(seeds)} seeds, {len(tally.failed)} failed, {rate:.1f} seeds/s "
        click.echo(f"\r{progress}", err=True, nl=False)
    click.echo("", err=True)
    click.echo(tally.text())
    return 1 if tally.failed else 0
