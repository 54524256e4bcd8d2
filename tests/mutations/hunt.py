"""Look for seeds that find a fault whose mend is taken back: `python tests/mutations/hunt.py --only F6 --seeds 500`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.mutations.hunts import MENDS
from tests.mutations.run import copy_of_tree
from tests.sim.hunts import HUNTS

PROFILES = {hunt.name: hunt.profile for hunt in HUNTS}
SEARCH = """
import sys
from highwater.sim.trial import Trial
profile, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for seed in range(first, first + count):
    found = Trial(seed, profile=profile)()
    if found is not None:
        print(f"seed {seed}, after {seed - first + 1}: {found.faults[0].strip().splitlines()[-1]}")
        sys.exit(0)
print(f"not within {count} seeds")
sys.exit(1)
"""


@click.command()
@click.option("--only", help="Only these hunts, separated by commas, by the beginning of their names: F1,F9 told.")
@click.option("--profile", help="The faults to draw from; else those that found it the last time.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--seeds", default=500, show_default=True, help="How many of them at most.")
def main(only: str | None, profile: str | None, first: int, seeds: int) -> None:
    """Exits with 0 if each fault was found. The seeds belong into tests/sim/hunts.py."""
    wanted = [name for name in MENDS if only is None or any(name.startswith(each) for each in only.split(","))]
    missed = 0
    for name in wanted:
        begun = time.monotonic()
        drawn_from = profile or PROFILES.get(name, "all")
        with tempfile.TemporaryDirectory(prefix="highwater-hunt-") as home:
            tree = copy_of_tree(Path(home) / "tree")
            for mend in MENDS[name]:
                mend.apply(tree)
            environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
            command = [sys.executable, "-c", SEARCH, drawn_from, str(first), str(seeds)]
            ran = subprocess.run(command, env=environment, cwd=tree, capture_output=True, text=True, check=False)
        missed += ran.returncode != 0
        said = ran.stdout.strip() or ran.stderr.strip()[-500:]
        click.echo(f"{name}, {drawn_from}: {said} ({time.monotonic() - begun:.0f} s)")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
