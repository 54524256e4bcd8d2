"""Moving a partition to other replicas (KIP-455): when a reassignment is complete, and what it changes then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from highwater.metadata.topics import PartitionImage
from highwater.model import NodeId


def completed(partition: PartitionImage, isr: Sequence[NodeId]) -> tuple[tuple[NodeId, ...], list[NodeId]] | None:
    """The replicas and the ISR after a reassignment, if it is complete with `isr`. None if it is not, or if there is
    none.

    A reassignment waits until every added replica is in the ISR. If the replication factor falls, it also waits for
    every replica that stays; otherwise the ISR could become smaller than it is.
    """
    if not (partition.adding or partition.removing):
        return None
    staying = tuple(replica for replica in partition.replicas if replica not in partition.removing)
    in_sync = [replica for replica in isr if replica not in partition.removing]
    awaited = staying if len(partition.adding) < len(partition.removing) else partition.adding
    if not in_sync or not staying or not {*awaited, *partition.adding} <= set(in_sync):
        return None
    return staying, in_sync


def assignment(partition: PartitionImage, replicas: tuple[NodeId, ...]) -> dict[str, Any]:
    """The fields that the end of a reassignment changes, besides ISR and leader."""
    changed: dict[str, Any] = {}
    if replicas != partition.replicas:
        changed["replicas"] = list(replicas)
        changed["directories"] = [partition.directory(replica) for replica in replicas]
    if partition.removing:
        changed["removing_replicas"] = []
    if partition.adding:
        changed["adding_replicas"] = []
    return changed
