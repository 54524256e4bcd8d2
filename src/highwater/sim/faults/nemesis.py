"""Carries out a schedule of faults, and ends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from highwater.metadata.cluster import MetadataImage
from highwater.model import TopicPartition
from highwater.sim.cluster import SimCluster, SimNode
from highwater.sim.faults.disks import Disks
from highwater.sim.faults.fault import Fault
from highwater.sim.faults.links import LinkFaults
from highwater.sim.faults.losses import Losses
from highwater.sim.faults.operations import Operations
from highwater.sim.faults.outages import Outages
from highwater.sim.faults.scene import Scene
from highwater.sim.faults.spoiling import Spoiling


class Nemesis:
    def __init__(
        self,
        cluster: SimCluster,
        clients: Sequence[str],
        partitions: Sequence[TopicPartition],
        truth: Callable[[], MetadataImage | None],
        flushed: bool,
    ) -> None:
        self._scene = Scene(cluster, clients, partitions, truth)
        losses = Losses(self._scene, flushed)
        self._links = LinkFaults(self._scene)
        self._outages = Outages(self._scene, losses, flushed)
        self._disks = Disks(self._scene, losses, self._outages, self._links)
        self.spoiling = Spoiling(self._scene, losses, self._outages)
        self.operations = Operations(self._scene)
        cluster.excuses = self._excuses

    @property
    def _parts(self) -> tuple[Outages, LinkFaults, Disks, Spoiling, Operations]:
        return self._outages, self._links, self._disks, self.spoiling, self.operations

    def _excuses(self, member: SimNode, failed: BaseException) -> bool:
        return self.spoiling.excuses(member, failed) or self._disks.excuses(member, failed)

    @property
    def done(self) -> list[str]:
        return self._scene.done

    @property
    def struck(self) -> Counter[str]:
        return self._scene.struck

    @property
    def met(self) -> Counter[str]:
        return self._scene.met

    def arm(self, faults: Sequence[Fault]) -> None:
        begun = self._scene.sim.now
        for fault in faults:
            self._scene.sim.at(begun + fault.at, self._strike, fault)

    def _strike(self, fault: Fault) -> None:
        name = None if self._scene.over else self._scene.target(fault)
        if name is None:
            return
        until = self._scene.sim.now + fault.seconds
        known = any(part.trouble(fault, name, until) for part in self._parts)
        assert known, f"there is no fault {fault.verb}"

    def end(self) -> None:
        """Ends all faults: cuts heal, disks work again, paused nodes resume, and nodes that are down start."""
        self._scene.over = True
        self._links.end()
        self._disks.end()
        self._outages.end()
