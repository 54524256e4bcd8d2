"""How partitions stand, by what the quorum has committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class PartitionView(NamedTuple):
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: frozenset[int]


class View(NamedTuple):
    """The metadata of the node that has seen most of it."""

    offset: int
    controller: int | None
    brokers: frozenset[int]
    """Those that are unfenced and not leaving."""
    partitions: Mapping[int, PartitionView]
    """Of the topic that was asked for; empty if there is none."""

    @classmethod
    def of(cls, seen: Mapping[str, Any]) -> View:
        partitions = {
            int(index): PartitionView(None if leader < 0 else leader, epoch, tuple(replicas), frozenset(isr))
            for index, (leader, epoch, replicas, isr) in seen.get("partitions", {}).items()
        }
        return cls(seen["offset"], seen["controller"], frozenset(seen["brokers"]), partitions)
