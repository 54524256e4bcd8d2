"""`highwater leader-election`: kafka-leader-election.sh."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from highwater.cli.bootstrap import bootstrap_option, require_cluster
from highwater.cli.completion import topic_names
from highwater.cli.java_text import exception_text
from highwater.cli.properties import load_properties, open_client
from highwater.cli.tool import exactly_one, fail, misuse, require, tool
from highwater.client.elections import Election, elect_leaders
from highwater.client.failures import ClientFailure
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition


@tool("leader-election")
@bootstrap_option
@click.option("--election-type", metavar="TYPE", help="REQUIRED: preferred or unclean.")
@click.option("--all-topic-partitions", is_flag=True, help="Every partition that the election is of use to.")
@click.option("--topic", metavar="TOPIC", shell_complete=topic_names, help="The topic of --partition.")
@click.option("--partition", type=int, metavar="ID", help="The partition of --topic.")
@click.option("--path-to-json-file", metavar="FILE", help='{"partitions": [{"topic": "t", "partition": 0}, …]}')
@click.option("--command-config", metavar="FILE", help="Property file with settings of the client.")
def command(context: click.Context, **options: object) -> None:
    """Elect leaders: the preferred ones, or any live replica where no other is left (unclean: may lose records)."""
    require_cluster(context.params["bootstrap_server"])
    require(context, "election-type")
    given = context.params
    exactly_one(context, "topic", "all-topic-partitions", "path-to-json-file")
    if (given["topic"] is None) != (given["partition"] is None):
        misuse(context, "Missing required option(s): partition" if given["partition"] is None else
               "Option partition is only allowed if topic is used")  # fmt: skip
    try:
        kind = Election[str(given["election_type"]).upper()]
    except KeyError:
        misuse(context, f"Unrecognized election type {given['election_type']}: preferred or unclean")
    try:
        _elect(given, kind, _wanted(given))
    except (KafkaError, ClientFailure, ValueError, OSError) as error:
        fail(str(error))


def _wanted(options: dict[str, Any]) -> list[TopicPartition] | None:
    """None means all partitions."""
    if options["all_topic_partitions"]:
        return None
    if options["topic"] is not None:
        return [TopicPartition(options["topic"], options["partition"])]
    data = json.loads(Path(options["path_to_json_file"]).read_text())
    if not isinstance(data, dict) or "partitions" not in data:
        raise ValueError('Replica election data is missing "partitions" field')
    wanted = [TopicPartition(each["topic"], each["partition"]) for each in data["partitions"]]
    twice = sorted({each for each in wanted if wanted.count(each) > 1})
    if twice:
        raise ValueError(f"Replica election data contains duplicate partitions: [{', '.join(map(str, twice))}]")
    return wanted


def _elect(options: dict[str, Any], kind: Election, wanted: list[TopicPartition] | None) -> None:
    path = options["command_config"]
    with open_client(
        options["bootstrap_server"], load_properties(path) if path else {}, client_id="adminclient"
    ) as client:
        results = elect_leaders(client, kind, wanted)
    done = sorted(tp for tp, error in results.items() if error is None)
    needless = sorted(
        tp for tp, error in results.items() if error is not None and error.code is Code.ELECTION_NOT_NEEDED
    )
    failed = {tp: error for tp, error in results.items() if error is not None and tp not in needless}
    if done:
        click.echo(f"Successfully completed leader election ({kind.name}) for partitions {', '.join(map(str, done))}")
    if needless:
        click.echo(f"Valid replica already elected for partitions {', '.join(map(str, needless))}")
    for tp, error in sorted(failed.items()):
        click.echo(f"Error completing leader election ({kind.name}) for partition: {tp}: {exception_text(error)}")
    if failed:
        fail(f"{len(failed)} replica(s) could not be elected")
