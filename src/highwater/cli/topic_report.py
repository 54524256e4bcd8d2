"""The lines of `topics --describe`: one for a topic, one for each of its partitions, tab-separated."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from highwater.cli.java_order import described_order, hash_map_order, string_hash
from highwater.client.admin import Admin, ConfigSource, ResourceType
from highwater.client.descriptions import (
    PARTITIONS_PER_ANSWER,
    PartitionDescription,
    TopicDescription,
    describe_topic_ids,
    describe_topics,
)
from highwater.model import ZERO_UUID, TopicPartition, Uuid, uuid_text
from highwater.wire.messages.list_partition_reassignments_response import OngoingPartitionReassignment

Reassignment = OngoingPartitionReassignment | None


def by_name(admin: Admin, names: Sequence[str], limit: int | None) -> list[TopicDescription]:
    described = describe_topics(admin.client, names, partitions_per_answer=limit or PARTITIONS_PER_ANSWER)
    named = {topic.name or "": topic for topic in described}
    return [named[name] for name in described_order(named)]


def by_id(admin: Admin, topic_id: Uuid) -> list[TopicDescription]:
    return describe_topic_ids(admin.client, [topic_id])


@dataclass(slots=True)
class ReportedTopic:
    topic: TopicDescription
    factor: int
    overridden: dict[str, str]
    is_headed: bool
    """Whether the topic has a line of its own, beside those of its partitions."""
    partitions: list[tuple[PartitionDescription, Reassignment]]

    def lines(self) -> Iterator[str]:
        if self.is_headed:
            yield _topic_line(self.topic, self.factor, self.overridden)
        for partition, reassignment in self.partitions:
            yield _partition_line(self.topic.name or "", partition, reassignment)

    def as_json(self) -> dict[str, object]:
        return {
            "topic": self.topic.name,
            "id": uuid_text(self.topic.topic_id),
            "partition_count": len(self.topic.partitions),
            "replication_factor": self.factor,
            "configs": self.overridden,
            "partitions": [_partition_json(partition, moved) for partition, moved in self.partitions],
        }


def reported(
    admin: Admin, topics: Sequence[TopicDescription], reports: Collection[str], overrides_only: bool
) -> Iterator[ReportedTopic]:
    """With `reports`, only partitions that match one of them; with `overrides_only`, only topics with settings."""
    names = [topic.name or "" for topic in topics]
    configs = admin.describe_configs(ResourceType.TOPIC, names)
    live = {broker.id for broker in admin.describe_cluster().brokers}
    partitions = [
        TopicPartition(topic.name or "", partition.partition_index)
        for topic in topics
        for partition in topic.partitions
    ]
    moving = admin.list_reassignments(partitions) if partitions else {}
    for topic in topics:
        name = topic.name or ""
        settings = {entry.name: entry for entry in configs[name]}
        overridden = {
            key: settings[key].value or ""
            for key in hash_map_order(settings, string_hash)
            if settings[key].config_source != ConfigSource.DEFAULT_CONFIG
        }
        ordered = sorted(topic.partitions, key=lambda partition: partition.partition_index)
        is_headed = not reports and (bool(overridden) or not overrides_only)
        first = moving.get(TopicPartition(name, ordered[0].partition_index))
        min_isr = int(settings["min.insync.replicas"].value or 1) if "min.insync.replicas" in settings else 1
        shown = []
        for partition in ordered if not overrides_only else ():
            reassignment = moving.get(TopicPartition(name, partition.partition_index))
            if not reports or any(concerned(report, partition, reassignment, min_isr, live) for report in reports):
                shown.append((partition, reassignment))
        if is_headed or shown:
            yield ReportedTopic(topic, replication_factor(ordered[0], first), overridden, is_headed, shown)


def replication_factor(partition: PartitionDescription, reassignment: Reassignment) -> int:
    """For a partition that is being moved, the final factor, so that added replicas do not look like missing ones."""
    if reassignment is not None:
        changing = {*reassignment.adding_replicas, *reassignment.removing_replicas}
        if changing.intersection(partition.replica_nodes):
            return len(reassignment.replicas) - len(reassignment.adding_replicas)
    return len(partition.replica_nodes)


def concerned(
    report: str, partition: PartitionDescription, reassignment: Reassignment, min_isr: int, live: Collection[int]
) -> bool:
    """Whether the report lists the partition."""
    in_sync = len(partition.isr_nodes)
    led = partition.leader_id >= 0
    if report == "under-replicated-partitions":
        return in_sync < replication_factor(partition, reassignment)
    if report == "unavailable-partitions":
        return not led or partition.leader_id not in live
    if report == "under-min-isr-partitions":
        return not led or in_sync < min_isr
    return in_sync == min_isr


def _topic_line(topic: TopicDescription, factor: int, overridden: Mapping[str, str]) -> str:
    fields = [f"Topic: {topic.name}"]
    if topic.topic_id != ZERO_UUID:
        fields.append(f"TopicId: {uuid_text(topic.topic_id)}")
    fields += [
        f"PartitionCount: {len(topic.partitions)}",
        f"ReplicationFactor: {factor}",
        f"Configs: {','.join(f'{key}={value}' for key, value in overridden.items())}",
    ]
    return "\t".join(fields)


def _partition_line(topic: str, partition: PartitionDescription, reassignment: Reassignment) -> str:
    fields = [
        "",
        f"Topic: {topic}",
        f"Partition: {partition.partition_index}",
        f"Leader: {partition.leader_id if partition.leader_id >= 0 else 'none'}",
        f"Replicas: {_ids(partition.replica_nodes)}",
        f"Isr: {_ids(partition.isr_nodes)}",
    ]
    if reassignment is not None:
        fields.append(f"Adding Replicas: {_ids(reassignment.adding_replicas)}")
        fields.append(f"Removing Replicas: {_ids(reassignment.removing_replicas)}")
    fields.append(f"Elr: {_ids_or_na(partition.eligible_leader_replicas)}")
    fields.append(f"LastKnownElr: {_ids_or_na(partition.last_known_elr)}")
    return "\t".join(fields)


def _partition_json(partition: PartitionDescription, reassignment: Reassignment) -> dict[str, object]:
    return {
        "partition": partition.partition_index,
        "leader": partition.leader_id if partition.leader_id >= 0 else None,
        "replicas": list(partition.replica_nodes),
        "isr": list(partition.isr_nodes),
        "adding_replicas": [] if reassignment is None else list(reassignment.adding_replicas),
        "removing_replicas": [] if reassignment is None else list(reassignment.removing_replicas),
        "elr": partition.eligible_leader_replicas,
        "last_known_elr": partition.last_known_elr,
    }


def _ids(nodes: Sequence[int]) -> str:
    return ",".join(str(node) for node in nodes)


def _ids_or_na(nodes: Sequence[int] | None) -> str:
    return "N/A" if nodes is None else _ids(nodes)
