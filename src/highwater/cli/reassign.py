"""`highwater reassign`: kafka-reassign-partitions.sh, without moves between directories."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import SystemRandom

import click

from highwater.cli.bootstrap import bootstrap_option, require_cluster
from highwater.cli.java_order import hash_map_order, string_hash
from highwater.cli.java_text import plain_text
from highwater.cli.output import output_option, print_json
from highwater.cli.properties import load_properties, open_client
from highwater.cli.reassignment_json import Plan, parse_brokers, parse_plan, parse_rows, parse_topics, plan_text
from highwater.cli.tool import given, misuse, tool
from highwater.client.admin import Admin, ResourceType
from highwater.client.client import Broker, Client
from highwater.client.descriptions import describe_topics
from highwater.client.failures import ClientFailure
from highwater.client.reassignments import alter_reassignments
from highwater.client.throttles import BROKER_THROTTLES, TOPIC_THROTTLES, planned_moves, set_throttle
from highwater.controller.placement import UsableBroker, place
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition
from highwater.wire.messages.list_partition_reassignments_response import OngoingPartitionReassignment

ACTIONS = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
"""The actions, each with the options that it needs."""
PERMITTED = {
    "generate": ("disable-rack-aware",),
    "execute": ("additional", "throttle"),
    "verify": ("preserve-throttles",),
    "cancel": ("preserve-throttles",),
    "list": ("output",),
}
UNDER_WAY = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a "
    "new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)

MUST_VERIFY = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)


class Refused(Exception):
    """The whole message that is printed, without "Error:" before it."""


@tool("reassign")
@bootstrap_option
@click.option("--generate", is_flag=True, help="Propose a plan for topics and brokers, and print it. Nothing is moved.")
@click.option("--execute", is_flag=True, help="Begin to move partitions as the plan says.")
@click.option("--verify", is_flag=True, help="Show whether the moves of the plan are completed.")
@click.option("--cancel", is_flag=True, help="Cancel the moves of the plan that are under way.")
@click.option("--list", is_flag=True, help="List all moves that are under way.")
@click.option("--reassignment-json-file", metavar="FILE", help='The plan: {"version": 1, "partitions": [{"topic": "t", '
              '"partition": 0, "replicas": [1, 2]}, …]}')  # fmt: skip
@click.option("--topics-to-move-json-file", metavar="FILE", help='{"version": 1, "topics": [{"topic": "t"}, …]}')
@click.option("--broker-list", metavar="IDS", help="The brokers to which topics are to be moved: 1,2,3.")
@click.option("--disable-rack-aware", is_flag=True, help="Propose a plan without regard to racks.")
@click.option("--additional", is_flag=True, help="Begin these moves beside others, or with other targets.")
@click.option("--throttle", type=click.IntRange(min=-1), default=-1, metavar="BYTES",
              help="Bytes per second that the moves may take at each broker. --verify removes this.")  # fmt: skip
@click.option("--preserve-throttles", is_flag=True, help="Leave throttles of brokers and topics as they are.")
@click.option("--command-config", metavar="FILE", help="Property file with settings of the client.")
@output_option
def command(context: click.Context, **options: object) -> None:
    """Move partitions to other brokers, and show how far such moves are."""
    action = _action(context)
    servers = require_cluster(context.params["bootstrap_server"])
    try:
        path = context.params["command_config"]
        properties = load_properties(path) if path else {}
        with open_client(servers, properties, client_id="reassign-partitions-tool") as client:
            _act(action, context, client)
    except Refused as refused:
        click.echo(str(refused))
        sys.exit(1)
    except KafkaError as error:
        click.echo(f"Error: {plain_text(error)}")
        sys.exit(1)
    except (ClientFailure, ValueError, OSError) as error:
        click.echo(f"Error: {error}")
        sys.exit(1)


def _action(context: click.Context) -> str:
    chosen = [action for action in ACTIONS if given(context, action)]
    if len(chosen) != 1:
        misuse(context, f"Command must include exactly one action: {', '.join(f'--{each}' for each in ACTIONS)}")
    [action] = chosen
    missing = [option for option in ACTIONS[action] if not given(context, option)]
    if missing:
        misuse(context, f'Missing required argument "[{missing[0]}]"')
    allowed = {*ACTIONS[action], *PERMITTED[action]}
    for option in dict.fromkeys([each for lists in (ACTIONS, PERMITTED) for each in sum(lists.values(), ())]):
        if option not in allowed and given(context, option):
            misuse(context, f'Option "[{option}]" can\'t be used with action "[{action}]"')
    return action


def _act(action: str, context: click.Context, client: Client) -> None:
    params = context.params
    if action == "list":
        moving = Admin(client).list_reassignments()
        if params["output"] == "json":
            print_json([move_json(tp, moving[tp]) for tp in sorted(moving)])
        else:
            click.echo(_listed(moving))
        return
    if action == "generate":
        topics = parse_topics(Path(params["topics_to_move_json_file"]).read_text())
        _generate(client, topics, parse_brokers(params["broker_list"]), not params["disable_rack_aware"])
        return
    text = Path(params["reassignment_json_file"]).read_text()
    if action == "execute":
        _execute(client, parse_plan(text), params["additional"], params["throttle"])
    elif action == "verify":
        _verify(client, parse_rows(text), params["preserve_throttles"])
    else:
        _cancel(client, parse_rows(text), params["preserve_throttles"])


def _generate(client: Client, topics: Sequence[str], brokers: Sequence[int], by_rack: bool) -> None:
    """Each topic is placed anew on the brokers, as a new topic would be."""
    current = _replicas(client, topics)
    known = [broker for broker in Admin(client).describe_cluster().brokers if broker.id in brokers]
    usable = [UsableBroker(broker.id, broker.rack if by_rack else None, False) for broker in known]
    racks = [broker.rack for broker in usable]
    if None in racks and any(rack is not None for rack in racks):
        raise ValueError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    proposed: Plan = {}
    for topic in topics:
        partitions = sorted(tp for tp in current if tp.topic == topic)
        placed = place(usable, len(partitions), len(current[partitions[0]]), SystemRandom())
        proposed.update(zip(partitions, (list(replicas) for replicas in placed), strict=True))
    click.echo(f"Current partition replica assignment\n{plan_text(current)}\n")
    click.echo(f"Proposed partition reassignment configuration\n{plan_text(proposed)}")


def _execute(client: Client, plan: Plan, additional: bool, throttle: int) -> None:
    admin = Admin(client)
    under_way = admin.list_reassignments()
    if not additional and under_way:
        raise Refused(UNDER_WAY)
    _check_brokers(admin.describe_cluster().brokers, plan)
    current = _replicas(client, {tp.topic for tp in plan})
    missing = [tp for tp in plan if tp not in current]
    if missing:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition: {', '.join(map(str, missing))}")
    before = plan_text({tp: current[tp] for tp in plan})
    click.echo(
        f"Current partition replica assignment\n\n{before}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )
    if throttle >= 0:
        click.echo(MUST_VERIFY)
        set_throttle(admin, planned_moves(plan, current, under_way), throttle)
        click.echo(f"The inter-broker throttle limit was set to {throttle} B/s")
    errors = alter_reassignments(client, plan)
    if errors:
        raise Refused("Error reassigning partition(s):\n" + _lines(errors))
    click.echo(f"Successfully started partition reassignment{_s(plan)} for {_names(plan)}")


def _verify(client: Client, rows: Sequence[tuple[TopicPartition, list[int]]], preserves: bool) -> None:
    admin = Admin(client)
    moving = admin.list_reassignments()
    targets = dict(rows)
    current = _replicas(client, {tp.topic for tp in targets if tp not in moving}, may_be_missing=True)
    click.echo("Status of partition reassignment:")
    for tp in sorted(targets):
        found = current.get(tp, [])
        if tp in moving:
            click.echo(f"Reassignment of partition {tp} is still in progress.")
        elif found == targets[tp]:
            click.echo(f"Reassignment of partition {tp} is completed.")
        else:
            click.echo(
                f"There is no active reassignment of partition {tp}, but replica set is {_ids(found)} rather than "
                f"{_ids(targets[tp])}."
            )
    click.echo()  # Kafka has the moves between directories here
    if not moving and not preserves:
        _clear_throttles(admin, rows)


def _cancel(client: Client, rows: Sequence[tuple[TopicPartition, list[int]]], preserves: bool) -> None:
    admin = Admin(client)
    moving = sorted(admin.list_reassignments([tp for tp, _ in rows]))
    if moving:
        errors = alter_reassignments(client, dict.fromkeys(moving))
        if errors:
            raise Refused(f"Error cancelling partition reassignment{_s(errors)} for:\n" + _lines(errors))
        click.echo(f"Successfully cancelled partition reassignment{_s(moving)} for: {_names(moving)}")
    else:
        click.echo("None of the specified partition reassignments are active.")
    click.echo("None of the specified partition moves are active.", nl=False)
    if not preserves:
        _clear_throttles(admin, rows)


def move_json(tp: TopicPartition, row: OngoingPartitionReassignment) -> dict[str, object]:
    moved = {"adding": row.adding_replicas, "removing": row.removing_replicas}
    return {"topic": tp.topic, "partition": tp.partition, "replicas": row.replicas, **moved}


def _listed(moving: Mapping[TopicPartition, OngoingPartitionReassignment]) -> str:
    lines = []
    for tp in sorted(moving):
        row = moving[tp]
        adding = f" adding: {_ids(row.adding_replicas)}." if row.adding_replicas else ""
        removing = f" removing: {_ids(row.removing_replicas)}." if row.removing_replicas else ""
        lines.append(f"{tp}: replicas: {_ids(row.replicas)}.{adding}{removing}")
    return "\n".join(["Current partition reassignments:", *lines]) if lines else "No partition reassignments found."


def _clear_throttles(admin: Admin, rows: Sequence[tuple[TopicPartition, list[int]]]) -> None:
    """Deletes the settings of a throttle, whichever tool has set them."""
    known = [broker.id for broker in admin.describe_cluster().brokers]
    brokers = hash_map_order([*known, *(each for _, replicas in rows for each in replicas)], int)
    click.echo(f"Clearing broker-level throttles on broker{_s(brokers)} {_ids(brokers)}")
    for broker in brokers:
        admin.alter_configs(ResourceType.BROKER, str(broker), delete=BROKER_THROTTLES)
    topics = hash_map_order([tp.topic for tp, _ in rows], string_hash)
    click.echo(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}")
    for topic in topics:
        admin.alter_configs(ResourceType.TOPIC, topic, delete=TOPIC_THROTTLES)


def _replicas(client: Client, topics: Iterable[str], may_be_missing: bool = False) -> Plan:
    """The replicas of each partition of these topics. Raises KafkaError if a topic is missing."""
    found: Plan = {}
    for topic in sorted(set(topics)):
        try:
            [description] = describe_topics(client, [topic])
        except KafkaError as error:
            if error.code is not Code.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            if may_be_missing:
                continue
            raise KafkaError(error.code, f"Topic {topic} not found.") from None
        for row in description.partitions:
            found[TopicPartition(topic, row.partition_index)] = list(row.replica_nodes)
    return found


def _check_brokers(brokers: Sequence[Broker], plan: Plan) -> None:
    known = {broker.id for broker in brokers}
    wanted = hash_map_order([each for replicas in plan.values() for each in replicas], int)
    unknown = next((each for each in wanted if each not in known), None)
    if unknown is not None:
        raise ValueError(f"Unknown broker id {unknown}")


def _lines(errors: Mapping[TopicPartition, KafkaError]) -> str:
    return "\n".join(f"{tp}: {plain_text(errors[tp])}" for tp in sorted(errors))


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(map(str, sorted(partitions)))


def _ids(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))


def _s(things: Iterable[object]) -> str:
    return "" if len(list(things)) == 1 else "s"
