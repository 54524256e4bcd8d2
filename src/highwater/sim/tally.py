"""A summary of many runs. It shows whether they were worth their time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from highwater.sim.faults.profiles import USUAL
from highwater.sim.timeline import Finding
from highwater.sim.trial import SECONDS, Trial


@dataclass
class Tally:
    seeds: int = 0
    failed: list[int] = field(default_factory=list)
    virtual_seconds: float = 0.0
    steps: int = 0
    """The number of callbacks of nodes. The invariants are checked after each of them."""
    clusters: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    """Faults, by the role of the node that had them."""
    events: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)

    def run(self, seed: int, seconds: float = SECONDS, profile: str = USUAL) -> Finding | None:
        trial = Trial(seed, seconds, profile)
        found = trial()
        self.add(trial, found)
        return found

    def add(self, trial: Trial, found: Finding | None) -> None:
        self.seeds += 1
        if found is not None:
            self.failed.append(trial.seed)
        self.virtual_seconds += trial.sim.now
        self.steps += trial.watch.steps
        self.clusters.update(trial.shape.features())
        self.faults += trial.nemesis.struck
        self.met += trial.nemesis.met
        self.events += trial.watch.seen
        self.records += trial.load.seen + trial.table.seen
        self.records += Counter({f"group: {what}": count for what, count in trial.group.seen.items()})

    def text(self) -> str:
        lines = [
            f"seeds     {self.seeds}, failed {self.failed}",
            f"time      {self.virtual_seconds:.0f} virtual seconds, {self.steps} steps of nodes",
        ]
        for name in ("clusters", "faults", "met", "events", "records"):
            counts: Counter[str] = getattr(self, name)
            lines.append(f"{name:8}  " + ", ".join(f"{what} {counts[what]}" for what in sorted(counts)))
        return "\n".join(lines)
