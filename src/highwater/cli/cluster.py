"""`highwater cluster`: kafka-cluster.sh, its `cluster-id`, `unregister` and `list-endpoints`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from highwater.cli.bootstrap import bootstrap_option, require_cluster
from highwater.cli.command_group import CommandGroup
from highwater.cli.output import output_option, print_json
from highwater.cli.properties import load_properties, open_client
from highwater.cli.tool import fail
from highwater.client.admin import Admin
from highwater.client.client import Broker, Client
from highwater.client.failures import ClientFailure
from highwater.client.unregistration import unregister_broker
from highwater.errors import KafkaError
from highwater.model import NodeId

_NO_HOST, _NO_RACK = 100, 10
"""Widths of columns in which nothing stands, as Kafka's tool has them."""


def config_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--config", "-c", metavar="FILE", help="Property file with settings of the client.")(command)


@click.group("cluster", cls=CommandGroup)
def command() -> None:
    """Show the id or the endpoints of a cluster, or unregister a broker that is gone for good."""


@command.command("cluster-id")
@bootstrap_option
@config_option
def cluster_id(bootstrap_server: str | None, config: str | None) -> None:
    """Show the id of the cluster."""
    with _opened(bootstrap_server, config) as client:
        click.echo(f"Cluster ID: {Admin(client).describe_cluster().cluster_id}")


@command.command("unregister")
@bootstrap_option
@config_option
@click.option("--id", "-i", "broker", type=int, required=True, metavar="ID", help="The broker to unregister.")
def unregister(bootstrap_server: str | None, config: str | None, broker: int) -> None:
    """Unregister a broker: it leaves every ISR, and is no longer expected to come back.

    Drain it first with `highwater balance --drain ID --execute`, and stop it. A broker that still runs registers again.
    """
    with _opened(bootstrap_server, config) as client:
        unregister_broker(client, NodeId(broker))
    click.echo(f"Broker {broker} is no longer registered.")


@command.command("list-endpoints")
@bootstrap_option
@config_option
@click.option("--include-fenced-brokers", "fenced", is_flag=True, help="Also brokers that do not serve.")
@output_option
def list_endpoints(bootstrap_server: str | None, config: str | None, fenced: bool, output: str) -> None:
    """List the brokers with the address of each, on the listener that is connected to."""
    with _opened(bootstrap_server, config) as client:
        found = Admin(client).describe_cluster(fenced=fenced)
    if output == "json":
        print_json([_endpoint_json(broker, broker.id in found.fenced) for broker in _by_id(found.brokers)])
        return
    host = max((len(broker.endpoint.host) for broker in found.brokers), default=_NO_HOST)
    rack = max((len(broker.rack) for broker in found.brokers if broker.rack is not None), default=_NO_RACK)
    rows = [("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")]
    for broker in _by_id(found.brokers):
        state = "fenced" if broker.id in found.fenced else "unfenced"
        at = broker.endpoint
        rows.append((str(broker.id), at.host, str(at.port), broker.rack or "null", state, "broker"))
    for row in rows:
        widths = (10, host, 10, rack, 10, 15)
        click.echo(" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


def _by_id(brokers: Iterable[Broker]) -> list[Broker]:
    return sorted(brokers, key=lambda broker: broker.id)


def _endpoint_json(broker: Broker, is_fenced: bool) -> dict[str, object]:
    state = "fenced" if is_fenced else "unfenced"
    return {"id": broker.id, "host": broker.endpoint.host, "port": broker.endpoint.port, "rack": broker.rack,
            "state": state, "endpoint_type": "broker"}  # fmt: skip


@contextmanager
def _opened(servers: str | None, path: str | None) -> Iterator[Client]:
    try:
        properties = load_properties(path) if path else {}
        with open_client(require_cluster(servers), properties, client_id="cluster-tool") as client:
            yield client
    except (KafkaError, ClientFailure, ValueError, OSError) as error:
        fail(str(error))
