"""What all faults of a run share: the cluster, what was done, and whether the run is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from highwater.metadata.cluster import MetadataImage
from highwater.model import TopicPartition
from highwater.sim.cluster import SimCluster
from highwater.sim.faults.fault import CONTROLLER, LEADER, Fault

STARTS = "a node that starts"


class Scene:
    def __init__(
        self,
        cluster: SimCluster,
        clients: Sequence[str],
        partitions: Sequence[TopicPartition],
        truth: Callable[[], MetadataImage | None],
    ) -> None:
        self.cluster = cluster
        self.sim = cluster.sim
        self.clients = clients
        self.partitions = partitions
        self.truth = truth
        self.paused: dict[str, None] = {}
        self.over = False
        self.done: list[str] = []
        self.struck: Counter[str] = Counter()
        """How often each kind of fault happened. A fault has no effect if its node is spared or already down."""
        self.met: Counter[str] = Counter()
        """The same, by the role of the node."""

    def say(self, text: str) -> None:
        self.done.append(f"{self.sim.now:9.4f}  {text}")
        self.cluster.note("FAULT", text)

    def count(self, kind: str, state: str) -> None:
        """A fault of that kind has happened to a node in that state."""
        self.struck[kind] += 1
        self.met[f"{kind} of {state}"] += 1

    def state_of(self, name: str) -> str:
        """The most important role of a node at present."""
        if not self.cluster.is_up(name):
            return "nobody"
        if not self.cluster.members[name].serves:
            return STARTS
        if name == self.cluster.active_controller():
            return "the controller"
        leads = any(self.cluster.leader_of(partition) == name for partition in self.partitions)
        return "a leader" if leads else "a follower"

    def target(self, fault: Fault) -> str | None:
        up = [name for name in self.cluster.names if self.cluster.is_up(name) and name not in self.paused]
        if not up:
            return None
        found: str | None = None
        if fault.target == CONTROLLER:
            found = self.cluster.active_controller()
        elif fault.target == LEADER:
            found = self.cluster.leader_of(self.partitions[int(fault.draw * len(self.partitions))])
        return found if found in up else up[int(fault.draw * len(up))]
