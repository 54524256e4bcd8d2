"""`highwater groups`: kafka-consumer-groups.sh."""

from __future__ import annotations

from typing import NoReturn

import click

from highwater.cli.bootstrap import bootstrap_option, require_cluster
from highwater.cli.group_report import (
    group_json,
    offset_rows,
    print_list,
    print_members,
    print_new_offsets,
    print_offsets,
    print_state,
)
from highwater.cli.group_reset import SCENARIOS, NotThere, Reset, check_partitions, named_partitions
from highwater.cli.java_text import exception_text
from highwater.cli.output import output_option, print_json, suggest
from highwater.cli.properties import load_properties, open_client
from highwater.cli.tool import exclude, fail, given, misuse, tool
from highwater.client.client import Client
from highwater.client.failures import ClientFailure
from highwater.client.groups import GroupDescription, Groups, assigned
from highwater.client.offsets import LATEST, list_offsets
from highwater.errors import Code, KafkaError
from highwater.model import TopicPartition

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_OF_PARTITIONS = (Code.GROUP_SUBSCRIBED_TO_TOPIC, Code.TOPIC_AUTHORIZATION_FAILED, Code.UNKNOWN_TOPIC_OR_PARTITION)
_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")


@tool("groups")
@bootstrap_option
@click.option("--group", multiple=True, metavar="GROUP", help="The group to act on; may be given several times.")
@click.option("--all-groups", is_flag=True, help="Act on all groups.")
@click.option("--list", "list_", is_flag=True, help="List all groups.")
@click.option("--describe", is_flag=True, help="Describe groups: offsets and lag, members or state.")
@click.option("--delete", is_flag=True, help="Delete groups without members, with their offsets.")
@click.option("--reset-offsets", is_flag=True, help="Let a group without members go on elsewhere.")
@click.option("--delete-offsets", is_flag=True, help="Forget offsets of topics that the group does not read.")
@click.option("--members", is_flag=True, help="With --describe: the members.")
@click.option("--offsets", is_flag=True, help="With --describe: offsets and lag, which is the default.")
@click.option("--state", is_flag=False, flag_value="", metavar="[STATES]", help="The state; with --list, only these.")
@click.option("--type", "type_", is_flag=False, flag_value="", metavar="[TYPES]", help="With --list: types, or some.")
@click.option("--verbose", is_flag=True, help="With --describe: more columns.")
@click.option("--topic", multiple=True, metavar="TOPIC[:PARTITIONS]", help="What to reset, or to delete offsets of.")
@click.option("--all-topics", is_flag=True, help="Reset all that the group has offsets of.")
@click.option("--dry-run", is_flag=True, help="Only show the new offsets, which is the default.")
@click.option("--execute", is_flag=True, help="Store the new offsets.")
@click.option("--export", is_flag=True, help="Print the new offsets as CSV.")
@click.option("--to-offset", type=int, metavar="OFFSET", help="Go on at this offset.")
@click.option("--to-earliest", is_flag=True, help="Go on at the first record.")
@click.option("--to-latest", is_flag=True, help="Go on behind the last record.")
@click.option("--to-current", is_flag=True, help="Go on where the group is.")
@click.option("--to-datetime", metavar="TIME", help="Go on at a time: YYYY-MM-DDThh:mm:ss.sss.")
@click.option("--by-duration", metavar="DURATION", help="Go on so long ago: PnDTnHnMnS.")
@click.option("--shift-by", type=int, metavar="N", help="Go on N records later, or earlier.")
@click.option("--from-file", metavar="FILE", help="Go on where a CSV file says.")
@click.option("--timeout", type=int, default=30_000, metavar="MS", help="How long to wait for answers.")
@click.option("--command-config", metavar="FILE", help="Property file with settings of the client.")
@output_option
def command(context: click.Context, **options: object) -> None:
    """List, describe and delete consumer groups, and change their offsets."""
    _check(context)
    params = context.params
    properties = load_properties(params["command_config"]) if params["command_config"] else {}
    properties.setdefault("default.api.timeout.ms", str(params["timeout"]))
    try:
        client = open_client(params["bootstrap_server"], properties, client_id="highwater-groups")
    except ValueError as error:
        fail(str(error))
    try:
        with client:
            _run(context, client, Groups(client))
    except NotThere as error:
        _failed(error.message)
    except KafkaError as error:
        _failed(exception_text(error))
    except (ClientFailure, OSError) as error:
        _failed(str(error))
    except ValueError as error:
        misuse(context, str(error))


def _failed(why: str) -> NoReturn:
    click.echo(f"\nError: Executing consumer group command failed due to {why}")
    raise SystemExit(1)


def _given(context: click.Context, option: str) -> bool:
    return given(context, {"list": "list_", "type": "type_"}.get(option, option))


def _check(context: click.Context) -> None:
    require_cluster(context.params["bootstrap_server"])
    if sum(_given(context, action) for action in ACTIONS) != 1:
        named = ", ".join(f"--{action}" for action in ACTIONS)
        misuse(context, f"Command must include exactly one action: {named}")
    for action in ("describe", "delete", "reset-offsets"):
        if _given(context, action) and not given(context, "group") and not given(context, "all-groups"):
            misuse(context, f"Option [{action}] takes one of these options: [group], [all-groups]")
    if given(context, "describe"):
        if sum(given(context, option) for option in ("members", "offsets", "state")) > 1:
            misuse(context, "Option [describe] takes at most one of these options: [members], [offsets], [state]")
        if context.params["state"]:
            misuse(context, "Option [describe] does not take a value for [state]")
    if given(context, "delete") and given(context, "topic"):
        misuse(context, "The consumer does not support topic-specific offset deletion from a consumer group.")
    if given(context, "delete-offsets") and not (given(context, "group") and given(context, "topic")):
        misuse(context, "Option [delete-offsets] takes the following options: [group], [topic]")
    exclude(context, "group", "all-groups")
    exclude(context, "output", "delete", "reset-offsets", "delete-offsets")
    if given(context, "reset-offsets"):
        _check_reset(context)


def _check_reset(context: click.Context) -> None:
    if given(context, "dry-run") and given(context, "execute"):
        misuse(context, "Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    for scenario in SCENARIOS:
        exclude(context, scenario, *(other for other in SCENARIOS if other != scenario))
    if not any(given(context, scenario) for scenario in SCENARIOS):
        scenarios = ", ".join(f"[{each}]" for each in SCENARIOS)
        misuse(context, f"Option '[reset-offsets]' requires one of the following scenarios: {scenarios}")
    if not any(given(context, scope) for scope in ("all-topics", "topic", "from-file")):
        misuse(context, "One of the reset scopes should be defined: --all-topics, --topic.")
    if not given(context, "dry-run") and not given(context, "execute"):
        click.echo("WARN: No action will be performed as the --execute option is missing.", err=True)


def _run(context: click.Context, client: Client, groups: Groups) -> None:
    params = context.params
    if params["list_"]:
        _list(context, groups)
        return
    chosen = [each.group_id for each in groups.list_groups()] if params["all_groups"] else list(params["group"])
    if params["describe"]:
        found = [_describe(context, client, groups, group_id) for group_id in sorted(set(chosen))]
        if params["output"] == "json":
            print_json(found)
    elif params["delete"]:
        _delete(groups, chosen)
    elif params["delete_offsets"]:
        _delete_offsets(client, groups, chosen[-1], list(params["topic"]))
    else:
        _reset(context, client, groups, chosen)


def _list(context: click.Context, groups: Groups) -> None:
    params = context.params
    states, types = _words(params["state"]), _words(params["type_"])
    unknown = {state.lower() for state in states} - {state.lower() for state in _STATES}
    if unknown:
        misuse(context, f"Invalid state list '{params['state']}'. Valid states are: {', '.join(_STATES)}")
    if {kind.lower() for kind in types} - {"classic", "consumer"}:
        misuse(context, f"Invalid types list '{params['type_']}'. Valid types are: Classic, Consumer")
    listed = groups.list_groups(states, types)
    if params["output"] == "json":
        print_json(
            [
                {"group": each.group_id, "type": each.group_type.capitalize(), "state": each.group_state}
                for each in listed
            ]
        )
    elif given(context, "state") or _given(context, "type"):
        print_list(listed, _given(context, "type"), given(context, "state"))
    else:
        for group in listed:
            click.echo(group.group_id)


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in text.split(",")] if text else []


def _described(groups: Groups, group_id: str) -> GroupDescription:
    """Of a group that does not exist, newer brokers answer with an error, older ones that it is dead."""
    try:
        description = groups.describe(group_id)
    except KafkaError as error:
        if error.code is Code.GROUP_ID_NOT_FOUND:
            _suggest_group(groups, group_id)
        raise
    if description.group.group_state == "Dead":
        _suggest_group(groups, group_id)
    return description


def _suggest_group(groups: Groups, typed: str) -> None:
    suggest(typed, (each.group_id for each in groups.list_groups()))


def _describe(context: click.Context, client: Client, groups: Groups, group_id: str) -> dict[str, object]:
    """Prints the group, or gives what is printed as JSON."""
    params = context.params
    is_json = params["output"] == "json"
    description = _described(groups, group_id)
    if is_json and (params["members"] or given(context, "state")):
        return group_json(description)
    if params["members"]:
        print_members(description, params["verbose"])
    elif given(context, "state"):
        print_state(description, params["verbose"])
    else:
        committed = groups.committed(group_id)
        places = {*committed, *(place for member in description.group.members for place in assigned(member))}
        found = list_offsets(client, dict.fromkeys(sorted(places), LATEST))
        ends = {place: end.offset for place, end in found.items() if not isinstance(end, KafkaError)}
        rows = offset_rows(description, committed, ends)
        if is_json:
            return {**group_json(description), "offsets": [row.as_json() for row in rows]}
        print_offsets(description, rows, params["verbose"])
    return {}


def _delete(groups: Groups, chosen: list[str]) -> None:
    results = groups.delete(chosen)
    failed = {group_id: error for group_id, error in results.items() if error is not None}
    done = ", ".join(f"'{group_id}'" for group_id, error in results.items() if error is None)
    if not failed:
        click.echo(f"Deletion of requested consumer groups ({done}) was successful.")
        return
    click.echo("\nError: Deletion of some consumer groups failed:")
    for group_id, error in failed.items():
        click.echo(f"* Group '{group_id}' could not be deleted due to: {exception_text(error)}")
    if done:
        click.echo(f"\nThese consumer groups were deleted successfully: {done}")
    raise SystemExit(1)


def _delete_offsets(client: Client, groups: Groups, group_id: str, topics: list[str]) -> None:
    partitions = named_partitions(client, topics)
    try:
        results = groups.delete_offsets(group_id, partitions)
    except KafkaError as failed:
        results = dict.fromkeys(partitions, failed)
    first = next((error for error in results.values() if error is not None), None)
    if first is None:
        click.echo(f"Request succeeded for deleting offsets from group {group_id}.")
    elif first.code in _OF_PARTITIONS:
        click.echo("\nError: Encountered some partition-level error, see the follow-up details.")
    else:
        click.echo(f"\nError: {exception_text(first).partition(': ')[2]}")
    width = max([15, *(len(place.topic) for place in results)])
    click.echo(f"\n{'TOPIC':<{width}} {'PARTITION':<10} {'STATUS':<15}", nl=False)
    for topic, partition in sorted(results):
        error = results[TopicPartition(topic, partition)]
        status = "Successful" if error is None else f"Error: {exception_text(error)}"
        click.echo(f"\n{topic:<{width}} {partition:<10} {status:<15}", nl=False)
    click.echo()
    if first is not None:
        raise SystemExit(1)


def _reset(context: click.Context, client: Client, groups: Groups, chosen: list[str]) -> None:
    params = context.params
    reset = Reset(client, groups, params)
    planned: dict[str, dict[TopicPartition, int]] = {}
    for group_id in chosen:
        state = _state(groups, group_id)
        if state not in ("Empty", "Dead"):
            click.echo(
                f"\nError: Assignments can only be reset if the group '{group_id}' is inactive, but the current state "
                f"is {state}."
            )
            planned[group_id] = {}
            continue
        if params["all_topics"]:
            partitions = sorted(groups.committed(group_id))
        else:
            partitions = named_partitions(client, params["topic"])
        check_partitions(client, partitions)
        planned[group_id] = reset.planned(group_id, partitions)
        if params["execute"] and planned[group_id]:
            groups.commit(group_id, planned[group_id])
    if not params["export"]:
        print_new_offsets(planned)
        return
    rows = [(group_id, place, offset) for group_id, new in planned.items() for place, offset in sorted(new.items())]
    for group_id, place, offset in rows:
        prefix = [] if len(params["group"]) == 1 else [group_id]
        click.echo(",".join([*prefix, place.topic, str(place.partition), str(offset)]))
    click.echo()


def _state(groups: Groups, group_id: str) -> str:
    """A group that does not exist yet may get offsets, too."""
    try:
        return groups.describe(group_id).group.group_state
    except KafkaError as error:
        if error.code is Code.GROUP_ID_NOT_FOUND:
            return "Dead"
        raise
