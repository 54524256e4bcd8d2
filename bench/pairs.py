"""This tree beside another one, by turns: `python bench/pairs.py --before ../older-clone`. See bench/README.md."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.rows import Row, Workload, workload_table
from bench.systems import Highwater
from bench.workloads import Sample, warm_up

ROWS = "produce-100x1,sync,single"
HERE = Path(__file__).parents[1]
Pair = tuple[Sample, Sample]


@click.command()
@click.option("--before", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True,
              help="The other tree: a clone in which `make setup` was done.")  # fmt: skip
@click.option("--rows", default=ROWS, show_default=True, help="Workloads, by their names in bench/run.py --list.")
@click.option("--pairs", default=10, show_default=True, help="How often each row is measured on each tree.")
@click.option("--nodes", default=1, show_default=True, help="Nodes of each cluster.")
@click.option("--quick", is_flag=True, help="A quarter of the records.")
def main(before: Path, rows: str, pairs: int, nodes: int, quick: bool) -> None:
    """Measure both trees by turns on this machine, and show the ratio of each pair: above 1, this tree is better."""
    table = {workload.name: workload for workload in workload_table(quick, nodes)}
    names = rows.split(",")
    if unknown := [name for name in names if name not in table]:
        raise click.UsageError(f"no workload {', '.join(unknown)}; there are {', '.join(table)}")
    with tempfile.TemporaryDirectory(prefix="highwater-pairs-") as home, ExitStack() as stack:
        trees = {"before": before.resolve(), "after": HERE}
        systems = [Highwater(Path(home) / name, nodes, measured=False, tree=tree) for name, tree in trees.items()]
        for system in systems:
            stack.callback(system.stop)
            system.start()
        for name in names:
            _measure(table[name], systems, pairs)


def _measure(workload: Workload, systems: list[Highwater], pairs: int) -> None:
    with ExitStack() as stack:
        runs = [stack.enter_context(workload.on(system)) for system in systems]
        for run in runs:
            run()  # unmeasured: connections and caches warm up
        found: list[list[list[Sample]]] = [[], []]
        for at in range(pairs):
            for which in (0, 1) if at % 2 == 0 else (1, 0):
                warm_up(systems[which])
                found[which].append(list(runs[which]()))
    for index, row in enumerate(workload.rows):
        samples = [(before[index], after[index]) for before, after in zip(*found, strict=True)]
        click.echo(_line(row, samples))


def _line(row: Row, pairs: list[Pair]) -> str:
    values = [_ratio(row, before.value, after.value) for before, after in pairs]
    cpu = [after.cpu / before.cpu for before, after in pairs if before.cpu and after.cpu]
    medians = [statistics.median(sample.value for sample in side) for side in zip(*pairs, strict=True)]
    text = f"{time.strftime('%H:%M:%S')} {row.name:<42} before {medians[0]:.4g} after {medians[1]:.4g} {row.unit}"
    return f"{text}  ratio {_spread(values)}  CPU {_spread(cpu)}"


def _ratio(row: Row, before: float, after: float) -> float:
    return after / before if row.better == "more" else before / after


def _spread(values: list[float]) -> str:
    if len(values) < 2:
        return "-"
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.3f} [{low:.3f} {high:.3f}]"


if __name__ == "__main__":
    main()
