"""The first state of new partitions. Their replicas come from the request or from `placement`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from highwater.controller.decision import Randomness
from highwater.controller.placement import place, usable_brokers
from highwater.errors import Code, KafkaError
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.topics import PartitionImage, nodes
from highwater.model import NodeId


def placed(
    head: MetadataImage, partitions: int, replication_factor: int, random: Randomness
) -> Iterator[PartitionImage]:
    """Raises KafkaError(INVALID_REPLICATION_FACTOR)."""
    try:
        assigned = place(usable_brokers(head.brokers), partitions, replication_factor, random)
        for replicas in assigned:
            yield _new_partition(head, replicas)
    except KafkaError as error:
        raise KafkaError(
            Code.INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition {replication_factor} time(s): {error}"
        ) from None


def assigned_by_hand(
    head: MetadataImage, assignments: Iterable[tuple[int, Sequence[int]]], replication_factor: int | None = None
) -> Iterator[PartitionImage]:
    """(partition, replicas) pairs, all of one replication factor. Raises KafkaError(INVALID_REPLICA_ASSIGNMENT)."""
    for index, replicas in assignments:
        check_by_hand(head, replicas, replication_factor)
        replication_factor = len(replicas)
        try:
            partition = _new_partition(head, nodes(replicas))
        except KafkaError:
            raise KafkaError(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
                "controlled shutdown.",
            ) from None
        yield partition


def _new_partition(head: MetadataImage, replicas: tuple[NodeId, ...]) -> PartitionImage:
    isr = tuple(replica for replica in replicas if head.brokers.is_active(replica))
    if not isr:
        raise KafkaError(Code.INVALID_REPLICATION_FACTOR, "All brokers are currently fenced or in controlled shutdown.")
    return PartitionImage(
        replicas=replicas,
        directories=tuple(head.brokers.default_directory(replica) for replica in replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
    )


def check_by_hand(head: MetadataImage, replicas: Sequence[int], replication_factor: int | None = None) -> None:
    """Raises KafkaError(INVALID_REPLICA_ASSIGNMENT) for replicas that a client chose."""
    previous = None
    if not replicas:
        raise _refused("includes an empty replica list.")
    for broker in sorted(replicas):
        if head.brokers.get(broker) is None:
            raise _refused(f"includes broker {broker}, but no such broker is registered.")
        if broker == previous:
            raise _refused(f"includes the broker {broker} more than once.")
        previous = broker
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _refused(
            f"includes a partition with {len(replicas)} replica(s), but this is not consistent with previous "
            f"partitions, which have {replication_factor} replica(s)."
        )


def _refused(why: str) -> KafkaError:
    return KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {why}")
