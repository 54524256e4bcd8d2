"""`highwater delete-records`: kafka-delete-records.sh."""

from __future__ import annotations

import json

import click

from highwater.cli.bootstrap import bootstrap_option, require_cluster
from highwater.cli.java_text import exception_text
from highwater.cli.properties import load_properties, open_client
from highwater.cli.tool import fail, require, tool
from highwater.client.failures import ClientFailure
from highwater.client.offsets import delete_records
from highwater.errors import KafkaError
from highwater.model import TopicPartition


@tool("delete-records")
@bootstrap_option
@click.option(
    "--offset-json-file",
    metavar="FILE",
    help='REQUIRED: {"partitions": [{"topic": "foo", "partition": 1, "offset": 1}], "version": 1}',
)
@click.option("--command-config", metavar="FILE", help="Property file with settings of the client.")
def command(context: click.Context, **options: object) -> None:
    """Delete records up to given offsets."""
    require_cluster(context.params["bootstrap_server"])
    require(context, "offset-json-file")
    path = context.params["command_config"]
    properties = load_properties(path) if path else {}
    try:
        with open(context.params["offset_json_file"], encoding="utf-8") as file:
            before = parse_offsets(file.read())
        with open_client(context.params["bootstrap_server"], properties, client_id="adminclient-1") as client:
            click.echo("Executing records delete operation")
            results = delete_records(client, before)
    except (OSError, ValueError, KafkaError, ClientFailure) as error:
        fail(str(error))
    click.echo("Records delete operation completed:")
    for partition in before:
        result = results[partition]
        if isinstance(result, KafkaError):
            click.echo(f"partition: {partition}\terror: {exception_text(result)}")
        else:
            click.echo(f"partition: {partition}\tlow_watermark: {result}")


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """The offset before which records are deleted, for each partition. Raises ValueError."""
    try:
        document = json.loads(text)
    except ValueError:
        raise ValueError("The input string is not a valid JSON") from None
    if not isinstance(document, dict):
        raise ValueError(f"Expected JSON object, received {text.strip()}")
    version = document.get("version", 1)
    if version != 1:
        raise ValueError(f"Not supported version field value {version}")
    if "partitions" not in document:
        raise ValueError("Missing partitions field")
    offsets: dict[TopicPartition, int] = {}
    twice = []
    for entry in document["partitions"]:
        partition, offset = _entry(entry)
        if partition in offsets:
            twice.append(str(partition))
        offsets[partition] = offset
    if twice:
        raise ValueError(f"Offset json file contains duplicate topic partitions: {','.join(dict.fromkeys(twice))}")
    return offsets


def _entry(entry: object) -> tuple[TopicPartition, int]:
    if not isinstance(entry, dict):
        raise ValueError(f"Expected JSON object, received {json.dumps(entry)}")
    for field, kind in (("topic", str), ("partition", int), ("offset", int)):
        if field not in entry:
            raise ValueError(f"No such field exists: `{field}`")
        if not isinstance(entry[field], kind) or isinstance(entry[field], bool):
            raise ValueError(f"Expected `{kind.__name__}` value for {field}, received {json.dumps(entry[field])}")
    return TopicPartition(entry["topic"], entry["partition"]), entry["offset"]
