"""The state of partitions by what the quorum has committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from highwater.model import NodeId


class PartitionView(NamedTuple):
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: frozenset[int]


class View(NamedTuple):
    """The metadata of the node that has the newest."""

    offset: int
    controller: int | None
    brokers: frozenset[int]
    """The brokers that are unfenced and do not shut down."""
    partitions: Mapping[int, PartitionView]
    """The partitions of the requested topic; empty if there is none."""

    @classmethod
    def of(cls, seen: Mapping[str, Any]) -> View:
        partitions = {
            int(index): PartitionView(None if leader < 0 else leader, epoch, tuple(replicas), frozenset(isr))
            for index, (leader, epoch, replicas, isr) in seen.get("partitions", {}).items()
        }
        return cls(seen["offset"], seen["controller"], frozenset(seen["brokers"]), partitions)


def all_know(looks: Sequence[Mapping[str, Any]], brokers: set[NodeId]) -> bool:
    """Whether every asked node knows these brokers, and has applied the newest metadata of all."""
    return _are_current(looks) and all(brokers <= set(seen["brokers"]) for seen in looks)


def is_known(looks: Sequence[Mapping[str, Any]]) -> bool:
    """Whether every asked node knows the topic, with a leader for each partition."""
    return (
        bool(looks)
        and _are_current(looks)
        and all(
            "partitions" in seen and all(leader >= 0 for leader, *_ in seen["partitions"].values()) for seen in looks
        )
    )


def _are_current(looks: Sequence[Mapping[str, Any]]) -> bool:
    newest = max((seen["offset"] for seen in looks), default=-1)
    return all(seen["published"] is None or seen["published"] >= newest for seen in looks)
