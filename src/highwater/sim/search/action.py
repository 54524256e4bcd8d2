"""One step of a search."""

from __future__ import annotations

from typing import NamedTuple

from highwater.model import NO_NODE, NodeId
from highwater.sim.search.fault import Fault


class Action(NamedTuple):
    what: str
    node: NodeId = NO_NODE
    other: NodeId = NO_NODE
    fault: Fault | None = None
    choice: int = 0
