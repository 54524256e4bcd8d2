"""`highwater topics`: kafka-topics.sh."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

import click

from highwater.cli import topic_report
from highwater.cli.bootstrap import bootstrap_option, require_cluster
from highwater.cli.completion import topic_names
from highwater.cli.output import output_option, print_json, suggest, suggest_setting
from highwater.cli.properties import load_properties, open_client
from highwater.cli.tool import exclude, given, misuse, require, tool
from highwater.cli.topic_filter import INTERNAL_TOPICS, TopicFilter
from highwater.cli.verbs import as_typed
from highwater.client.admin import USE_DEFAULT, Admin, NewTopic
from highwater.client.client import Client
from highwater.client.descriptions import describe_topics
from highwater.client.failures import ClientFailure
from highwater.config.topic import TOPIC_SETTINGS
from highwater.errors import Code, KafkaError
from highwater.model import ZERO_UUID, uuid_from_text, uuid_text

ACTIONS = ("list", "describe", "create", "alter", "delete")
REPORTS = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
ALTERING_HINT = " (To alter topic configurations, the kafka-configs tool can be used.)"


@tool("topics")
@bootstrap_option
@click.option("--command-config", metavar="FILE", help="Property file with settings of the client.")
@click.option("--list", is_flag=True, help="List all topics.")
@click.option("--create", is_flag=True, help="Create a topic.")
@click.option("--delete", is_flag=True, help="Delete topics.")
@click.option("--alter", is_flag=True, help="Raise the number of partitions." + ALTERING_HINT)
@click.option("--describe", is_flag=True, help="Show partitions, replicas and settings of topics.")
@click.option(
    "--topic",
    metavar="TOPIC",
    shell_complete=topic_names,
    help="The topic; with all but --create also a regular expression.",
)
@click.option("--topic-id", metavar="ID", help="The id of the topic to describe.")
@click.option("--config", multiple=True, metavar="NAME=VALUE", help="A setting of the topic to create.")
@click.option("--delete-config", multiple=True, metavar="NAME", help="No longer supported, as in Kafka since 4.0.")
@click.option("--partitions", type=int, help="Number of partitions; the cluster's default if --create lacks it.")
@click.option("--replication-factor", type=int, help="Replicas of each partition to create.")
@click.option("--replica-assignment", metavar="1:2,2:3,…", help="Brokers of each partition to create or add.")
@click.option("--under-replicated-partitions", is_flag=True, help="Describe partitions that lack in-sync replicas.")
@click.option("--unavailable-partitions", is_flag=True, help="Describe partitions without a live leader.")
@click.option("--under-min-isr-partitions", is_flag=True, help="Describe partitions below min.insync.replicas.")
@click.option("--at-min-isr-partitions", is_flag=True, help="Describe partitions exactly at min.insync.replicas.")
@click.option("--topics-with-overrides", is_flag=True, help="Describe only topics with settings of their own.")
@click.option("--if-exists", is_flag=True, help="No error if the topic to alter, delete or describe is missing.")
@click.option("--if-not-exists", is_flag=True, help="No error if the topic to create is there already.")
@click.option("--exclude-internal", is_flag=True, help="List or describe without internal topics.")
@click.option("--partition-size-limit-per-response", type=int, help="Partitions asked for per request at most.")
@output_option
def command(context: click.Context, **options: object) -> None:
    """Create, delete, describe or change topics."""
    _check(context)
    try:
        with _client(context) as client:
            _run(context, client)
    except (KafkaError, ClientFailure, ValueError) as error:
        # On stdout, as kafka-topics.sh has it.
        click.echo(f"Error while executing topic command : {error}")
        sys.exit(1)


def _client(context: click.Context) -> Client:
    path = context.params["command_config"]
    return open_client(
        context.params["bootstrap_server"], load_properties(path) if path else {}, client_id="adminclient-1"
    )


def _run(context: click.Context, client: Client) -> None:
    options = context.params
    admin = Admin(client)
    if options["create"]:
        _create(admin, options)
    elif options["alter"]:
        _alter(admin, options)
    elif options["list"]:
        _list(admin, options)
    elif options["describe"]:
        _describe(admin, options)
    else:
        topics = _existing(admin, options)
        admin.delete_topics(topics)


def _list(admin: Admin, options: dict[str, object]) -> None:
    names = _matching(admin, options)
    if options["output"] == "json":
        ids = admin.list_topics()
        print_json([{"topic": name, "id": uuid_text(ids.get(name, ZERO_UUID))} for name in names])
    else:
        click.echo("\n".join(names))


def _check(context: click.Context) -> None:
    """Kafka's rules for combinations of options, in its order."""
    if sum(given(context, action) for action in ACTIONS) != 1:
        misuse(
            context,
            "Command must include exactly one action: --list, --describe, --create, --alter or --delete",
        )
    if given(context, "delete-config"):
        click.echo("delete-config option is no longer supported and deprecated since version 4.0.", err=True)
    require_cluster(context.params["bootstrap_server"])
    if given(context, "describe") and given(context, "if-exists"):
        named, by_id = given(context, "topic"), given(context, "topic-id")
        if not named and not by_id:
            misuse(context, "--topic or --topic-id is required to describe a topic")
        if named and by_id:
            click.echo(
                "Only topic id will be used when both --topic and --topic-id are specified and topicId is not "
                "Uuid.ZERO_UUID"
            )
    if not given(context, "list") and not given(context, "describe"):
        require(context, "topic")
    if given(context, "alter"):
        if given(context, "config"):
            misuse(
                context,
                f'Option combination "[bootstrap-server],[config]" can\'t be used with option "[alter]"{ALTERING_HINT}',
            )
        require(context, "partitions")
    _check_combinations(context)


def _check_combinations(context: click.Context) -> None:
    for option, allowed in (
        ("config", ("alter", "create")),
        ("partitions", ("alter", "create")),
        ("replication-factor", ("create",)),
        ("replica-assignment", ("alter", "create")),
    ):
        exclude(context, option, *_but(allowed))
    if given(context, "create"):
        exclude(context, "replica-assignment", "partitions", "replication-factor")
    for report in REPORTS:
        exclude(context, report, *_but(("describe",)), "topics-with-overrides")
    exclude(context, "topics-with-overrides", *_but(("describe",)), *REPORTS)
    exclude(context, "if-exists", *_but(("alter", "delete", "describe")))
    exclude(context, "if-not-exists", *_but(("create",)))
    exclude(context, "exclude-internal", *_but(("list", "describe")))
    exclude(context, "output", *_but(("list", "describe")))


def _but(allowed: Sequence[str]) -> list[str]:
    return [action for action in ACTIONS if action not in allowed]


def _matching(admin: Admin, options: dict[str, object]) -> list[str]:
    expression, exclude_internal = options["topic"], bool(options["exclude_internal"])
    chosen = TopicFilter(str(expression)) if expression is not None else None
    return [
        name
        for name in sorted(admin.list_topics(internal=not exclude_internal))
        if (chosen is None or chosen.allows(name)) and not (exclude_internal and name in INTERNAL_TOPICS)
    ]


def _existing(admin: Admin, options: dict[str, object]) -> list[str]:
    """The topics that the options mean. It is an error if there is none, unless --if-exists is given."""
    topics = _matching(admin, options)
    if options["topic"] and not topics and not options["if_exists"]:
        typed = as_typed(str(options["topic"]))
        suggest(typed, admin.list_topics())
        raise ValueError(f"Topic '{typed}' does not exist as expected")
    return topics


def _create(admin: Admin, options: dict[str, object]) -> None:
    name = str(options["topic"])
    partitions, replication_factor = options["partitions"], options["replication_factor"]
    assignment = parse_replica_assignment(options["replica_assignment"])
    configs = parse_configs(options["config"])
    if "." in name or "_" in name:
        click.echo(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide."
            " To avoid issues it is best to use either, but not both."
        )
    if isinstance(replication_factor, int) and not 1 <= replication_factor <= 32767:
        raise ValueError("The replication factor must be between 1 and 32767 inclusive")
    if isinstance(partitions, int) and partitions < 1:
        raise ValueError("The partitions must be greater than 0")
    topic = NewTopic(
        name,
        partitions if isinstance(partitions, int) else USE_DEFAULT,
        replication_factor if isinstance(replication_factor, int) else USE_DEFAULT,
        assignment,
        configs,
    )
    try:
        admin.create_topics([topic])
    except KafkaError as error:
        if error.code == Code.TOPIC_ALREADY_EXISTS and options["if_not_exists"]:
            return
        if error.code == Code.INVALID_CONFIG:
            suggest_setting(configs, TOPIC_SETTINGS)
        raise
    click.echo(f"Created topic {name}.")


def _alter(admin: Admin, options: dict[str, object]) -> None:
    topics = _existing(admin, options)
    if not topics:
        return
    count = int(str(options["partitions"]))
    assignment = parse_replica_assignment(options["replica_assignment"])
    placed = {}
    if assignment:
        for topic in describe_topics(admin.client, topics):
            placed[topic.name or ""] = assignment[len(topic.partitions) :]
    admin.create_partitions(dict.fromkeys(topics, count), placed)


def _describe(admin: Admin, options: dict[str, object]) -> None:
    topic_id = uuid_from_text(str(options["topic_id"])) if options["topic_id"] else ZERO_UUID
    limit = options["partition_size_limit_per_response"]
    if topic_id != ZERO_UUID:
        if topic_id not in admin.list_topics(internal=not options["exclude_internal"]).values():
            if options["if_exists"]:
                return
            raise ValueError(f"TopicId '{uuid_text(topic_id)}' does not exist as expected")
        described = topic_report.by_id(admin, topic_id)
    else:
        topics = _existing(admin, options)
        described = topic_report.by_name(admin, topics, limit if isinstance(limit, int) else None)
    reports = [report for report in REPORTS if options[report.replace("-", "_")]]
    found = topic_report.reported(admin, described, reports, bool(options["topics_with_overrides"]))
    if options["output"] == "json":
        print_json([topic.as_json() for topic in found])
        return
    for topic in found:
        for line in topic.lines():
            click.echo(line)


def parse_replica_assignment(text: object) -> list[list[int]]:
    """`1:2,2:3`: the replicas of partition 0, then of 1. All lists must have one length, and no replica may be named
    twice."""
    if not text:
        return []
    assignment: list[list[int]] = []
    for index, part in enumerate(str(text).split(",")):
        replicas = [_broker_id(number.strip()) for number in part.split(":")]
        twice = [str(broker) for broker in dict.fromkeys(replicas) if replicas.count(broker) > 1]
        if twice:
            raise ValueError(f"Partition replica lists may not contain duplicate entries: {','.join(twice)}")
        assignment.append(replicas)
        if len(replicas) != len(assignment[0]):
            raise ValueError(f"Partition {index} has different replication factor: {replicas}")
    return assignment


def _broker_id(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,10}", text):
        raise ValueError(f'For input string: "{text}"')
    return int(text)


def parse_configs(texts: object) -> dict[str, str]:
    configs = {}
    for text in texts if isinstance(texts, tuple) else ():
        # Java's split drops trailing empty parts, so "key=" has no value.
        parts = re.split(r"\s*=\s*", text.rstrip("= \t"))
        if len(parts) != 2:
            raise ValueError(
                'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
            )
        configs[parts[0].strip()] = parts[1].strip()
    return configs
