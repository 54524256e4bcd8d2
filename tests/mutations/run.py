"""`make mutants`: break one line per scenario in a copy of the tree, and see that scenario's test go red."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.mutations.mutation import ROOT, Mutation
from tests.mutations.table import MUTATIONS, WAITING

PATIENCE_SECONDS = 300
GREEN, RED = 0, 1
"""pytest's exit codes; any other means that the tests did not run."""


@click.command()
@click.option("--only", help="Only these scenarios, separated by commas: A1,B14.")
@click.option("--jobs", default=2, show_default=True, help="Copies at work at the same time.")
def main(only: str | None, jobs: int) -> None:
    """Exits with 0 only if each test is green as it stands and red with its line broken."""
    chosen = [mutation for mutation in MUTATIONS if only is None or mutation.scenario in only.split(",")]
    if not chosen:
        raise click.UsageError(f"there is no scenario {only}")
    with tempfile.TemporaryDirectory(prefix="highwater-mutants-") as home, ThreadPoolExecutor(jobs) as pool:
        tests = list(dict.fromkeys(mutation.test for mutation in chosen))
        code, output = ran(copy_of_tree(Path(home) / "whole"), tests)
        if code != GREEN:
            raise click.ClickException(f"the tests are not green to begin with:\n{output[-4000:]}")
        survived = 0
        trees = [Path(home) / f"{at}-{mutation.scenario}" for at, mutation in enumerate(chosen)]
        for mutation, (verdict, seconds, why) in zip(chosen, pool.map(tried, trees, chosen), strict=True):
            survived += verdict != "red"
            click.echo(f"{mutation.scenario:<4} {verdict:<8} {seconds:5.1f} s  {mutation.file}: {mutation.line!r}")
            click.echo(f"{'':24}{why}")
    for waiting in WAITING if only is None else ():
        click.echo(f"{waiting.scenario:<4} waits             {waiting.reason}")
    click.echo(f"mutants {len(chosen)}, survived {survived}, waiting {len(WAITING)}")
    sys.exit(1 if survived else 0)


def tried(tree: Path, mutation: Mutation) -> tuple[str, float, str]:
    """The verdict, how long it took, and what the test said."""
    begun = time.monotonic()
    mutation.apply(copy_of_tree(tree))
    code, output = ran(tree, [mutation.test])
    shutil.rmtree(tree)
    verdict = {GREEN: "SURVIVED", RED: "red"}.get(code, f"exit {code}")
    return verdict, time.monotonic() - begun, reason_in(output)


def reason_in(output: str) -> str:
    """pytest marks the lines of an error by E; the first one says it, unless the test hung."""
    marked = [line[1:].strip() for line in output.splitlines() if line.startswith("E  ")]
    last = output.strip().splitlines()[-1:]
    return (marked or last or [""])[0][:160]


def copy_of_tree(target: Path) -> Path:
    target.mkdir(parents=True)
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", ".apache"):
        if (ROOT / name).exists():
            (target / name).symlink_to(ROOT / name)
    return target


def ran(tree: Path, tests: Sequence[str]) -> tuple[int, str]:
    """A mutant may hang: that is red too, for every test has its time limit."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--timeout=100", *tests]
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS
        )
    except subprocess.TimeoutExpired:
        return RED, "it hung"
    return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    main()
