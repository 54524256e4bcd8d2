"""The partitions of a cluster: those that nobody leads, that refuse writes, or that have replicas out of sync."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from highwater.cli.doctor.finding import PARTITIONS, Finding, brokers_named, listed
from highwater.cli.topic_report import Reassignment, concerned
from highwater.client.admin import Admin, ResourceType
from highwater.client.descriptions import PartitionDescription, describe_topics
from highwater.client.failures import ClientFailure
from highwater.errors import KafkaError
from highwater.model import NodeId, TopicPartition
from highwater.wire.messages.list_partition_reassignments_response import OngoingPartitionReassignment

_MIN_ISR = "min.insync.replicas"
Row = tuple[TopicPartition, PartitionDescription, Reassignment, int | None]


def examine_partitions(admin: Admin, away: Collection[NodeId]) -> Iterator[Finding]:
    try:
        rows = list(_rows(admin))
        live = {broker.id for broker in admin.describe_cluster().brokers}
    except (KafkaError, ClientFailure) as failed:
        yield PARTITIONS.unknown(f"the partitions cannot be described: {failed}")
        return
    unled = [row for row in rows if concerned("unavailable-partitions", row[1], row[2], 0, live)]
    tight = [row for row in rows if row not in unled and _is_tight(row, live)]
    behind = [row for row in rows if concerned("under-replicated-partitions", row[1], row[2], 0, live)]
    gone = set(away)
    if unled:
        yield PARTITIONS.wrong(
            f"nobody leads {_names(unled)}: they are neither read nor written", _leaders(unled, gone)
        )
    if tight:
        yield PARTITIONS.wrong(
            f"fewer replicas than {_MIN_ISR} are in sync for {_names(tight)}: writes with acks=all are refused",
            _missing(tight, gone),
        )
    if behind:
        yield PARTITIONS.wrong(f"replicas are out of sync for {_names(behind)}", _missing(behind, gone))
    if not (unled or tight or behind):
        many = f"{len(rows)} partition{'' if len(rows) == 1 else 's'}"
        yield PARTITIONS.well(f"{many}, all led and in sync" if rows else "there is no topic yet")
    if any(row[3] is None for row in rows):
        yield PARTITIONS.unknown(f"{_MIN_ISR} of the topics is not shown to this client")


def _rows(admin: Admin) -> Iterator[Row]:
    topics = describe_topics(admin.client, admin.list_topics())
    bounds = _bounds(admin, [topic.name or "" for topic in topics])
    moving = _moving(admin) if topics else {}
    for topic in topics:
        for part in topic.partitions:
            name = TopicPartition(topic.name or "", part.partition_index)
            yield name, part, moving.get(name), bounds.get(name.topic)


def _bounds(admin: Admin, names: list[str]) -> dict[str, int]:
    try:
        described = admin.describe_configs(ResourceType.TOPIC, names)
    except (KafkaError, ClientFailure):
        return {}
    return {
        name: int(row.value)
        for name, rows in described.items()
        for row in rows
        if row.name == _MIN_ISR and row.value is not None and row.value.isdecimal()
    }


def _moving(admin: Admin) -> dict[TopicPartition, OngoingPartitionReassignment]:
    """Only the controller knows them, and there may be none."""
    try:
        return admin.list_reassignments()
    except (KafkaError, ClientFailure):
        return {}


def _is_tight(row: Row, live: Collection[int]) -> bool:
    _, part, moved, bound = row
    return bound is not None and concerned("under-min-isr-partitions", part, moved, bound, live)


def _names(rows: list[Row]) -> str:
    return listed(sorted(row[0] for row in rows))


def _leaders(rows: list[Row], away: set[NodeId]) -> str:
    able = {
        NodeId(each) for _, part, _, _ in rows for each in (*part.isr_nodes, *(part.eligible_leader_replicas or ()))
    }
    if not able:
        return (
            "No replica is known to have all records: bring all brokers of these partitions back. What is left without "
            "them is had by highwater leader-election --election-type unclean, which loses records."
        )
    return f"Start {brokers_named(able & away or able)}: it may lead without a loss."


def _missing(rows: list[Row], away: set[NodeId]) -> str:
    out = {broker for _, part, _, _ in rows for broker in part.replica_nodes if broker not in part.isr_nodes}
    if out & away:
        rest = out - away
        also = f" {brokers_named(rest)} may still catch up." if rest else ""
        return f"Start {brokers_named(out & away)}, or mend the link to it.{also}"
    return (
        f"Wait until {brokers_named(out)} caught up; if it takes long, `highwater status` and the log of the leader "
        "say why it does not: its disk, its link, or a throttle."
    )
