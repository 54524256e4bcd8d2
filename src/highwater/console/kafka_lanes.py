"""Lanes of a partition of Apache Kafka: the ends of followers from DescribeLogDirs, the epochs from
OffsetForLeaderEpoch. Kafka does not say why a replica is out of sync."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from highwater.client import Client, ClientFailure
from highwater.client.descriptions import PartitionDescription, describe_topics
from highwater.client.epochs import epoch_ends
from highwater.client.offsets import EARLIEST, LATEST, list_offsets
from highwater.console.timeline import NO_REASON
from highwater.errors import Code, KafkaError
from highwater.model import NodeId, TopicPartition
from highwater.wire.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from highwater.wire.messages.describe_log_dirs_response import DescribeLogDirsResponse

EPOCHS_ASKED: Final = 8
"""One question for each epoch. Older ones are drawn as one."""


class Replica(NamedTuple):
    size: int
    lag: int
    """Behind the high watermark, as Kafka reports it."""


class Directories(NamedTuple):
    """The log directories of one broker."""

    replicas: dict[TopicPartition, Replica]
    total_bytes: int
    """-1 if unknown, as with the next one."""
    usable_bytes: int


def directories(client: Client, node: int, partitions: Iterable[TopicPartition] | None) -> Directories:
    """Of all partitions if none are named. Raises UnsupportedApi for a broker without the API."""
    topics: dict[str, DescribableLogDirTopic] = {}
    for name, index in partitions or ():
        topics.setdefault(name, DescribableLogDirTopic(topic=name)).partitions.append(index)
    request = DescribeLogDirsRequest(topics=None if partitions is None else list(topics.values()))
    answer = client.ask_broker(NodeId(node), request, DescribeLogDirsResponse)
    replicas: dict[TopicPartition, Replica] = {}
    total = usable = 0
    for directory in answer.results:
        if directory.error_code != Code.NONE:
            continue
        total = -1 if directory.total_bytes < 0 or total < 0 else total + directory.total_bytes
        usable = -1 if directory.usable_bytes < 0 or usable < 0 else usable + directory.usable_bytes
        for topic in directory.topics:
            for row in topic.partitions:
                if not row.is_future_key:
                    place = TopicPartition(topic.name, row.partition_index)
                    replicas[place] = Replica(row.partition_size, row.offset_lag)
    return Directories(replicas, total, usable)


def kafka_lanes(client: Client, topic: str, index: int) -> dict[str, Any] | None:
    """None if there is no such partition."""
    place = TopicPartition(topic, index)
    try:
        (described,) = describe_topics(client, [topic])
    except KafkaError as error:
        if error.code is Code.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        raise
    part = next((each for each in described.partitions if each.partition_index == index), None)
    if part is None:
        return None
    client.forget(topic)  # whoever led before may not lead now
    start, end = _offset(client, place, EARLIEST), _offset(client, place, LATEST)
    logs = {node: _directory(client, node, place) for node in part.replica_nodes}
    return drawn(topic, part, start, end, logs, _epochs(client, place, part.leader_epoch, start))


def drawn(
    topic: str,
    part: PartitionDescription,
    start: int | None,
    end: int | None,
    logs: Mapping[int, Replica | None],
    epochs: list[tuple[int, int]],
) -> dict[str, Any]:
    """The offset of ListOffsets is the high watermark: Kafka has no question for the leader's own end."""
    return {
        "topic": topic,
        "partition": part.partition_index,
        "source": "kafka",
        "leader": part.leader_id,
        "leader_epoch": part.leader_epoch,
        "isr": list(part.isr_nodes),
        "min_isr": None,
        "pending_isr": None,
        "replicas": list(part.replica_nodes),
        "log_start": _text(start) or "0",
        "high_watermark": _text(end) or "0",
        "log_end": _text(end) or "0",
        "epochs": [{"epoch": epoch, "start": str(at)} for epoch, at in epochs],
        "lanes": [_lane(node, part, start, end, logs.get(node)) for node in part.replica_nodes],
        "fetches": None,
        "changes": None,
    }


def _lane(
    node: int, part: PartitionDescription, start: int | None, end: int | None, log: Replica | None
) -> dict[str, Any]:
    in_isr = node in part.isr_nodes
    known = end is not None and log is not None
    lag = log.lag if log is not None else None
    return {
        "node": node,
        "role": "leader" if node == part.leader_id else "follower",
        "answers": log is not None,
        "in_isr": in_isr,
        "log_start": _text(start) if log is not None else None,
        "high_watermark": _text(end) if log is not None else None,
        "log_end": str(max(end - log.lag, 0)) if known and end is not None and log is not None else None,
        "durable_end": None,
        "size": None if log is None else str(log.size),
        "lag": _text(lag),
        "lag_ms": None,
        "why": None if in_isr else NO_REASON,
        "trouble": [],
    }


def _directory(client: Client, node: int, place: TopicPartition) -> Replica | None:
    try:
        return directories(client, node, [place]).replicas.get(place)
    except (KafkaError, ClientFailure):
        return None


def _offset(client: Client, place: TopicPartition, when: int) -> int | None:
    found = list_offsets(client, {place: when})[place]
    return None if isinstance(found, KafkaError) else found.offset


def _epochs(client: Client, place: TopicPartition, current: int, start: int | None) -> list[tuple[int, int]]:
    """(epoch, first offset): an epoch begins where the one before it ends."""
    found: dict[int, int] = {}
    asked = current - 1
    for _ in range(EPOCHS_ASKED):
        if asked < 0:
            break
        ended = epoch_ends(client, {place: asked})[place]
        if isinstance(ended, KafkaError) or ended.epoch < 0:
            break
        found[asked + 1] = ended.offset
        asked = ended.epoch - 1
    first = (max(asked + 1, 0), start or 0)
    return [first, *(row for row in sorted(found.items()) if row[1] > first[1])]


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)
