"""`highwater doctor`: looks at a cluster as a client, and at nodes of this machine, and says what is wrong."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from highwater.cli.bootstrap import DATA_DIR, NONE_FOUND, VARIABLE
from highwater.cli.doctor.cluster import examine_cluster
from highwater.cli.doctor.finding import Finding, is_well, lines
from highwater.cli.doctor.limits import examine_process, examine_start
from highwater.cli.doctor.local_nodes import LocalNode, examine_node, node_of, nodes_of
from highwater.cli.doctor.ports import examine_ports
from highwater.cli.output import output_option, print_json
from highwater.cli.properties import load_properties
from highwater.cli.tool import fail
from highwater.client.client import Client
from highwater.client.security import Security


@click.command("doctor")
@click.option("--bootstrap-server", "servers", metavar="SERVERS",
              help="The servers of a cluster, of Highwater or of Apache Kafka, as clients give them.")  # fmt: skip
@click.option("--command-config", "client_config", metavar="FILE", help="Property file with settings of the client.")
@click.option("--data-dir", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR",
              help="The data directory of `highwater up` on this machine.")  # fmt: skip
@click.option("--config", "config", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
              help="The server.properties of a node of this machine, whether it starts or not.")  # fmt: skip
@click.option("--timeout", "seconds", default=3.0, show_default=True, type=click.FloatRange(min=0.1), metavar="SECONDS",
              help="How long each address may take to answer.")  # fmt: skip
@output_option
def command(
    servers: str | None,
    client_config: str | None,
    data_dir: Path | None,
    config: Path | None,
    seconds: float,
    output: str,
) -> None:
    """Examine a cluster or a node: what clients are told to connect to and whether they can, ports, limits, disks,
    clocks, versions, quorum and partitions. What is wrong comes with what to do.

    Without options it is the cluster of HIGHWATER_BOOTSTRAP, or else of `highwater up` in the default directory. The
    exit code is 1 if something is wrong.
    """
    if servers is None and data_dir is None and config is None:
        servers = os.environ.get(VARIABLE)
        if servers is None:
            data_dir = DATA_DIR
            if not data_dir.is_dir():
                fail(NONE_FOUND)
    found = [] if data_dir is None else list(nodes_of(data_dir))
    found += [] if config is None else [node_of(config)]
    nodes = [each for each in found if isinstance(each, LocalNode)]
    findings = [each for each in found if isinstance(each, Finding)]
    for node in nodes:
        findings += _examined(node, seconds)
    try:
        findings += _as_client(servers or _addresses(nodes), client_config, nodes, seconds)
    except ValueError as wrong:
        fail(str(wrong))
    if output == "json":
        print_json({"is_well": is_well(findings), "findings": [each.as_json() for each in findings]})
    else:
        click.echo("\n".join(lines(findings)))
    sys.exit(0 if is_well(findings) else 1)


def _examined(node: LocalNode, seconds: float) -> list[Finding]:
    name = f"node {node.id}"
    limits = examine_start(name) if node.pid is None else examine_process(name, node.pid)
    return [*examine_node(node, seconds), *examine_ports(node), *limits]


def _addresses(nodes: list[LocalNode]) -> str:
    """Of the nodes that run and have clients."""
    return ",".join(str(node.bootstrap) for node in nodes if node.pid is not None and node.bootstrap is not None)


def _as_client(servers: str, client_config: str | None, nodes: list[LocalNode], seconds: float) -> list[Finding]:
    """Raises ValueError for servers or settings that mean nothing."""
    if not servers:
        return []
    security = Security.of(load_properties(client_config) if client_config else {})
    with Client(servers, client_id="doctor", timeout=seconds, request_timeout=seconds, security=security) as client:
        return list(examine_cluster(client, [node.id for node in nodes], seconds))
