"""The nodes of a cluster, and where each one serves /status."""

from __future__ import annotations

import json
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from highwater.client import Admin, Client, ClientFailure, ResourceType
from highwater.client.admin import ClusterDescription
from highwater.client.client import Broker
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
    told: frozenset[int] = frozenset()
    """The brokers that have said where they serve it, or that they do not."""

    @property
    def is_highwater(self) -> bool:
        return bool(self.status)

    @property
    def servers(self) -> str:
        """To connect to."""
        return ",".join(node.address for node in self.nodes.values() if "broker" in node.roles)


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


def asked_nodes(client: Client, before: Nodes, silent: Container[int] = ()) -> Nodes:
    """From the cluster itself. `silent` are the nodes that do not answer where they served /status."""
    cluster = Admin(client).describe_cluster(fenced=True)
    return updated(before, cluster, silent, lambda broker: _listener(client, broker), _voters(client))


def updated(
    before: Nodes,
    cluster: ClusterDescription,
    silent: Container[int],
    ask: Callable[[Broker], Endpoint | None],
    voters: tuple[int, ...],
) -> Nodes:
    """A broker that is gone stays in the list, as one that does not answer. Each broker is asked once where it serves
    /status, and again while it is silent there, since a new start may have moved it."""
    is_same = before.cluster_id == cluster.cluster_id
    nodes = dict(before.nodes) if is_same else {}
    status = dict(before.status) if is_same else {}
    told = {node for node in before.told if node not in silent} if is_same else set()
    for broker in cluster.brokers:
        nodes[broker.id] = Node(broker.id, ("broker",), str(broker.endpoint), broker.rack)
        if broker.id in told or broker.id in cluster.fenced:
            continue
        try:
            found = ask(broker)
        except (KafkaError, ClientFailure):
            continue
        told.add(broker.id)
        if found is not None:
            status[broker.id] = found
    for node in voters:
        known = nodes.get(node)
        address, rack = ("", None) if known is None else (known.address, known.rack)
        roles = ("controller",) if known is None or "broker" not in known.roles else ("broker", "controller")
        nodes[node] = Node(node, roles, address, rack)
    return Nodes(cluster.cluster_id, cluster.controller, nodes, status, voters, frozenset(told))


def _voters(client: Client) -> tuple[int, ...]:
    """Empty for a cluster that does not report its quorum."""
    try:
        answer = Admin(client).describe_quorum()
    except (KafkaError, ClientFailure):
        return ()
    return tuple(
        voter.replica_id for topic in answer.topics for part in topic.partitions for voter in part.current_voters
    )


def _listener(client: Client, broker: Broker) -> Endpoint | None:
    found = Admin(client).describe_configs(ResourceType.BROKER, [str(broker.id)])
    rows: list[Any] = found.get(str(broker.id), [])
    return next((endpoint(row.value, broker.endpoint.host) for row in rows if row.name == LISTENER), None)


def endpoint(text: str | None, host: str) -> Endpoint | None:
    """`host` takes the place of an address that stands for all of them."""
    name, colon, port = (text or "").rpartition(":")
    if not colon or not port.isdecimal() or port == "0":
        return None
    name = name.strip("[]")
    return Endpoint(host if name in ("", "0.0.0.0", "::") and host else name or "127.0.0.1", int(port))
