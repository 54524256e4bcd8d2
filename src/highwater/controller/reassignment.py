"""Moving a partition to other replicas (KIP-455): when that is over, and what it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from highwater.metadata.topics import PartitionImage
from highwater.model import NodeId


def completed(partition: PartitionImage, isr: Sequence[NodeId]) -> tuple[tuple[NodeId, ...], list[NodeId]] | None:
    """Replicas and ISR once `isr` lets a reassignment end; None if there is none, or it has to wait.

    It waits for every added replica; and where the replication factor falls, for every replica that stays, or the ISR
    could end up smaller than it is.
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
    """What the end of a reassignment changes besides ISR and leader."""
    changed: dict[str, Any] = {}
    if replicas != partition.replicas:
        changed["replicas"] = list(replicas)
        changed["directories"] = [partition.directory(replica) for replica in replicas]
    if partition.removing:
        changed["removing_replicas"] = []
    if partition.adding:
        changed["adding_replicas"] = []
    return changed
