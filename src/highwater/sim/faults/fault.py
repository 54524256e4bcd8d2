"""One thing that goes wrong, as data."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

ANY, LEADER, CONTROLLER = "any node", "a leader", "the controller"


class Fault(NamedTuple):
    """One line of a schedule. The fault ends `seconds` after it began. Its target may be chosen only then."""

    at: float
    verb: str
    target: str
    seconds: float
    draw: float
    """A number in [0, 1) that selects the node, the partition or the size."""

    def text(self) -> str:
        return f"{self.at:9.4f}  {self.verb} {self.target} for {self.seconds:.3f} s"

    def dice(self) -> Random:
        """For all further random choices of this fault."""
        return Random(repr(self.draw))
