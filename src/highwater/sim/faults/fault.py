"""One thing that goes wrong, as data."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

ANY, LEADER, CONTROLLER = "any node", "a leader", "the controller"


class Fault(NamedTuple):
    """One line of a schedule: undone `seconds` after it began. Whom it hits may be known only then."""

    at: float
    verb: str
    whom: str
    seconds: float
    draw: float
    """In [0, 1): which node, which partition, how far."""

    def text(self) -> str:
        return f"{self.at:9.4f}  {self.verb} {self.whom} for {self.seconds:.3f} s"

    def dice(self) -> Random:
        """For whatever else about it is left to chance."""
        return Random(repr(self.draw))
