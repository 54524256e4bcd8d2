"""`highwater broker-api-versions`: kafka-broker-api-versions.sh."""

from __future__ import annotations

from collections.abc import Iterator

import click

from highwater.cli.bootstrap import bootstrap_option, require_cluster
from highwater.cli.kafka_apis import KNOWN_APIS
from highwater.cli.output import output_option, print_json
from highwater.cli.properties import load_properties, open_client
from highwater.cli.tool import fail, tool
from highwater.client.client import Broker, Client
from highwater.client.failures import ClientFailure
from highwater.client.versions import ask_versions
from highwater.errors import KafkaError
from highwater.wire.messages.api_versions_response import ApiVersion

Ranges = list[ApiVersion]


@tool("broker-api-versions")
@bootstrap_option
@click.option("--command-config", metavar="FILE", help="Property file with settings of the client.")
@output_option
def command(context: click.Context, **options: object) -> None:
    """Show which versions of which APIs each broker answers, and which of them a client of Kafka 4.3 would use."""
    servers = require_cluster(context.params["bootstrap_server"])
    path = context.params["command_config"]
    try:
        with open_client(servers, load_properties(path) if path else {}, client_id="admin") as client:
            client.refresh([])
            # Kafka's tool has them in a new order each time.
            brokers = sorted(client.view.brokers.values(), key=lambda broker: broker.id)
            found = [(broker, _ranges(client, broker)) for broker in brokers]
    except (KafkaError, ClientFailure, ValueError, OSError) as error:
        fail(str(error))
    if context.params["output"] == "json":
        print_json([_as_json(broker, ranges) for broker, ranges in found])
        return
    for broker, ranges in found:
        shown = f"ERROR: {ranges}" if isinstance(ranges, str) else "(\n\t" + ",\n\t".join(_lines(ranges)) + "\n)"
        click.echo(f"{broker.endpoint} (id: {broker.id} rack: {broker.rack or 'null'} isFenced: false) -> {shown}")


def _ranges(client: Client, broker: Broker) -> Ranges | str:
    """What this broker answers, or why it does not say."""
    try:
        return ask_versions(client.connection(broker.endpoint)).api_keys
    except (KafkaError, ClientFailure) as error:
        return str(error)


def _lines(ranges: Ranges) -> Iterator[str]:
    """By key: those that the broker answers, and those of brokers that it does not."""
    offered = {each.api_key: each for each in ranges}
    missing = {key for key, api in KNOWN_APIS.items() if api.is_for_brokers and key not in offered}
    for key in sorted({*offered, *missing}):
        name = KNOWN_APIS[key].name if key in KNOWN_APIS else "UNKNOWN"
        yield f"{name}({key}): {_range(offered[key]) if key in offered else 'UNSUPPORTED'}"


def _range(offered: ApiVersion) -> str:
    low, high = offered.min_version, offered.max_version
    text = str(low) if low == high else f"{low} to {high}"
    known = KNOWN_APIS.get(offered.api_key)
    if known is None:
        return text
    if known.latest < low:
        return f"{text} [unusable: node too new]"
    if high < known.oldest:
        return f"{text} [unusable: node too old]"
    return f"{text} [usable: {min(known.latest, high)}]"


def _as_json(broker: Broker, ranges: Ranges | str) -> dict[str, object]:
    shown: dict[str, object] = {"id": broker.id, "address": str(broker.endpoint), "rack": broker.rack}
    if isinstance(ranges, str):
        return {**shown, "error": ranges}
    apis = [
        {
            "key": each.api_key,
            "name": KNOWN_APIS[each.api_key].name if each.api_key in KNOWN_APIS else None,
            "min_version": each.min_version,
            "max_version": each.max_version,
        }
        for each in sorted(ranges, key=lambda each: each.api_key)
    ]
    return {**shown, "apis": apis}
