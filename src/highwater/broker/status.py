"""What a broker can tell of its partitions, with reasons: who follows, how far, and why someone is not in sync."""

from __future__ import annotations

from typing import Any

from highwater.broker.broker import Broker
from highwater.model import NodeId, uuid_text
from highwater.partition.partition import Partition
from highwater.replication.leader import LeaderState


def describe(broker: Broker, broker_epoch: int, standing: str, controller: int | None) -> dict[str, Any]:
    """For /status, as plain values."""
    image = broker.image
    return {
        "node": broker.node_id,
        "broker_epoch": broker_epoch,
        "standing": standing,
        "cluster_id": broker.cluster_id,
        "controller": controller,
        "metadata_offset": image.offset,
        "brokers": [
            {"id": each.id, "epoch": each.epoch, "fenced": each.fenced, "rack": each.rack}
            for each in sorted(image.brokers.by_id.values())
        ],
        "partitions": [describe_partition(broker, each) for each in sorted(broker.hosted, key=lambda each: each.tp)],
    }


def describe_partition(broker: Broker, partition: Partition) -> dict[str, Any]:
    log = partition.log
    told: dict[str, Any] = {
        "topic": partition.tp.topic,
        "partition": partition.tp.partition,
        "topic_id": uuid_text(partition.topic_id),
        "role": "leader" if partition.leader is not None else "follower",
        "leader": partition.leader_id,
        "leader_epoch": partition.epoch,
        "partition_epoch": partition.partition_epoch,
        "log_start": log.log_start,
        "high_watermark": log.high_watermark,
        "log_end": log.log_end,
        "durable_end": log.durable_end,
        "size": log.size,
        "segments": len(log.segments),
        "replicas": list(partition.replicas),
        "offline": None if log.offline is None else str(log.offline),
    }
    leader = partition.leader
    if leader is not None:
        now = broker.in_sync.now()
        told["isr"] = list(leader.isr)
        told["min_isr"] = log.config.min_insync_replicas
        told["pending_isr"] = None if leader.proposal is None else list(leader.proposal.isr)
        told["followers"] = [_follower(broker, partition, leader, each, now) for each in sorted(leader.followers)]
    return told


def _follower(broker: Broker, partition: Partition, leader: LeaderState, replica: NodeId, now: float) -> dict[str, Any]:
    log_end = partition.log.log_end
    progress = leader.followers[replica]
    behind = now - leader.caught_up_at(replica, log_end)
    in_isr = replica in leader.isr
    return {
        "id": replica,
        "in_isr": in_isr,
        "log_end": progress.end,
        "lag": None if progress.end < 0 else log_end - progress.end,
        "lag_ms": 0 if progress.end >= log_end else int(behind * 1000),
        "why": None if in_isr else why_not_in_sync(broker, partition, leader, replica, now),
    }


def why_not_in_sync(broker: Broker, partition: Partition, leader: LeaderState, replica: NodeId, now: float) -> str:
    """The first of Kafka's conditions that this replica does not meet."""
    progress = leader.followers[replica]
    registration = broker.image.brokers.get(replica)
    if registration is None:
        return f"broker {replica} is not registered"
    if registration.fenced:
        return f"broker {replica} is fenced"
    if registration.in_controlled_shutdown:
        return f"broker {replica} is shutting down"
    if progress.end < 0:
        return f"it has not fetched from this leader since epoch {leader.epoch} began"
    if progress.broker_epoch not in (-1, registration.epoch):
        return f"it fetches as broker epoch {progress.broker_epoch}, registered is {registration.epoch}"
    limit = broker.in_sync.lag_seconds()
    behind = now - leader.caught_up_at(replica, partition.log.log_end)
    if progress.end < partition.log.high_watermark:
        return (
            f"last caught up {behind:.1f} s ago, limit {limit:.0f} s; "
            f"{partition.log.high_watermark - progress.end} records below the high watermark"
        )
    if progress.end < leader.epoch_start:
        return f"it has not reached offset {leader.epoch_start}, where this leader's epoch began"
    if leader.proposal is not None:
        return "its return to the ISR is being asked for"
    return "it has caught up and will be let in at its next fetch"
