"""Why the leader or the ISR of a partition has changed, as far as the metadata shows."""

from __future__ import annotations

from highwater.metadata.cluster import MetadataImage
from highwater.metadata.topics import PartitionImage
from highwater.model import NO_NODE, NodeId
from highwater.partition.partition import Partition


def absence(image: MetadataImage, broker: NodeId) -> str | None:
    """Why this broker may not lead or be in an ISR; None if it may."""
    registration = image.brokers.get(broker)
    if registration is None:
        return "is not registered"
    if registration.fenced:
        return "is fenced"
    return "shuts down" if registration.in_controlled_shutdown else None


def why_changed(image: MetadataImage, partition: Partition, part: PartitionImage) -> str:
    """The reason for the change from the state of the hosted replica to `part` in `image`."""
    if partition.epoch < 0:
        return "so the metadata has it"
    if partition.leader_id != part.leader:
        return _why_led_by_another(image, partition.leader_id, part)
    before = () if partition.leader is None else partition.leader.isr
    gone = [(replica, absence(image, replica)) for replica in before if replica not in part.isr]
    reasons = [f"{replica} {why}" for replica, why in gone if why is not None]
    return ", ".join(reasons) or "the controller decided it"


def _why_led_by_another(image: MetadataImage, before: NodeId, part: PartitionImage) -> str:
    if before == NO_NODE:
        return "it had no leader"
    why = absence(image, before)
    if why is not None:
        return f"leader {before} {why}"
    return (
        f"leader {before} gave way to the preferred replica" if part.has_preferred_leader else f"after leader {before}"
    )
