"""`highwater features`: kafka-features.sh, its `describe`."""

from __future__ import annotations

import click

from highwater.cli.bootstrap import bootstrap_option, require_cluster
from highwater.cli.command_group import CommandGroup
from highwater.cli.output import output_option, print_json
from highwater.cli.properties import load_properties, open_client
from highwater.cli.tool import fail
from highwater.client.client import Client
from highwater.client.connection import Connection
from highwater.client.failures import ClientFailure
from highwater.client.versions import ask_versions
from highwater.errors import KafkaError
from highwater.model import NodeId
from highwater.storage.releases import METADATA_LEVELS, release_name
from highwater.wire.messages.api_versions_response import ApiVersionsResponse

_METADATA_VERSION = "metadata.version"


@click.group("features", cls=CommandGroup)
@bootstrap_option
@click.option("--bootstrap-controller", metavar="SERVERS", help="Controllers to connect to, instead of brokers.")
@click.option("--command-config", metavar="FILE", help="Property file with settings of the client.")
@click.pass_context
def command(
    context: click.Context, bootstrap_server: str | None, bootstrap_controller: str | None, command_config: str | None
) -> None:
    """Describe the features of a cluster: the levels that its nodes support, and the levels that are in force."""
    context.obj = (bootstrap_controller or bootstrap_server, command_config)


@command.command("describe")
@click.option("--node-id", type=int, metavar="ID", help="The broker to ask; any if missing.")
@output_option
@click.pass_obj
def describe(asked: tuple[str | None, str | None], node_id: int | None, output: str) -> None:
    """Describe the levels that are in force."""
    servers, path = asked
    try:
        properties = load_properties(path) if path else {}
        with open_client(require_cluster(servers), properties, client_id="adminclient") as client:
            found = client.retrying(lambda: ask_versions(_connection(client, node_id)))
    except (KafkaError, ClientFailure, ValueError, OSError) as error:
        fail(str(error))
    if output == "json":
        print_json(_as_json(found))
        return
    levels = _levels(found)
    epoch = "-" if found.finalized_features_epoch < 0 else str(found.finalized_features_epoch)
    for each in sorted(found.supported_features, key=lambda each: each.name):
        low, high = _level(each.name, each.min_version), _level(each.name, each.max_version)
        click.echo(
            f"Feature: {each.name:<40}  SupportedMinVersion: {low:<15}  SupportedMaxVersion: {high:<15}  "
            f"FinalizedVersionLevel: {_level(each.name, levels.get(each.name, 0)):<15}  Epoch: {epoch}"
        )


def _connection(client: Client, node: int | None) -> Connection:
    return client.any_connection() if node is None else client.broker_connection(NodeId(node))


def _levels(found: ApiVersionsResponse) -> dict[str, int]:
    """Those in force. A feature that is not named is off."""
    return {each.name: each.max_version_level for each in found.finalized_features}


def _level(feature: str, level: int) -> str:
    """A level of the metadata by the release's name."""
    if feature != _METADATA_VERSION:
        return str(level)
    return release_name(level) if level in METADATA_LEVELS.values() else f"UNKNOWN {level}"


def _as_json(found: ApiVersionsResponse) -> dict[str, object]:
    levels = _levels(found)
    return {
        "epoch": None if found.finalized_features_epoch < 0 else found.finalized_features_epoch,
        "features": [
            {
                "feature": each.name,
                "supported_min": each.min_version,
                "supported_max": each.max_version,
                "level": levels.get(each.name, 0),
            }
            for each in sorted(found.supported_features, key=lambda each: each.name)
        ],
    }
