"""The status of a broker's partitions: the followers, their lag, and why a replica is not in sync."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from highwater.broker.broker import Broker
from highwater.broker.cleaning_report import describe_cleaner, describe_log
from highwater.broker.reasons import absence
from highwater.broker.replica_image import is_under_replicated
from highwater.metadata.cluster import MetadataImage
from highwater.model import NodeId, uuid_text
from highwater.partition.partition import Partition
from highwater.replication.leader import Leader

AT_ONCE = 50
"""The number of partitions that are described between two turns of the loop."""
LOOKED_AT = 5_000
"""The most partitions without their preferred leader that are checked for a missing leader."""


def describe(broker: Broker, broker_epoch: int, standing: str, controller: int | None) -> dict[str, Any]:
    """For /status, as plain values. `as_json` adds the partitions."""
    image = broker.metadata.image
    return {
        "node": broker.node_id,
        "broker_epoch": broker_epoch,
        "standing": standing,
        "cluster_id": broker.cluster_id,
        "controller": controller,
        "metadata_offset": image.offset,
        "replica_lag_time_max_ms": int(broker.in_sync.lag_seconds() * 1000),
        "cleaner": describe_cleaner(broker),
        "leaderless": _leaderless(image),
        "brokers": [
            {"id": each.id, "epoch": each.epoch, "fenced": each.fenced, "rack": each.rack}
            for each in sorted(image.brokers.by_id.values())
        ],
    }


def _leaderless(image: MetadataImage) -> list[dict[str, Any]]:
    """Partitions of the whole cluster: the brokers with a replica of them may be down."""
    looked_at = islice(image.topics.astray(), LOOKED_AT)
    return [
        {
            "topic": topic.name,
            "partition": index,
            "replicas": list(part.replicas),
            "isr": list(part.isr),
            "eligible": list(part.elr),
        }
        for topic, index, part in looked_at
        if not part.has_leader
    ]


def as_json(status: dict[str, Any], broker: Broker | None, topic: str | None = None) -> Iterator[bytes]:
    """The status of a node, and then of its partitions (of one topic), a few at a time."""
    text = json.dumps(status)
    if broker is None:
        yield text.encode()
        return
    yield f'{text[:-1]}, "partitions": ['.encode()
    of_topic = (each for each in broker.hosted if topic is None or each.tp.topic == topic)
    hosted = sorted(of_topic, key=lambda each: each.tp)
    for at in range(0, len(hosted), AT_ONCE):
        rows = ", ".join(json.dumps(describe_partition(broker, each)) for each in hosted[at : at + AT_ONCE])
        yield (rows if at + AT_ONCE >= len(hosted) else f"{rows}, ").encode()
    yield b"]}"


def summary(broker: Broker) -> dict[str, Any]:
    """Numbers instead of rows: the cost is that of a look at each partition, and the answer is small."""
    hosted = led = under_replicated = under_min_isr = offline = 0
    for partition in broker.hosted:
        hosted += 1
        offline += partition.log.offline is not None
        leader = partition.leader
        if leader is not None:
            led += 1
            part = broker.metadata.partition_image(partition.topic_id, partition.tp.partition)
            under_replicated += is_under_replicated(part, leader)
            under_min_isr += len(leader.isr) < partition.log.config.min_insync_replicas
    return {
        "partitions": hosted,
        "leaders": led,
        "under_replicated": under_replicated,
        "under_min_isr": under_min_isr,
        "offline": offline,
    }


def describe_watched(broker: Broker, topic: str, index: int) -> dict[str, Any] | None:
    """One partition with its epochs and the last fetches of its followers; None if no replica of it is here."""
    partition = broker.hosted.find(topic, index)
    if partition is None:
        return None
    status = describe_partition(broker, partition)
    status["epochs"] = [{"epoch": epoch, "start": start} for epoch, start in partition.log.epoch_cache.entries]
    status["follower_fetches"] = broker.follower_fetches.of(partition)
    return status


def describe_partition(broker: Broker, partition: Partition) -> dict[str, Any]:
    log = partition.log
    now = broker.in_sync.now()
    status: dict[str, Any] = {
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
        "unwritten": None if log.unwritten is None else str(log.unwritten),
        "damage": [str(each) for each in (log.incomplete, *log.reads.damage.values()) if each is not None],
        "compaction": describe_log(broker, log),
        "changes": aged(partition.changes, now),
    }
    leader = partition.leader
    if leader is not None:
        status["isr"] = list(leader.isr)
        status["min_isr"] = log.config.min_insync_replicas
        status["pending_isr"] = None if leader.proposal is None else list(leader.proposal.isr)
        status["followers"] = [_follower(broker, partition, leader, each, now) for each in sorted(leader.followers)]
    return status


def aged(changes: Iterable[tuple[float, str]], now: float) -> list[dict[str, Any]]:
    """The changes with their age, the last one first."""
    return [{"seconds_ago": round(now - at, 3), "what": what} for at, what in reversed(list(changes))]


def _follower(broker: Broker, partition: Partition, leader: Leader, replica: NodeId, now: float) -> dict[str, Any]:
    log_end = partition.log.log_end
    end = leader.followers[replica].end
    in_isr = replica in leader.isr
    return {
        "id": replica,
        "in_isr": in_isr,
        "log_end": -1 if end is None else end,
        "lag": None if end is None else log_end - end,
        "lag_ms": 0 if end is not None and end >= log_end else int((now - leader.behind_since(replica)) * 1000),
        "why": None if in_isr else why_not_in_sync(broker, partition, leader, replica, now),
    }


def why_not_in_sync(broker: Broker, partition: Partition, leader: Leader, replica: NodeId, now: float) -> str:
    """The first of Kafka's conditions that this replica does not meet, with its lag and the limit."""
    progress = leader.followers[replica]
    registration = broker.metadata.image.brokers.get(replica)
    missing = absence(broker.metadata.image, replica)
    lag = _lag(leader, replica, now)
    if registration is None or missing is not None:
        return f"broker {replica} {missing}; {lag}"
    if progress.end is None:
        return f"{lag}; it has not fetched in epoch {leader.epoch}"
    if progress.broker_epoch != registration.epoch:
        return f"it fetches as broker epoch {progress.broker_epoch}, registered is {registration.epoch}; {lag}"
    if progress.end < partition.log.high_watermark:
        return f"{lag}; {partition.log.high_watermark - progress.end} records below the high watermark"
    if progress.end < leader.epoch_start:
        return f"{lag}; it has not reached offset {leader.epoch_start}, where epoch {leader.epoch} began"
    if leader.proposal is not None:
        return "it has caught up; the leader has asked the controller for its return to the ISR"
    return "it has caught up, and will join the ISR at its next fetch"


def _lag(leader: Leader, replica: NodeId, now: float) -> str:
    caught_up, limit = leader.caught_up_at(replica), leader.terms.lag_seconds
    if caught_up is None or caught_up < leader.since:
        term = f"in the {now - leader.since:.1f} s of epoch {leader.epoch}"
        return f"not caught up {term}, limit {limit:g} s"
    return f"last caught up {now - caught_up:.1f} s ago, limit {limit:g} s"
