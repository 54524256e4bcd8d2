"""Figures of a run: medians and ratios, as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.rows import Row
from bench.workloads import Sample

RESULTS = Path(__file__).with_name("results")
_NEW_FILES = 200
_VERDICT = {None: "", True: "met", False: "missed"}
"""In the place of a ratio, where one system alone was measured."""


@dataclass
class Result:
    """All samples of one row, by system."""

    row: Row
    samples: dict[str, list[Sample]] = field(default_factory=dict)

    def median(self, system: str) -> float | None:
        values = [sample.value for sample in self.samples.get(system, ())]
        return statistics.median(values) if values else None

    def cpu(self, system: str) -> float | None:
        values = [sample.cpu for sample in self.samples.get(system, ()) if sample.cpu is not None]
        return statistics.median(values) if values else None

    def worst_lag(self, system: str) -> float | None:
        return max((sample.lag for sample in self.samples.get(system, ()) if sample.lag is not None), default=None)

    def ratio(self, ours: str, theirs: str) -> float | None:
        mine, other = self.median(ours), self.median(theirs)
        return mine / other if mine is not None and other else None

    def meets_goal(self, ours: str, theirs: str) -> bool | None:
        """Both where there are two; None where none of them can be told."""
        pairs = [(self.ratio(ours, theirs), self.row.goal), (self.median(ours), self.row.bound)]
        told = [
            value >= goal if self.row.better == "more" else value <= goal
            for value, goal in pairs
            if value is not None and goal is not None
        ]
        return all(told) if told else None

    @property
    def goal(self) -> str:
        sign = "≥" if self.row.better == "more" else "≤"
        ratio = [] if self.row.goal is None else [f"{self.row.goal:.3g}"]
        bound = [] if self.row.bound is None else [f"{figure(self.row.bound)} {self.row.unit}"]
        return ", ".join(f"{sign} {part}" for part in [*ratio, *bound])


def circumstances(nodes: int, rounds: int, directory: Path) -> dict[str, object]:
    """Where and when: without it a figure means nothing."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "nodes": nodes,
        "rounds": rounds,
        "cpus": os.cpu_count(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "new_file_us": round(_seconds_of_a_new_file(directory) * 1e6),
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


def _seconds_of_a_new_file(directory: Path) -> float:
    """What the file system takes to make one, where the systems will have their data."""
    begin = time.perf_counter()
    for at in range(_NEW_FILES):
        (directory / f"new-{at}").touch()
    return (time.perf_counter() - begin) / _NEW_FILES


def show(results: Sequence[Result], ours: str, theirs: str, told: Mapping[str, object]) -> None:
    table = Table(title=f"{ours} beside {theirs}: {told['nodes']} node(s), medians of {told['rounds']} rounds")
    table.add_column("row")
    for heading in (ours, theirs, "unit", "ratio", "goal", f"CPU s, {ours}", f"CPU s, {theirs}", "per", "lag ms"):
        table.add_column(heading, justify="right")
    for result in results:
        met = result.meets_goal(ours, theirs)
        colour = {None: "", True: "[green]", False: "[red]"}[met]
        lag = result.worst_lag(ours)
        table.add_row(
            result.row.name,
            figure(result.median(ours)),
            figure(result.median(theirs)),
            result.row.unit,
            f"{colour}{figure(result.ratio(ours, theirs)) or _VERDICT[met]}",
            result.goal,
            figure(result.cpu(ours)),
            figure(result.cpu(theirs)),
            result.row.per,
            figure(None if lag is None else lag * 1000),
        )
    console = Console(width=None if os.isatty(1) else 150)
    console.print(table)
    console.print(
        f"load average {told['load_average']} at the beginning, {told['cpus']} processors, "
        f"{told['new_file_us']} µs for a new file, {told['time']}"
    )


def figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}".replace(",", " ") if value >= 1_000 else f"{value:.3g}"


def save(results: Sequence[Result], told: Mapping[str, object], name: str) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    rows = [
        {
            "row": result.row.name,
            "unit": result.row.unit,
            "better": result.row.better,
            "goal": result.row.goal,
            "bound": result.row.bound,
            "samples": {system: [sample._asdict() for sample in of] for system, of in result.samples.items()},
            "medians": {system: result.median(system) for system in result.samples},
        }
        for result in results
    ]
    path.write_text(json.dumps({**told, "rows": rows}, indent=2))
    return path


def keep_stalls(directory: Path) -> None:
    """Save what the nodes noted of their stalls from a directory that is about to go."""
    for noted in sorted(directory.glob("*.stalls")):
        RESULTS.mkdir(exist_ok=True)
        kept = RESULTS / noted.name
        kept.write_bytes(noted.read_bytes())
        print(f"what held the loop up: {kept}")
