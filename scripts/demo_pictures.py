"""Draws the pictures of docs/demo.md: the demo's screen at four moments of a real run.

.venv/bin/python scripts/demo_pictures.py docs            # docs/demo-1.svg to docs/demo-4.svg, 100 columns
.venv/bin/python scripts/demo_pictures.py /tmp/narrow 60  # the same moments in 60 columns
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from highwater.cli.demo.command import BROKERS, SETTINGS
from highwater.cli.demo.interrupts import Interrupts
from highwater.cli.demo.plan import Plan
from highwater.cli.demo.progress import DemoProgress
from highwater.cli.demo.run import Demo
from highwater.cli.demo.screen import Screen
from highwater.cli.demo.spark import SparkPipeline
from highwater.cli.keys import Keys
from highwater.cli.local_cluster import LocalCluster
from highwater.cluster.ports import free_ports

HEIGHT = 28
OUTSIDE_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""A picture in a repository loads nothing from elsewhere."""
MOMENTS = (
    "is killed with SIGKILL: watch its lane",
    "next write acknowledged after",
    "it fetches what it has missed",
    "is in sync again",
)
"""A picture is taken when the caption has this in it, in this order."""
SETTLE_SECONDS = 2.5
"""After the caption has come: its effect is then seen in the lanes."""


class Photographer(Screen):
    """Nothing is shown; a picture is kept at each moment, and after the last one the run ends."""

    def __init__(self, progress: DemoProgress, interrupts: Interrupts, target: Path, width: int) -> None:
        self._paper = Console(record=True, width=width, height=HEIGHT, file=io.StringIO(), force_terminal=True)
        super().__init__(self._paper, progress, None, with_spark=True, has_keys=True)
        self._target = target
        self._seen = progress
        self._interrupts = interrupts
        self._taken = 0
        self._due: float | None = None

    def __enter__(self) -> Photographer:
        return self

    def refresh(self, now: bool = False) -> None:
        if self._taken == len(MOMENTS):
            return
        if self._due is None and any(MOMENTS[self._taken] in line for line in self._seen.caption):
            self._due = time.monotonic() + SETTLE_SECONDS
        if self._due is not None and time.monotonic() >= self._due:
            self._due = None
            self._taken += 1
            self._draw()
            if self._taken == len(MOMENTS):
                self._interrupts.ask()

    def _draw(self) -> None:
        self._paper.print(self.picture())
        name = f"demo-{self._taken}"
        picture = self._paper.export_svg(title="make run", unique_id=name)
        (self._target / f"{name}.svg").write_text(OUTSIDE_FONTS.sub("", picture))
        print(f"{name}.svg")


def main(target: Path, width: int) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, Interrupts() as interrupts:
        home, progress = Path(folder), DemoProgress()
        cluster = LocalCluster(home, BROKERS, free_ports(BROKERS), SETTINGS)
        try:
            cluster.start()
            spark = SparkPipeline(cluster.bootstrap, home, home / "table", progress)
            screen = Photographer(progress, interrupts, target, width)
            Demo(Plan(None), cluster, spark, progress, screen, Keys(), interrupts).run()
        finally:
            cluster.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100)
