"""What a metadata image says of one replica: whether its log is lost, whether the cluster counts on it, and whether it
may be in the ISR. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from highwater.metadata.brokers import DIRECTORY_LOST
from highwater.metadata.cluster import MetadataImage
from highwater.metadata.topics import PartitionImage
from highwater.model import NO_NODE, NodeId
from highwater.replication.leader import BrokerEpochs, Leader


def is_dispensable(part: PartitionImage, local: NodeId) -> bool:
    """Whether the replica can be replaced: metadata calls it lost, another replica leads, and it is in no list from
    which a leader may be elected."""
    return part.leader not in (local, NO_NODE) and is_lost(part, local) and not is_counted_on(part, local)


def is_counted_on(part: PartitionImage, local: NodeId) -> bool:
    """Whether the replica is in a list from which a leader may be elected."""
    return local in (*part.isr, *part.elr, *part.last_known_elr)


def broker_epochs(image: MetadataImage, part: PartitionImage, replicas: Iterable[NodeId]) -> BrokerEpochs:
    """The broker epochs of replicas that may be in the ISR; None for the others."""
    epochs: dict[NodeId, int | None] = {}
    for replica in replicas:
        known = image.brokers.get(replica)
        may_be_in_sync = known is not None and known.active and known.has_online(part.directory(replica))
        epochs[replica] = known.epoch if known is not None and may_be_in_sync else None
    return epochs


def is_under_replicated(part: PartitionImage | None, leader: Leader) -> bool:
    """Whether a replica of the partition is missing from the ISR. A replica that is only being added to the partition
    does not count as missing, as in Kafka."""
    adding = () if part is None else part.adding
    return len(leader.isr) < sum(replica not in adding for replica in leader.replicas)


def is_lost(part: PartitionImage, local: NodeId) -> bool:
    """Whether its broker has reported that the log of the replica failed, is damaged or is missing."""
    return part.directory(local) == DIRECTORY_LOST
