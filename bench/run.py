"""Highwater beside Apache Kafka, in one run: `python bench/run.py`, or `--quick` for a look. See bench/README.md."""

from __future__ import annotations

import contextlib
import os
import pstats
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import plot, report, responsiveness
from bench.cluster_start import cluster_starts
from bench.report import Result
from bench.rows import CLUSTER_START, IDLE_MEMORY, START, WORKED_MEMORY, Row, Workload, workload_table
from bench.systems import JVM_OPTIONS, Apache, Highwater, System
from bench.workloads import Sample, warm_up
from tests.apache import why_unavailable

SETTLE_SECONDS = 2.0
CALM_SECONDS = 10.0
OURS, THEIRS = Highwater.name, Apache.name
STARTS = ("start", "cluster-start")
"""Workloads without a cluster to run on: they are about starting one."""


@click.command()
@click.option("--quick", is_flag=True, help="Fewer rows, fewer records, fewer rounds.")
@click.option("--rows", help="Only these workloads, by name, separated by commas; see --list.")
@click.option("--rounds", type=int, help="How often each row is measured on each system (5; with --quick 2).")
@click.option("--nodes", default=1, show_default=True, help="Nodes of each system.")
@click.option("--only", type=click.Choice(["highwater", "apache"]), help="One system alone.")
@click.option("--jvm-options", default=JVM_OPTIONS, help="For Apache Kafka; those of its own start script if left out.")
@click.option("--responsive/--no-responsive", "responsive", default=None,
              help="Whether a node answers at all times. Done unless rows are named.")  # fmt: skip
@click.option("--profile", metavar="ROWS", help="Instead: where our node spends its time in these workloads.")
@click.option("--stalls", is_flag=True, help="Note what held our loop up, in bench/results (slows it a little).")
@click.option("--list", "listing", is_flag=True, help="Name the workloads and their rows.")
def main(
    quick: bool,
    rows: str | None,
    rounds: int | None,
    nodes: int,
    only: str | None,
    jvm_options: str,
    responsive: bool | None,
    profile: str | None,
    stalls: bool,
    listing: bool,
) -> None:
    """Measure both systems by turns on this machine and show the ratios."""
    table = workload_table(quick, nodes)
    if listing:
        for name, row in zip(STARTS, (START, CLUSTER_START), strict=True):
            click.echo(f"{name:<15} {row.name}")
        for workload in table:
            click.echo(f"{workload.name:<15} {'; '.join(row.name for row in workload.rows)}")
        return
    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as home:
        directory = Path(home)
        if profile is not None:
            profile_node(directory, nodes, _chosen(table, profile))
            return
        if rows != "":
            bench = Bench(directory, nodes, rounds or (2 if quick else 5), only, jvm_options, stalls)
            bench.run(_chosen(table, rows), _asked("start", rows), nodes > 1 and _asked("cluster-start", rows))
        if responsive or (responsive is None and rows is None and only != "apache"):
            responsiveness.run(directory, quick, stalls)


def _asked(name: str, rows: str | None) -> bool:
    return rows is None or name in rows.split(",")


def _chosen(table: Sequence[Workload], names: str | None) -> list[Workload]:
    if names is None:
        return list(table)
    wanted = [name for name in names.split(",") if name and name not in STARTS]
    known = {workload.name: workload for workload in table}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise click.UsageError(f"no workload {', '.join(unknown)}; there are {', '.join([*STARTS, *known])}")
    return [known[name] for name in wanted]


class Bench:
    """Both systems by turns, so that whatever else the machine does meets both."""

    def __init__(
        self, directory: Path, nodes: int, rounds: int, only: str | None, jvm_options: str, stalls: bool
    ) -> None:
        self._directory = directory
        self._nodes = nodes
        self._rounds = rounds
        self._jvm_options = jvm_options
        self._stalls = stalls
        self._names = [name for name in (OURS, THEIRS) if only is None or name.lower().startswith(only)]
        self._fresh = 0
        self._results: dict[str, Result] = {}
        if THEIRS in self._names and (why := why_unavailable()):
            raise click.ClickException(why)

    def run(self, workloads: Sequence[Workload], start: bool, cluster_start: bool) -> None:
        told = report.circumstances(self._nodes, self._rounds, self._directory)
        if start:
            self._starts()
        if cluster_start and OURS in self._names:
            for ready, _ in cluster_starts(self._rounds):
                self._add(CLUSTER_START, OURS, Sample(ready))
        try:
            if shared := [workload for workload in workloads if not workload.fresh]:
                self._works(shared)
            for workload in workloads:
                if workload.fresh:
                    self._works_alone(workload)
        finally:
            self._tell(told)  # half an hour's figures are worth having though a workload failed

    def _tell(self, told: dict[str, object]) -> None:
        results = list(self._results.values())
        report.show(results, OURS, THEIRS, told)
        saved = report.save(results, told, f"nodes-{self._nodes}")
        plot.draw(results, OURS, THEIRS, saved.with_suffix(".svg"))
        click.echo(f"written to {saved} and {saved.with_suffix('.svg').name}")

    def _starts(self) -> None:
        """Each time in a new directory; the plain command, with nothing of ours inside the nodes."""
        for at in range(self._rounds):
            for name in self._turn(at):
                system = self._system(name, measured=False)
                try:
                    self._add(START, name, Sample(system.start()))
                    time.sleep(SETTLE_SECONDS)
                    self._add(IDLE_MEMORY, name, Sample(system.memory() / 1e6))
                finally:
                    system.stop()

    def _works(self, workloads: Sequence[Workload]) -> None:
        with self._running() as systems:
            for workload in workloads:
                click.echo(f"{time.strftime('%H:%M:%S')} {workload.name}", err=True)
                self._work(workload, systems)
            for name, system in systems.items():
                self._add(WORKED_MEMORY, name, Sample(system.memory() / 1e6))

    def _work(self, workload: Workload, systems: Mapping[str, System]) -> None:
        with contextlib.ExitStack() as stack:
            runs = {name: stack.enter_context(workload.on(system)) for name, system in systems.items()}
            for run in runs.values():
                run()  # unmeasured: connections, caches and the JVM's compiler warm up
            for at in range(self._rounds * workload.turns):
                for name in self._turn(at):
                    if at % workload.turns == 0:
                        _await_calm(systems.values())
                        warm_up(systems[name])
                    self._add_all(workload, name, runs[name]())

    def _works_alone(self, workload: Workload) -> None:
        """One system at a time: three nodes of the other one beside it would take their share of the machine."""
        click.echo(f"{time.strftime('%H:%M:%S')} {workload.name}", err=True)
        for at in range(self._rounds):
            for name in self._turn(at):
                system = self._system(name, measured=self._stalls)
                try:
                    system.start()
                    time.sleep(SETTLE_SECONDS)
                    with workload.on(system) as run:
                        self._add_all(workload, name, run())
                finally:
                    system.stop()
                    report.keep_stalls(system.directory)

    @contextlib.contextmanager
    def _running(self) -> Iterator[dict[str, System]]:
        systems: dict[str, System] = {}
        try:
            for name in self._names:
                systems[name] = self._system(name, measured=True)
                systems[name].start()
            yield systems
        finally:
            for system in systems.values():
                system.stop()
                report.keep_stalls(system.directory)

    def _system(self, name: str, *, measured: bool) -> System:
        self._fresh += 1
        directory = self._directory / str(self._fresh)
        if name == OURS:
            return Highwater(directory, self._nodes, measured=measured, stalls=self._stalls)
        return Apache(directory, self._nodes, jvm_options=self._jvm_options)

    def _turn(self, at: int) -> list[str]:
        """Who goes first changes from round to round."""
        return self._names if at % 2 == 0 else self._names[::-1]

    def _add_all(self, workload: Workload, system: str, samples: Sequence[Sample]) -> None:
        for row, sample in zip(workload.rows, samples, strict=True):
            self._add(row, system, sample)

    def _add(self, row: Row, system: str, sample: Sample) -> None:
        self._results.setdefault(row.name, Result(row)).samples.setdefault(system, []).append(sample)


def _await_calm(systems: Iterable[System]) -> None:
    """Until neither system works, deleted topics are gone and the disk rests: what one has written, compiles or
    collects must not burden the other."""
    os.sync()
    until = time.monotonic() + CALM_SECONDS
    while time.monotonic() < until:
        before = sum(system.cpu_seconds() for system in systems)
        time.sleep(0.25)
        spent = sum(system.cpu_seconds() for system in systems) - before
        if spent < 0.04 and not any(system.deletes for system in systems):
            return


def profile_node(directory: Path, nodes: int, workloads: Sequence[Workload]) -> None:
    """Each workload twice: unprofiled for its figure, then under cProfile on the loop's thread."""
    system = Highwater(directory / "profiled", nodes)
    try:
        system.start()
        for workload in workloads:
            with workload.on(system) as run:
                run()
                for row, sample in zip(workload.rows, run(), strict=True):
                    click.echo(f"{row.name}: {report.figure(sample.value)} {row.unit} unprofiled")
                system.profile(True)
                run()
                paths = system.profile(False)
            for path in paths:
                pstats.Stats(str(path)).sort_stats("tottime").print_stats(35)
    finally:
        system.stop()


if __name__ == "__main__":
    main()
