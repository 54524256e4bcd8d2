"""See whether the kept seeds still find their faults, and look for others where they do not.

`python tests/mutations/hunt.py --write` after a change that gave every seed another story.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.mutations.copies import copy_of_tree
from tests.mutations.hunts import MENDS
from tests.mutations.mutation import ROOT
from tests.sim.hunts import HUNTS, Hunt

LIST = ROOT / "tests/sim/hunts.py"
SEARCH = """
import sys
from highwater.sim.trial import Trial
for count, seed in enumerate(sys.argv[2:], 1):
    found = Trial(int(seed), profile=sys.argv[1])()
    if found is not None:
        print(f"{seed} {count} {found.faults[0].strip().splitlines()[-1]}")
        sys.exit(0)
sys.exit(1)
"""


@click.command()
@click.option("--only", help="Only these hunts, separated by commas, by the beginning of their names: F1,F9 made.")
@click.option("--profile", help="The faults to draw from; else those that found it the last time.")
@click.option("--seeds", default=500, show_default=True, help="How many to try, beside the one that is kept.")
@click.option("--write", is_flag=True, help="Put the new seeds into tests/sim/hunts.py.")
def main(only: str | None, profile: str | None, seeds: int, write: bool) -> None:
    """Exits with 0 if each fault was found."""
    kept = {hunt.name: hunt for hunt in HUNTS}
    wanted = [name for name in MENDS if only is None or any(name.startswith(each) for each in only.split(","))]
    missed = 0
    for name in wanted if only is not None else kept:
        known = kept.get(name, Hunt(name, "all", 0))
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="highwater-hunt-") as home:
            tree = copy_of_tree(Path(home) / "tree")
            for mend in MENDS[name]:
                mend.apply(tree)
            hunt, said = searched(tree, known._replace(profile=profile or known.profile), seeds)
        missed += hunt is None
        click.echo(f"{name}: {said} ({time.monotonic() - begun:.0f} s)")
        if write and hunt is not None:
            put(hunt)
    sys.exit(1 if missed else 0)


def searched(tree: Path, kept: Hunt, seeds: int) -> tuple[Hunt | None, str]:
    """The kept seed first, then the others in their order."""
    numbers = [kept.seed, *(seed for seed in range(seeds) if seed != kept.seed)]
    command = [sys.executable, "-c", SEARCH, kept.profile, *map(str, numbers)]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    ran = subprocess.run(command, env=environment, cwd=tree, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        return None, f"{kept.profile}: not found by {seeds} seeds\n{ran.stderr[-1000:]}"
    seed, count, why = ran.stdout.strip().split(" ", 2)
    return kept._replace(seed=int(seed)), f"{kept.profile}, seed {seed}, no. {count} of those tried: {why}"


def put(hunt: Hunt) -> None:
    line = f'Hunt("{hunt.name}", "{hunt.profile}", {hunt.seed})'
    LIST.write_text(re.sub(rf'Hunt\("{re.escape(hunt.name)}", "[a-z-]+", \d+\)', line, LIST.read_text()))


if __name__ == "__main__":
    main()
