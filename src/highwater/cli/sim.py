"""`highwater sim`: clusters in the simulated world, one per seed, until one of them breaks a promise; and a search over
all that can happen to a single partition."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import click

from highwater.sim.faults.profiles import PROFILES, USUAL
from highwater.sim.search.branches import Branches
from highwater.sim.search.exploring import explore
from highwater.sim.search.scope import SCOPES, Scope
from highwater.sim.search.story import sentences
from highwater.sim.tally import Tally
from highwater.sim.timeline import LAST_LINES
from highwater.sim.trial import SECONDS, Trial

LONGEST = 2**31
MOST_STATES = 100_000
"""The most states of one scope. Larger scopes run only on request, because every state stays in memory."""


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
@click.option(
    "--search",
    type=click.Choice(["all", *SCOPES]),
    help="Instead of seeds: try every order of events in a small scope of replication, or in all of them.",
)
@click.option(
    "--budget", type=click.IntRange(min=0), help="Of --search: how many faults; each scope has its own number."
)
@click.option(
    "--states",
    type=click.IntRange(min=1),
    help=f"Of --search: end a scope after so many states.  [default: {MOST_STATES}]",
)
@click.option(
    "--branches",
    is_flag=True,
    help="Of --search: list the branches of replication that it did not reach. It takes three times as long.",
)
@click.option("--timeline", is_flag=True, help="Print the whole story of --seed, whether it fails or not.")
def command(
    seeds: int | None,
    seed: int | None,
    first: int,
    seconds: float,
    profile: str,
    keep_going: bool,
    search: str | None,
    budget: int | None,
    states: int | None,
    branches: bool,
    timeline: bool,
) -> None:
    """Run whole clusters on a virtual clock under seeded faults, and check every promise.

    Exits with 1 if a seed found anything wrong; the same seed finds it again.
    """
    if [seeds, seed, search].count(None) != 2:
        raise click.UsageError("Give one of --seeds, --seed and --search.")
    if search is None and (budget is not None or states is not None or branches):
        raise click.UsageError("--budget, --states and --branches belong to --search.")
    if search is not None:
        sys.exit(_search_all(list(SCOPES) if search == "all" else [search], budget, states, branches))
    if seed is not None:
        sys.exit(_run_one(seed, seconds, profile, timeline))
    assert seeds is not None
    sys.exit(_run_many(range(first, first + seeds), seconds, profile, keep_going))


def _search_all(names: Sequence[str], budget: int | None, states: int | None, branches: bool) -> int:
    seen = Branches() if branches else None
    code = max(_search(SCOPES[name], budget, states, seen) for name in names)
    if seen is not None:
        click.echo(f"branches of replication: {seen.count}, not reached: {len(seen.left)}")
        for branch in seen.left:
            click.echo(branch.text())
    return code


def _search(scope: Scope, budget: int | None, states: int | None, seen: Branches | None) -> int:
    begun = time.monotonic()

    def progress(seen: int, depth: int) -> None:
        _progress(f"{scope.name}: {seen} states, depth {depth} ")

    wanted = scope if budget is None else replace(scope, budget=budget)
    with nullcontext() if seen is None else seen.watched():
        found = explore(wanted, states or MOST_STATES, progress=progress)
    _end_progress()
    extent = "all of it" if found.is_whole else "ended early" if found.violation is None else "broken"
    faults = found.scope.budget
    click.echo(
        f"{scope.name}: {found.states} states, depth {found.depth}, {found.healed} of them healed, at most {faults} "
        f"faults, {time.monotonic() - begun:.1f} s: {extent}"
    )
    for line in sentences(found) if found.violation is not None else ():
        click.echo(line)
    return 0 if found.violation is None else 1


def _progress(line: str) -> None:
    """Replaces the last line, which works on a terminal. In a pipe or a file all lines would stay."""
    if sys.stderr.isatty():
        click.echo(f"\r{line}", err=True, nl=False)


def _end_progress() -> None:
    if sys.stderr.isatty():
        click.echo("", err=True)


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
        _progress(f"{tally.seeds}/{len(seeds)} seeds, {len(tally.failed)} failed, {rate:.1f} seeds/s ")
    _end_progress()
    click.echo(tally.text())
    return 1 if tally.failed else 0
