"""Promises to clients: an acknowledged record is committed, and an end offset that a client has seen is never taken
back."""

from __future__ import annotations

from highwater.model import TopicPartition
from highwater.sim.invariants.invariant import Invariant, Violation
from highwater.sim.view import ClusterView, NodeView, ReplicaView, ReportedEnd


class AckedIsCommitted(Invariant):
    """If a producer has an acknowledgement, some replica knows the record as committed. Other invariants guard it from
    there on."""

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
    """The end offset that readers see never moves back, unless it comes from an old leader, whose epoch shows that."""

    def __init__(self) -> None:
        self._reported: dict[TopicPartition, ReportedEnd] = {}

    def clients(self, view: ClusterView) -> None:
        for tp, reported in view.reported_ends.items():
            before = self._reported.setdefault(tp, reported)
            if reported.epoch < before.epoch:
                continue
            if reported.end < before.end and tp not in view.lossy:
                raise Violation(self, f"{tp}: readers got {before}, then {reported}")
            self._reported[tp] = reported
