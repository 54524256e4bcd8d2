"""Which disk may lose data. Kafka keeps a record as long as one member of the ISR has it, so one disk at a time may.

A power cut loses unsynced data; rotten bytes or a replaced disk lose synced data. Data may be lost while all other
replicas have everything and can be reached, and no other node may crash or stop before the loss is repaired. A replica
that is cut off may be fenced first, which leaves the ISR to the one that lost its data. Kafka treats every unclean
restart as a loss: if every replica was restarted uncleanly, the last known leader leads, even if its disk lost data
(KIP-966). A node that stops in order leaves the ISR to the others, even to one that is dead without the controller's
knowledge.
"""

from __future__ import annotations

from highwater.metadata.cluster import MetadataImage
from highwater.sim.cluster import SimCluster
from highwater.sim.faults.scene import Scene


class Losses:
    def __init__(self, scene: Scene, flushed: bool) -> None:
        """`flushed`: every topic is synced before it is acknowledged."""
        self._scene = scene
        self._cluster: SimCluster = scene.cluster
        self._flushed = flushed
        self._lost: dict[str, int] = {}
        """Nodes that lost data, with their broker epoch at that time."""

    def keeps_only_synced(self, name: str) -> bool:
        """Metadata counts only after a sync, and in flush mode so does every record: a power cut loses nothing of
        them."""
        return self._flushed or not self._cluster.members[name].is_broker

    def may_lose_power(self, name: str) -> bool:
        """Whether the memory of its kernel may be lost together with the process."""
        return self.keeps_only_synced(name) or self.may_lose(name)

    def may_lose(self, name: str) -> bool:
        """Whether its disk may lose data that counts."""
        self._forget_healed()
        truth = self._scene.truth()
        if self._lost or truth is None or not all(self._is_counted(each, truth) for each in self._cluster.names):
            return False
        return all(len(part.isr) == len(part.replicas) for _, _, part in truth.topics.each_partition())

    def _is_counted(self, name: str, truth: MetadataImage) -> bool:
        """It serves, and metadata knows its present life: an ISR may still refer to an earlier life."""
        member = self._cluster.members[name]
        if not member.serves or not self._cluster.is_up(name) or member.node is None or not self._is_reached(name):
            return False
        known, broker = truth.brokers.get(member.id), member.node.broker
        return broker is None or (known is not None and known.epoch == broker.lifecycle.epoch)

    def _is_reached(self, name: str) -> bool:
        link = self._scene.sim.network.link
        others = [other for other in self._cluster.names if other != name]
        return name not in self._scene.paused and not any(
            link(name, other).cut or link(other, name).cut for other in others
        )

    def may_crash(self, name: str) -> bool:
        self._forget_healed()
        return not self._cluster.members[name].is_broker or all(other == name for other in self._lost)

    def lost_power(self, name: str) -> None:
        if not self.keeps_only_synced(name):
            self.lost(name)

    def lost(self, name: str) -> None:
        truth = self._scene.truth()
        broker = None if truth is None else truth.brokers.get(int(name[1:]))
        self._lost[name] = -1 if broker is None else broker.epoch

    def text(self) -> str:
        return ", ".join(self._lost)

    def _forget_healed(self) -> None:
        """A broker that lost data counts again when it has registered again, is in every ISR that it belongs to, and
        has no damaged file left."""
        truth = self._scene.truth()
        for name, epoch in list(self._lost.items()):
            node = int(name[1:])
            broker = None if truth is None else truth.brokers.get(node)
            if truth is None or broker is None or broker.epoch <= epoch or not self._cluster.is_up(name):
                continue
            in_sync = all(node in part.isr for _, _, part in truth.topics.each_partition() if node in part.replicas)
            if in_sync and not self._scene.sim.storage(name).damaged():
                del self._lost[name]
