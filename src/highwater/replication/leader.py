"""A leader's view of its partition: the in-sync replicas and the high watermark. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.model import Epoch, NodeId, Offset


class LeaderState:
    """One term of one leader. Made anew for every leader epoch."""

    def __init__(
        self,
        local: NodeId,
        epoch: Epoch,
        epoch_start: Offset,
        replicas: Sequence[NodeId],
        isr: Sequence[NodeId],
    ) -> None:
        self.local = local
        self.epoch = epoch
        self.epoch_start = epoch_start
        self.replicas = tuple(replicas)
        self.isr = tuple(isr)
        self._ends: dict[NodeId, Offset] = {}
        """How far each follower has told us it is, by the offset of its last fetch in this epoch."""

    def isr_changed(self, isr: Sequence[NodeId]) -> None:
        self.isr = tuple(isr)

    def enough_in_sync(self, min_insync_replicas: int) -> bool:
        """A topic with fewer replicas than min.insync.replicas asks only for what it has."""
        return len(self.isr) >= min(min_insync_replicas, len(self.replicas))

    def high_watermark(self, local_end: Offset, current: Offset, min_insync_replicas: int) -> Offset:
        """What every in-sync replica has. Never goes back; frozen below min.insync.replicas (KAFKA-15583)."""
        if not self.enough_in_sync(min_insync_replicas):
            return current
        lowest = local_end
        for replica in self.isr:
            if replica != self.local:
                lowest = min(lowest, self._ends.get(replica, -1))
        return max(lowest, current)
