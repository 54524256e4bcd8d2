"""The links between nodes that are cut or slow."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from highwater.faults import Condition
from highwater.model import NodeId


class Links:
    def __init__(self) -> None:
        self._cut: set[tuple[NodeId, NodeId]] = set()
        self._delay: dict[frozenset[NodeId], float] = {}

    def cut(self, one: NodeId, other: NodeId, one_way: bool) -> None:
        """Cuts bytes from `one` to `other`, and back unless one way."""
        _check_two(one, other)
        self._cut.add((one, other))
        if not one_way:
            self._cut.add((other, one))

    def slow(self, one: NodeId, other: NodeId, seconds: float) -> None:
        _check_two(one, other)
        if not 0 <= seconds < inf:
            raise ValueError(f"a link cannot be slower by {seconds * 1000:g} ms")
        self._delay[frozenset((one, other))] = seconds

    def heal(self) -> None:
        self._cut.clear()
        self._delay.clear()

    def join(self, one: NodeId, other: NodeId, one_way: bool) -> None:
        """Takes back a cut of these two, or of the direction from `one` to `other`."""
        self._cut.discard((one, other))
        if not one_way:
            self._cut.discard((other, one))

    def touches(self, node: NodeId) -> bool:
        return any(node in pair for pair in self._cut)

    def between(self, node: NodeId, peer: NodeId) -> Condition:
        """The condition for `node`'s own connections to `peer`."""
        delay = self._delay.get(frozenset((node, peer)), 0.0)
        return Condition((node, peer) in self._cut, (peer, node) in self._cut, delay)

    def commands(self, node: NodeId, peers: Iterable[NodeId]) -> list[tuple[str, object]]:
        return [("link", [peer, *self.between(node, peer)]) for peer in peers if peer != node]


def _check_two(one: NodeId, other: NodeId) -> None:
    if one == other:
        raise ValueError(f"node {one} has no link to itself")
