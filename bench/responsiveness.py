"""Does a node answer at all times? ApiVersions every 10 ms while it does what takes long.

An answer may be late by what the machine withheld from a spinning control process while it was under way, and by no
more than 50 ms beyond that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from bench import report, workloads
from bench.systems import Highwater, System
from highwater.client import Admin, Client
from highwater.client.admin import ResourceType

ALLOWED = 0.05
ASKED_EVERY = 0.01
SETTINGS = {
    "log.retention.check.interval.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "3600000",
    "log.segment.delete.delay.ms": "1000",
}
"""Retention soon after it is asked for; no checkpoint, so that a recovery reads all."""


@dataclass
class Phase:
    """Seconds, all but the counts."""

    name: str
    lasted: float
    answers: int
    median: float
    p999: float
    worst: float
    control_worst: float
    excess: float
    """The worst of: an answer's time less what the control lost within it."""
    lag: float | None


@dataclass
class Scale:
    recovered_mb: int
    segments: int
    partitions: int
    cold_mb: int


QUICK, FULL = Scale(200, 60, 200, 100), Scale(2_000, 400, 500, 1_000)


def run(directory: Path, quick: bool, stalls: bool) -> None:
    scale = QUICK if quick else FULL
    system = Highwater(directory / "responsive", 1, SETTINGS, stalls=stalls)
    phases: list[Phase] = []
    try:
        system.start()
        for measure in (recovery, rolling, retention, creation, cold_reads):
            click.echo(f"{time.strftime('%H:%M:%S')} {measure.__name__}", err=True)
            phases.append(measure(system, scale))
    finally:
        system.stop()
    show(phases)
    report.RESULTS.mkdir(exist_ok=True)
    path = report.RESULTS / f"responsiveness-{time.strftime('%Y%m%d-%H%M%S')}.json"
    told = report.circumstances(1, 1, directory)
    path.write_text(json.dumps({**told, "phases": [asdict(phase) for phase in phases]}, indent=2))
    click.echo(f"written to {path}")
    report.keep_stalls(system.directory)


# What takes long


def recovery(system: System, scale: Scale) -> Phase:
    """Started again after kill -9 on a large log: the listener opens at once, and all but ApiVersions waits."""
    topic = system.create_topic(12)
    workloads.produce(system, topic, scale.recovered_mb * 1000, 1000)
    system.kill()
    return watched("recovery after kill -9", system, lambda: ignore(system.start()))


def rolling(system: System, scale: Scale) -> Phase:
    """Writing many small segments, which the next phase has to delete."""
    settings = {"segment.bytes": str(1 << 20), "retention.ms": "-1", "file.delete.delay.ms": "1000"}
    topic = system.create_topic(3, settings)
    _rolled[id(system)] = topic
    records = scale.segments * 1049
    return watched("segments rolled", system, lambda: ignore(workloads.produce(system, topic, records, 1000)))


def retention(system: System, scale: Scale) -> Phase:
    topic = _rolled.pop(id(system))

    def delete() -> None:
        with Client(system.bootstrap) as client:
            Admin(client).alter_configs(ResourceType.TOPIC, topic, put={"retention.bytes": "1"})
        wait_until(lambda: segments_of(system, topic) <= 3)

    return watched("retention of many segments", system, delete)


def creation(system: System, scale: Scale) -> Phase:
    name = f"creation of {scale.partitions} partitions"
    return watched(name, system, lambda: ignore(system.create_topic(scale.partitions)))


def cold_reads(system: System, scale: Scale) -> Phase:
    topic = system.create_topic(3)
    records = scale.cold_mb * 1000
    workloads.produce(system, topic, records, 1000)
    evict(system)
    return watched("cold reads", system, lambda: ignore(workloads.consume(system, topic, 3, records, 1000)))


_rolled: dict[int, str] = {}


def ignore(_: object) -> None:
    """A measure is run for what it does, not for its figure."""


def segments_of(system: System, topic: str) -> int:
    """Those not yet gone, with the ones renamed for deletion."""
    return sum(1 for home in system.log_dirs() for _ in home.glob(f"{topic}-*/*.log*"))


def evict(system: System) -> None:
    """Have the kernel forget all segments: only what is on disk can be forgotten."""
    for home in system.log_dirs():
        for path in home.glob("*/*.log"):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def wait_until(done: Callable[[], bool], patience: float = 120.0) -> None:
    deadline = time.monotonic() + patience
    while not done():
        if time.monotonic() > deadline:
            raise RuntimeError("it did not happen in time")
        time.sleep(0.1)


# Watching


def watched(name: str, system: System, work: Callable[[], None]) -> Phase:
    system.take_lag()
    begin = time.monotonic()
    with watchers(system) as files:
        work()
        lasted = time.monotonic() - begin
        time.sleep(0.2)
    answers, gaps = (pairs_of(path) for path in files)
    if len(answers) < lasted / ASKED_EVERY / 2:
        raise RuntimeError(f"{name}: {len(answers)} answers in {lasted:.1f} s: half of the time nobody was there")
    taken = sorted(answered - sent for sent, answered in answers)
    return Phase(
        name,
        lasted,
        len(answers),
        median=taken[len(taken) // 2],
        p999=taken[min(int(len(taken) * 0.999), len(taken) - 1)],
        worst=taken[-1],
        control_worst=max((end - start for start, end in gaps), default=0.0),
        excess=max(beyond(gaps, answers)),
        lag=system.take_lag(),
    )


@contextmanager
def watchers(system: System) -> Iterator[tuple[Path, Path]]:
    program = str(Path(__file__).with_name("watch.py"))
    answers, gaps = system.directory / "answers", system.directory / "gaps"
    commands = (["ask", system.bootstrap, str(answers)], ["spin", str(gaps)])
    running = [subprocess.Popen([sys.executable, program, *command]) for command in commands]
    try:
        time.sleep(0.2)
        yield answers, gaps
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(10)


def pairs_of(path: Path) -> list[tuple[float, float]]:
    values = array("q", path.read_bytes())
    return [(values[at] / 1e9, values[at + 1] / 1e9) for at in range(0, len(values), 2)]


def beyond(gaps: list[tuple[float, float]], answers: list[tuple[float, float]]) -> Iterator[float]:
    """For each answer, its time less what the control lost within it."""
    ends = [end for _, end in gaps]
    assert all(first <= second for first, second in pairwise(ends))
    for sent, answered in answers:
        lost = 0.0
        for start, end in gaps[bisect_left(ends, sent) :]:
            if start >= answered:
                break
            lost += min(end, answered) - max(start, sent)
        yield answered - sent - lost


def show(phases: list[Phase]) -> None:
    table = Table(title="ApiVersions every 10 ms, in milliseconds")
    table.add_column("while")
    headings = ("s", "answers", "median", "p99.9", "worst", "control's worst", "worst excess", "loop lag", "")
    for heading in headings:
        table.add_column(heading, justify="right")
    for phase in phases:
        good = phase.excess <= ALLOWED
        figures = (phase.median, phase.p999, phase.worst, phase.control_worst, phase.excess)
        table.add_row(
            phase.name,
            f"{phase.lasted:.1f}",
            str(phase.answers),
            *(f"{value * 1000:.1f}" for value in figures),
            "" if phase.lag is None else f"{phase.lag * 1000:.1f}",
            "[green]ok" if good else f"[red]> {ALLOWED * 1000:.0f}",
        )
    Console(width=None if os.isatty(1) else 150).print(table)
