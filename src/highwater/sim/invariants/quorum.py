"""The metadata quorum: elections are safe, and what it committed stays the same on every node."""

from __future__ import annotations

from highwater.metadata.cluster import MetadataImage
from highwater.sim.invariants.invariant import Invariant, Violation
from highwater.sim.invariants.matching import Matching
from highwater.sim.view import ClusterView, NodeView


class OneQuorumLeader(Invariant):
    """At most one node leads a quorum epoch, ever, and in one life only (KAFKA-10527)."""

    def __init__(self) -> None:
        self._leaders: dict[int, tuple[int, int]] = {}

    def node(self, view: ClusterView, node: NodeView) -> None:
        if node.quorum.leads and node.quorum.epoch is not None:
            leader = self._leaders.setdefault(node.quorum.epoch, (node.id, node.life))
            if leader != (node.id, node.life):
                raise Violation(self, f"{leader} and {(node.id, node.life)} lead quorum epoch {node.quorum.epoch}")


class QuorumEpochRises(Invariant):
    """A node's quorum epoch never goes back, crashes included, while it has its disk."""

    def __init__(self) -> None:
        self._epochs: dict[tuple[int, int], int] = {}

    def node(self, view: ClusterView, node: NodeView) -> None:
        epoch, before = node.quorum.epoch, self._epochs.get((node.id, node.disk), 0)
        if epoch is None:
            return
        if epoch < before:
            raise Violation(self, f"node {node.id} went back from epoch {before} to {epoch}")
        self._epochs[node.id, node.disk] = epoch


class OneVote(Invariant):
    """A voter gives one vote in an epoch, even over crashes."""

    def __init__(self) -> None:
        self._votes: dict[tuple[int, int], int] = {}

    def node(self, view: ClusterView, node: NodeView) -> None:
        quorum = node.quorum
        if quorum.epoch is not None and quorum.vote is not None:
            vote = self._votes.setdefault((node.id, quorum.epoch), quorum.vote)
            if vote != quorum.vote:
                raise Violation(self, f"{node.id} voted for {vote} and {quorum.vote} in epoch {quorum.epoch}")


class OneActiveController(Invariant):
    """An epoch has at most one active controller: the leader that the quorum elected in it."""

    def __init__(self) -> None:
        self._leaders: dict[int, int] = {}

    def node(self, view: ClusterView, node: NodeView) -> None:
        quorum = node.quorum
        for epoch in (quorum.epoch if quorum.leads else None, quorum.active_epoch):
            if epoch is not None and self._leaders.setdefault(epoch, node.id) != node.id:
                raise Violation(self, f"{node.id} is active in epoch {epoch}, which is {self._leaders[epoch]}'s")


class CommittedMetadataStays(Invariant):
    """The metadata high watermark of a life never goes back."""

    def __init__(self) -> None:
        self._high: dict[tuple[int, int], int] = {}

    def node(self, view: ClusterView, node: NodeView) -> None:
        high, before = node.quorum.high_watermark, self._high.get((node.id, node.life), 0)
        if high < before:
            raise Violation(self, f"node {node.id}: from {before} to {high}")
        self._high[node.id, node.life] = high


class MetadataLogMatching(Invariant):
    """Committed metadata at an offset is the same on every node, for ever: epoch, extent and bytes."""

    def __init__(self) -> None:
        self._matching = Matching()

    def node(self, view: ClusterView, node: NodeView) -> None:
        wrong = self._matching.contradiction(node.id, node.quorum.batches or ())
        if wrong is not None:
            raise Violation(self, wrong)


class SameImage(Invariant):
    """Two nodes that have the same metadata up to the same offset have equal images."""

    def __init__(self) -> None:
        self._images: dict[int, tuple[int, MetadataImage]] = {}
        self._last: dict[int, MetadataImage] = {}

    def node(self, view: ClusterView, node: NodeView) -> None:
        image = node.image
        if image is None or image is self._last.get(node.id) or image.offset < 0:
            return
        self._last[node.id] = image
        other, known = self._images.setdefault(image.offset, (node.id, image))
        if known is not image and known != image:
            raise Violation(self, f"{other} and {node.id} differ at offset {image.offset}")
