"""Whether the cluster is healthy, at one glance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from highwater.console.discovery import Node, Nodes
from highwater.console.node_status import Status
from highwater.model import TopicPartition
from highwater.wire.messages.metadata_response import MetadataResponseTopic

COUNTS = ("partitions", "leaders", "under_replicated", "under_min_isr", "offline")


def node_rows(nodes: Nodes, statuses: Mapping[int, Status | None], fenced: Mapping[int, bool]) -> list[dict[str, Any]]:
    """Of a cluster of Highwater."""
    controller = active_controller(statuses)
    rows = []
    for node in sorted(nodes.nodes.values(), key=lambda each: each.id):
        status = statuses.get(node.id)
        counted = counts_of(status) if status is not None and "standing" in status else None
        rows.append(
            {
                **_identity(node),
                "state": _state(node, status, fenced),
                "is_active_controller": controller == node.id,
                "quorum": None if status is None else status["quorum"]["role"],
                "partitions": None if counted is None else counted["partitions"],
                "leaders": None if counted is None else counted["leaders"],
            }
        )
    return rows


def kafka_node_rows(nodes: Nodes, alive: set[int], topics: list[MetadataResponseTopic]) -> list[dict[str, Any]]:
    """Of Apache Kafka: a broker is up if the metadata lists it."""
    rows = []
    for node in sorted(nodes.nodes.values(), key=lambda each: each.id):
        parts = [part for topic in topics for part in topic.partitions]
        is_broker = "broker" in node.roles
        rows.append(
            {
                **_identity(node),
                "state": "up" if node.id in alive or not is_broker else "down",
                "is_active_controller": nodes.controller == node.id,
                "quorum": "Voter" if node.id in nodes.voters else None,
                "partitions": sum(node.id in part.replica_nodes for part in parts) if is_broker else None,
                "leaders": sum(node.id == part.leader_id for part in parts) if is_broker else None,
            }
        )
    return rows


def _identity(node: Node) -> dict[str, Any]:
    return {"id": node.id, "roles": list(node.roles), "address": node.address, "rack": node.rack}


def _state(node: Node, status: Status | None, fenced: Mapping[int, bool]) -> str:
    """`down` is a node that does not answer; `fenced` one that does, and that the controller has excluded."""
    if status is None:
        return "down"
    if "broker" not in node.roles:
        return "up"
    return "fenced" if fenced.get(node.id, True) else "up"


def active_controller(statuses: Mapping[int, Status | None]) -> int | None:
    known = [status["quorum"] for status in statuses.values() if status is not None]
    newest = max(known, key=lambda quorum: int(quorum["epoch"]), default=None)
    return None if newest is None else newest["leader"]


def fenced_brokers(statuses: Mapping[int, Status | None]) -> dict[int, bool]:
    """By the node that has seen most of the metadata."""
    known = [status for status in statuses.values() if status is not None and "brokers" in status]
    newest = max(known, key=lambda status: int(status["metadata_offset"]), default=None)
    return {} if newest is None else {each["id"]: each["fenced"] for each in newest["brokers"]}


def counts_of(status: Status) -> dict[str, int]:
    """The summary, or the same counted from a list of all partitions."""
    summary = status.get("summary")
    if summary is not None:
        return {name: int(summary[name]) for name in COUNTS}
    parts = status.get("partitions", ())
    led = [part for part in parts if part["role"] == "leader"]
    return {
        "partitions": len(parts),
        "leaders": len(led),
        "under_replicated": sum(len(part["isr"]) < len(part["replicas"]) for part in led),
        "under_min_isr": sum(len(part["isr"]) < part["min_isr"] for part in led),
        "offline": sum(part["offline"] is not None for part in parts),
    }


def partition_counts(statuses: Mapping[int, Status | None]) -> dict[str, Any]:
    counted = [counts_of(each) for each in statuses.values() if each is not None and "standing" in each]
    known = [each for each in statuses.values() if each is not None and "leaderless" in each]
    newest = max(known, key=lambda status: int(status["metadata_offset"]), default=None)
    leaderless = [] if newest is None else newest["leaderless"]
    return {
        "partitions": sum(each["leaders"] for each in counted) + len(leaderless),
        "under_replicated": sum(each["under_replicated"] for each in counted),
        "under_min_isr": sum(each["under_min_isr"] for each in counted),
        "failed_logs": sum(each["offline"] for each in counted),
        "leaderless": len(leaderless),
        "without_leader": [str(TopicPartition(each["topic"], each["partition"])) for each in leaderless[:20]],
    }


def kafka_partition_counts(topics: list[MetadataResponseTopic]) -> dict[str, Any]:
    parts = [(topic.name, part) for topic in topics for part in topic.partitions]
    leaderless = [f"{name}-{part.partition_index}" for name, part in parts if part.leader_id < 0]
    return {
        "partitions": len(parts),
        "under_replicated": sum(len(part.isr_nodes) < len(part.replica_nodes) for _, part in parts),
        "under_min_isr": None,
        "failed_logs": sum(len(part.offline_replicas) for _, part in parts),
        "leaderless": len(leaderless),
        "without_leader": leaderless[:20],
    }


def verdict(nodes: list[dict[str, Any]], counts: Mapping[str, Any], is_reachable: bool) -> dict[str, str]:
    """One word and one sentence."""
    down = [each["id"] for each in nodes if each["state"] != "up"]
    if not is_reachable or (nodes and len(down) == len(nodes)):
        return {"word": "unreachable", "sentence": "No node answers."}
    troubles = []
    if counts["leaderless"]:
        troubles.append(f"{_many(counts['leaderless'], 'partition')} without a leader")
    if counts["under_min_isr"]:
        troubles.append(f"{_many(counts['under_min_isr'], 'partition')} below min.insync.replicas")
    if counts["failed_logs"]:
        troubles.append(_many(counts["failed_logs"], "replica") + " with a failed log")
    is_critical = bool(troubles)
    if down:
        troubles.append(f"{'node' if len(down) == 1 else 'nodes'} {', '.join(map(str, down))} not up")
    if counts["under_replicated"]:
        troubles.append(f"{_many(counts['under_replicated'], 'partition')} under-replicated")
    if not troubles:
        return {"word": "healthy", "sentence": "All nodes are up, and all replicas are in sync."}
    sentence = "; ".join(troubles)
    return {"word": "critical" if is_critical else "degraded", "sentence": sentence[0].upper() + sentence[1:] + "."}


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
