"""`highwater log-dirs`: kafka-log-dirs.sh."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from highwater.cli.bootstrap import bootstrap_option, require_cluster
from highwater.cli.java_order import hash_map_order, string_hash
from highwater.cli.java_text import exception_text
from highwater.cli.properties import load_properties, open_client
from highwater.cli.tool import fail, require, tool
from highwater.client.admin import Admin
from highwater.client.failures import ClientFailure
from highwater.client.log_dirs import LogDir, describe_log_dirs
from highwater.errors import Code, KafkaError
from highwater.model import NodeId, TopicPartition


@tool("log-dirs")
@bootstrap_option
@click.option("--command-config", metavar="FILE", help="Property file with settings of the client.")
@click.option("--describe", is_flag=True, help="REQUIRED: describe the log directories.")
@click.option("--topic-list", default="", metavar="TOPICS", help="Comma-separated topics; all if missing.")
@click.option("--broker-list", default="", metavar="IDS", help="Comma-separated broker ids; all if missing.")
def command(context: click.Context, **options: object) -> None:
    """Show how large the logs in the directories of brokers are."""
    require_cluster(context.params["bootstrap_server"])
    require(context, "describe")
    path = context.params["command_config"]
    properties = load_properties(path) if path else {}
    try:
        asked = [NodeId(int(word)) for word in _words(context.params["broker_list"])]
        with open_client(context.params["bootstrap_server"], properties, client_id="log-dirs-tool") as client:
            there = sorted(broker.id for broker in Admin(client).describe_cluster().brokers)
            if missing := [broker for broker in asked if broker not in there]:
                fail(
                    f"ERROR: The given brokers do not exist from --broker-list: {_listed(missing)}."
                    f" Current existent brokers: {_listed(there)}"
                )
            click.echo("Querying brokers for log directories information")
            brokers = sorted(set(asked)) or there
            found = describe_log_dirs(client, brokers)
    except (ValueError, OSError, KafkaError, ClientFailure) as error:
        fail(str(error))
    click.echo(f"Received log directory information from brokers {_listed(brokers)}")
    topics = set(_words(context.params["topic_list"]))
    described = [
        {"broker": broker, "logDirs": [_described(directory, topics) for directory in directories]}
        for broker, directories in found.items()
    ]
    click.echo(json.dumps(_in_order({"version": 1, "brokers": described}), separators=(",", ":")))


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _listed(brokers: Sequence[NodeId]) -> str:
    return ",".join(map(str, brokers))


def _described(directory: LogDir, topics: set[str]) -> dict[str, object]:
    failed = directory.error is not Code.NONE
    chosen = {each.partition: each for each in directory.logs if not topics or each.partition.topic in topics}
    return {
        "logDir": directory.path,
        "error": exception_text(KafkaError(directory.error)).partition(":")[0] if failed else None,
        "partitions": [
            {"partition": str(each.partition), "size": each.size, "offsetLag": each.lag, "isFuture": each.is_future}
            for each in map(chosen.__getitem__, hash_map_order(chosen, _hash))
        ],
    }


def _hash(partition: TopicPartition) -> int:
    return (31 * (31 + partition.partition) + string_hash(partition.topic)) & 0xFFFFFFFF


def _in_order(value: object) -> object:
    """Objects with their fields in the order of Kafka's tool."""
    if isinstance(value, dict):
        return {name: _in_order(value[name]) for name in hash_map_order(value, string_hash)}
    return [_in_order(each) for each in value] if isinstance(value, list) else value
