"""`make mutants`: break one line per scenario in a copy of the tree, and see that scenario's test go red.

With `--random`, lines are drawn instead of listed, and judged by whatever tests reach them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.mutations.copies import GREEN, RED, compiled_copy_of_tree, linked, ran, reason_in
from tests.mutations.mutation import Mutation
from tests.mutations.table import MUTATIONS, WAITING
from tests.mutations.trial import PACKAGES, lowest_share, summary, try_drawn


@click.command()
@click.option("--only", help="Only these scenarios, separated by commas: A1,B14.")
@click.option("--jobs", default=2, show_default=True, help="Copies at work at the same time.")
@click.option("--random", "count", type=click.IntRange(1), help="Draw so many changes of each package instead.")
@click.option("--seed", default=1, show_default=True, help="What they are drawn by.")
@click.option("--package", "packages", multiple=True, type=click.Choice(PACKAGES), help="Only this one; repeatable.")
@click.option("--nearest", is_flag=True, help="By the package's own unit tests alone.")
@click.option("--floor", default=0.0, help="Fail if fewer of a hundred are killed in a package.")
def main(
    only: str | None, jobs: int, count: int | None, seed: int, packages: tuple[str, ...], nearest: bool, floor: float
) -> None:
    """Exits with 0 only if each test is green as it stands and red with its line broken."""
    if count is None:
        sys.exit(1 if survivors_of_the_list(only, jobs) else 0)
    tried = try_drawn(count, seed, packages or PACKAGES, nearest)
    click.echo(summary(tried))
    sys.exit(1 if lowest_share(tried) < floor else 0)


def survivors_of_the_list(only: str | None, jobs: int) -> int:
    chosen = [mutation for mutation in MUTATIONS if only is None or mutation.scenario in only.split(",")]
    if not chosen:
        raise click.UsageError(f"there is no scenario {only}")
    with tempfile.TemporaryDirectory(prefix="highwater-mutants-") as home, ThreadPoolExecutor(jobs) as pool:
        tests = list(dict.fromkeys(mutation.test for mutation in chosen))
        whole = compiled_copy_of_tree(Path(home) / "whole")
        code, output = ran(whole, tests)
        if code != GREEN:
            raise click.ClickException(f"the tests are not green to begin with:\n{output[-4000:]}")
        survived = 0
        trees = [Path(home) / f"{at}-{mutation.scenario}" for at, mutation in enumerate(chosen)]
        for mutation, (verdict, seconds, why) in zip(
            chosen, pool.map(partial(tried, whole), trees, chosen), strict=True
        ):
            survived += verdict != "red"
            click.echo(f"{mutation.scenario:<4} {verdict:<8} {seconds:5.1f} s  {mutation.file}: {mutation.line!r}")
            click.echo(f"{'':24}{why}")
    for waiting in WAITING if only is None else ():
        click.echo(f"{waiting.scenario:<4} waits             {waiting.reason}")
    click.echo(f"mutants {len(chosen)}, survived {survived}, waiting {len(WAITING)}")
    return survived


def tried(whole: Path, tree: Path, mutation: Mutation) -> tuple[str, float, str]:
    """The verdict, how long it took, and what the test said."""
    begun = time.monotonic()
    mutation.apply(linked(whole, tree))
    code, output = ran(tree, [mutation.test])
    shutil.rmtree(tree)
    verdict = {GREEN: "SURVIVED", RED: "red"}.get(code, f"exit {code}")
    return verdict, time.monotonic() - begun, reason_in(output)


if __name__ == "__main__":
    main()
