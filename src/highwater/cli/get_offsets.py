"""`highwater get-offsets`: kafka-get-offsets.sh."""

from __future__ import annotations

import re
from collections.abc import Callable

import click

from highwater.cli.bootstrap import bootstrap_option, require_cluster
from highwater.cli.completion import topic_names
from highwater.cli.java_text import exception_text
from highwater.cli.output import output_option, print_json
from highwater.cli.properties import load_properties, open_client
from highwater.cli.tool import fail, misuse, tool
from highwater.cli.topic_filter import TopicFilter
from highwater.client.admin import Admin
from highwater.client.client import Client, parse_bootstrap_servers
from highwater.client.descriptions import describe_topics
from highwater.client.failures import ClientFailure
from highwater.client.offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    list_offsets,
)
from highwater.errors import KafkaError
from highwater.model import TopicPartition

SPECS = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL,
    "latest-tiered": LATEST_TIERED,
    "earliest-pending-upload": EARLIEST_PENDING_UPLOAD,
}
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")

Chooser = Callable[[TopicPartition], bool]


@tool("get-offsets")
@bootstrap_option
@click.option(
    "--topic-partitions",
    metavar="TOPIC:PARTITIONS,…",
    help="Topic expressions, each with a partition, a range FROM-TO (TO excluded), FROM- or -TO after a colon.",
)
@click.option(
    "--topic", metavar="TOPIC", shell_complete=topic_names, help="A topic or regular expression; all topics if missing."
)
@click.option("--partitions", metavar="IDS", help="Comma-separated partition ids; all if missing.")
@click.option("--time", default="latest", metavar="TIME", help=f"A time in ms or -1 to -6: {', '.join(SPECS)}.")
@click.option("--command-config", metavar="FILE", help="Property file with settings of the client.")
@click.option("--exclude-internal-topics", is_flag=True, help="Leave out internal topics.")
@output_option
def command(context: click.Context, **options: object) -> None:
    """Show the offsets of partitions, by position or time."""
    try:
        parse_bootstrap_servers(require_cluster(context.params["bootstrap_server"]))
    except ValueError:
        misuse(context, "Please provide valid host:port like host1:9091,host2:9092\n")
    try:
        _run(context)
    except (KafkaError, ClientFailure, ValueError) as error:
        fail(f"Error occurred: {error}")


def _run(context: click.Context) -> None:
    options = context.params
    if options["topic_partitions"] is not None and (options["topic"] is not None or options["partitions"] is not None):
        raise ValueError("--topic-partitions cannot be used with --topic or --partitions")
    when = parse_time(options["time"])
    chosen = chooser(options["topic_partitions"], options["topic"], options["partitions"])
    path = options["command_config"]
    properties = load_properties(path) if path else {}
    with open_client(options["bootstrap_server"], properties, client_id="GetOffsetShell") as client:
        partitions = _partitions(client, chosen, internal=not options["exclude_internal_topics"])
        if not partitions:
            raise ValueError("Could not match any topic-partitions with the specified filters")
        found = list_offsets(client, dict.fromkeys(partitions, when))
    rows = []
    for partition in sorted(found, key=str):
        answer = found[partition]
        if isinstance(answer, KafkaError):
            click.echo(
                f"Skip getting offsets for topic-partition {partition} due to error: {exception_text(answer)}", err=True
            )
        elif answer.offset >= 0:
            rows.append({"topic": partition.topic, "partition": partition.partition, "offset": answer.offset})
    if options["output"] == "json":
        print_json(rows)
        return
    for row in rows:
        click.echo(f"{row['topic']}:{row['partition']}:{row['offset']}")


def _partitions(client: Client, chosen: Chooser, *, internal: bool) -> list[TopicPartition]:
    names = Admin(client).list_topics(internal=internal)
    return [
        partition
        for topic in describe_topics(client, names)
        for described in topic.partitions
        if chosen(partition := TopicPartition(topic.name or "", described.partition_index))
    ]


def parse_time(text: str) -> int:
    """A word of SPECS, its number, or a timestamp in ms."""
    if text in SPECS:
        return SPECS[text]
    try:
        return int(text)
    except ValueError:
        choices = " / ".join(f"{number} or {word}" for word, number in SPECS.items())
        raise ValueError(
            f"Malformed time argument {text}. Please use {choices}, or a specified long format timestamp"
        ) from None


def chooser(rules: str | None, topic: str | None, partitions: str | None) -> Chooser:
    """The partitions that the options mean. Raises ValueError."""
    if rules is not None:
        choosers = [_rule(rule) for rule in rules.split(",")]
        return lambda partition: any(one(partition) for one in choosers)
    topics = TopicFilter(topic if topic is not None else ".*")
    try:
        ids = {int(number) for number in partitions.split(",")} if partitions else set()
    except ValueError:
        raise ValueError(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {partitions}"
        ) from None
    return lambda partition: topics.allows(partition.topic) and (not ids or partition.partition in ids)


def _rule(text: str) -> Chooser:
    match = _RULE.fullmatch(text)
    if match is None:
        raise ValueError(f"Invalid rule specification: {text}")
    topics = TopicFilter(match[1] or ".*")
    if match[2]:
        low, high = int(match[2]), int(match[2]) + 1
    else:
        low, high = int(match[3] or 0), int(match[4] or 2**31 - 1)
    return lambda partition: topics.allows(partition.topic) and low <= partition.partition < high
