"""The nodes of a cluster, and where each one serves /status."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from highwater.client import Admin, Client, ClientFailure, ResourceType
from highwater.errors import KafkaError
from highwater.model import Endpoint

LISTENER: Final = "highwater.http.listener"


@dataclass(frozen=True, slots=True)
class Node:
    id: int
    roles: tuple[str, ...]
    address: str
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Nodes:
    cluster_id: str = ""
    controller: int = -1
    nodes: dict[int, Node] = field(default_factory=dict)
    status: dict[int, Endpoint] = field(default_factory=dict)
    """Of the nodes that serve it. Empty for Apache Kafka."""
    voters: tuple[int, ...] = ()

    @property
    def is_highwater(self) -> bool:
        return bool(self.status)


def local_nodes(file: Path) -> Nodes | None:
    """From the nodes.json of `highwater up`; None if it cannot be read now."""
    try:
        listed = json.loads(file.read_text())
        nodes = {
            int(each["id"]): Node(int(each["id"]), tuple(each["roles"]), f"{each['host']}:{each['port']}")
            for each in listed["nodes"]
        }
        status = {int(each["id"]): found for each in listed["nodes"] if (found := endpoint(each.get("http"), ""))}
        return Nodes(str(listed["cluster_id"]), -1, nodes, status)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def asked_nodes(client: Client, before: Nodes) -> Nodes:
    """From the cluster itself. A broker that is gone stays in the list, as one that does not answer, and an address of
    /status that is known is not asked for again."""
    cluster = Admin(client).describe_cluster(fenced=True)
    nodes = dict(before.nodes) if before.cluster_id == cluster.cluster_id else {}
    status = dict(before.status) if nodes else {}
    for broker in cluster.brokers:
        nodes[broker.id] = Node(broker.id, ("broker",), str(broker.endpoint), broker.rack)
        if broker.id not in status and (before.is_highwater or not before.nodes):
            found = _listener(client, broker.id, broker.endpoint.host)
            if found is not None:
                status[broker.id] = found
    voters = _voters(client)
    for node in voters:
        known = nodes.get(node)
        address, rack = ("", None) if known is None else (known.address, known.rack)
        roles = ("controller",) if known is None or "broker" not in known.roles else ("broker", "controller")
        nodes[node] = Node(node, roles, address, rack)
    return Nodes(cluster.cluster_id, cluster.controller, nodes, status, voters)


def _voters(client: Client) -> tuple[int, ...]:
    """Empty for a cluster that does not report its quorum."""
    try:
        answer = Admin(client).describe_quorum()
    except (KafkaError, ClientFailure):
        return ()
    return tuple(
        voter.replica_id for topic in answer.topics for part in topic.partitions for voter in part.current_voters
    )


def _listener(client: Client, node: int, host: str) -> Endpoint | None:
    try:
        found = Admin(client).describe_configs(ResourceType.BROKER, [str(node)])
    except (KafkaError, ClientFailure):
        return None
    rows: list[Any] = found.get(str(node), [])
    return next((endpoint(row.value, host) for row in rows if row.name == LISTENER), None)


def endpoint(text: str | None, host: str) -> Endpoint | None:
    """`host` takes the place of an address that stands for all of them."""
    name, colon, port = (text or "").rpartition(":")
    if not colon or not port.isdecimal() or port == "0":
        return None
    name = name.strip("[]")
    return Endpoint(host if name in ("", "0.0.0.0", "::") and host else name or "127.0.0.1", int(port))
