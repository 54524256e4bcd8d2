"""The simulated world: seeded, on a virtual clock, and able to crash nodes, cut links, tear files and stall disks. The
same node code runs in it.

The package may use `highwater.node` and everything below it. Start with `simulation` (the world), `cluster` (a cluster
in it) and `trial` (a seeded run with faults). `invariants` holds what is checked after every step, and `search`
explores all states of a small model.
"""

from highwater.sim.knobs import Knobs
from highwater.sim.loop import Deadlock, Livelock, SimLoop, TimeLimit
from highwater.sim.simulation import CrashPoint, NodeFailed, Simulation
from highwater.sim.storage import Storage
from highwater.sim.trace import Event, matching
from highwater.sim.world import SimWorld

__all__ = [
    "CrashPoint",
    "Deadlock",
    "Event",
    "Knobs",
    "Livelock",
    "NodeFailed",
    "SimLoop",
    "SimWorld",
    "Simulation",
    "Storage",
    "TimeLimit",
    "matching",
]
