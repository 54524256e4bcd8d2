"""What clients were told holds: an acknowledgement is a commit, and an end that was told is not taken back."""

from __future__ import annotations

from highwater.model import TopicPartition
from highwater.sim.invariants.invariant import Invariant, Violation
from highwater.sim.view import ClusterView, NodeView, ReplicaView, Told


class AckedIsCommitted(Invariant):
    """Whatever a producer holds an acknowledgement for, some replica knows as committed; from there on the others
    guard it."""

    def __init__(self) -> None:
        self._high: dict[TopicPartition, int] = {}

    def replica(self, view: ClusterView, node: NodeView, tp: TopicPartition, replica: ReplicaView) -> None:
        if replica.high_watermark > self._high.get(tp, 0):
            self._high[tp] = replica.high_watermark

    def clients(self, view: ClusterView) -> None:
        for tp, end in view.acked.items():
            if end > self._high.get(tp, 0) and tp not in view.lossy:
                raise Violation(self, f"{tp}: acknowledged up to {end}, committed up to {self._high.get(tp, 0)}")


class ReadersNeverGoBack(Invariant):
    """The end that readers are told never goes back, unless an old leader tells it, whose epoch shows that."""

    def __init__(self) -> None:
        self._told: dict[TopicPartition, Told] = {}

    def clients(self, view: ClusterView) -> None:
        for tp, told in view.told.items():
            before = self._told.setdefault(tp, told)
            if told.epoch < before.epoch:
                continue
            if told.end < before.end and tp not in view.lossy:
                raise Violation(self, f"{tp}: readers were told {before}, then {told}")
            self._told[tp] = told
