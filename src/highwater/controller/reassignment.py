"""Moving a partition to other replicas (KIP-455): what a reassignment asks for, what it changes, and when it ends.

During a reassignment the replicas of the partition are those of the target, in their order, and then those that are to
be removed. A replica of the target that has no complete copy yet is one of the `adding` replicas. A replica that an
earlier target added, and that is not in the present one, is among the `adding` and among the `removing` replicas: it is
removed when the move ends, and also when the move is cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from highwater.errors import Code, KafkaError
from highwater.metadata.topics import PartitionImage
from highwater.model import NodeId, Uuid


class Assignment(NamedTuple):
    """The replicas of a partition, and which of them are being added and removed."""

    replicas: tuple[NodeId, ...]
    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()


def assignment_of(partition: PartitionImage) -> Assignment:
    return Assignment(partition.replicas, partition.adding, partition.removing)


def is_moving(partition: PartitionImage) -> bool:
    return bool(partition.adding or partition.removing)


def towards(partition: PartitionImage, target: Sequence[NodeId]) -> Assignment:
    """The assignment with which the partition begins to move to `target`. A target takes the place of one to which the
    partition is moving already: a replica that was being added and is not in the new target is to be removed."""
    settled = [replica for replica in partition.replicas if replica not in partition.adding]
    adding = tuple(sorted({*target, *partition.adding} - set(settled)))
    removing = tuple(sorted(replica for replica in partition.replicas if replica not in target))
    return Assignment((*target, *removing), adding, removing)


class Reverted(NamedTuple):
    """A partition whose reassignment is cancelled."""

    assignment: Assignment
    isr: list[NodeId]
    is_unclean: bool
    """Only added replicas were in the ISR, so that records may be lost."""


def reverted(partition: PartitionImage, acceptable: Callable[[NodeId], bool]) -> Reverted:
    """If only added replicas are in the ISR, a replica of the ELR that is `acceptable` as leader takes over: it has
    every committed record. Raises KafkaError if the partition is not moving."""
    if not is_moving(partition):
        raise KafkaError(Code.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = tuple(replica for replica in partition.replicas if replica not in partition.adding)
    if not replicas:
        raise KafkaError(
            Code.INVALID_REPLICA_ASSIGNMENT, "Invalid replica assignment: addingReplicas contains all replicas."
        )
    isr = [replica for replica in partition.isr if replica not in partition.adding]
    if not isr and any(replica in partition.elr and acceptable(replica) for replica in replicas):
        return Reverted(Assignment(replicas), [], False)
    return Reverted(Assignment(replicas), isr or list(replicas[:1]), not isr)


def factor_of(partition: PartitionImage) -> int:
    """The replication factor of the partition, or of its target while it is moving."""
    return len(set(partition.replicas) - set(partition.removing))


def check_factor(partition: PartitionImage, target: Sequence[NodeId]) -> None:
    """Raises KafkaError if the target has another replication factor than the partition, or than its last target."""
    factor = factor_of(partition)
    if factor != len(target):
        raise KafkaError(
            Code.INVALID_REPLICATION_FACTOR, f"The replication factor is changed from {factor} to {len(target)}"
        )


def completed(planned: Assignment, isr: Sequence[NodeId]) -> tuple[tuple[NodeId, ...], list[NodeId]] | None:
    """The replicas and the ISR after a reassignment, if it is complete with `isr`. None if it is not, or if there is
    none.

    A reassignment waits until every added replica is in the ISR. If the replication factor falls, it also waits for
    every replica that stays; otherwise the ISR could become smaller than it is.
    """
    replicas, adding, removing = planned
    if not (adding or removing):
        return None
    staying = tuple(replica for replica in replicas if replica not in removing)
    joining = [replica for replica in adding if replica not in removing]
    in_sync = [replica for replica in isr if replica not in removing]
    leaving = [replica for replica in removing if replica not in adding]
    awaited = staying if len(joining) < len(leaving) else joining
    if not in_sync or not staying or not {*awaited, *joining} <= set(in_sync):
        return None
    return staying, in_sync


def changes_of(
    partition: PartitionImage, wanted: Assignment, new_directory: Callable[[NodeId], Uuid]
) -> dict[str, Any]:
    """The fields of a record that gives the partition this assignment. A replica that is new to it gets the directory
    that `new_directory` returns."""
    changed: dict[str, Any] = {}
    if wanted.replicas != partition.replicas:
        changed["replicas"] = list(wanted.replicas)
        changed["directories"] = [
            partition.directory(replica) if replica in partition.replicas else new_directory(replica)
            for replica in wanted.replicas
        ]
    if wanted.removing != partition.removing:
        changed["removing_replicas"] = list(wanted.removing)
    if wanted.adding != partition.adding:
        changed["adding_replicas"] = list(wanted.adding)
    return changed
