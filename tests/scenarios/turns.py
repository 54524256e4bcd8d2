"""How much nodes do between two moments at which their loops are free, in calls: the same on all machines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from highwater.sim.loop import Process
from highwater.sim.simulation import Simulation

MOST_CALLS = 40_000
"""Of functions, in one turn: some five milliseconds."""


class Turns:
    def __init__(self) -> None:
        self._calls = 0
        self.most: dict[str, int] = {}
        """By node: the most calls that one turn of its loop took."""

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self._calls += 1

    def ended(self, process: Process) -> None:
        self.most[process.name] = max(self._calls, self.most.get(process.name, 0))
        self._calls = 0


@contextmanager
def counted_turns(sim: Simulation) -> Iterator[Turns]:
    turns = Turns()
    before, sim.loop.on_turn = sim.loop.on_turn, turns.ended
    profiled = sys.getprofile()
    sys.setprofile(turns.note)
    try:
        yield turns
    finally:
        sys.setprofile(profiled)
        sim.loop.on_turn = before
