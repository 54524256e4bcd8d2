"""The simulated world: seeded, virtual, and able to crash, cut, tear and stall. The same node code runs in it."""

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
