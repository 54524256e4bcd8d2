"""`highwater configs`: kafka-configs.sh, for topics and brokers."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

import click

from highwater.cli.bootstrap import bootstrap_option, require_cluster
from highwater.cli.completion import topic_names
from highwater.cli.java_order import hash_map_order, string_hash
from highwater.cli.output import LIKELY, output_option, print_json, suggest, suggest_setting
from highwater.cli.properties import load_properties, open_client
from highwater.cli.tool import exclude, fail, given, misuse, tool
from highwater.client.admin import Admin, ConfigSource, ResourceType
from highwater.client.client import Client
from highwater.client.failures import ClientFailure
from highwater.config.node import SETTINGS
from highwater.config.topic import TOPIC_SETTINGS
from highwater.config.unsupported import is_unsupported
from highwater.errors import Code, KafkaError
from highwater.wire.messages.describe_configs_response import DescribeConfigsResourceResult

ENTITY_TYPES = (
    "topics",
    "clients",
    "users",
    "brokers",
    "ips",
    "client-metrics",
    "groups",
    "broker-loggers",
)
SUPPORTED = ("topics", "brokers")
SHORTHANDS = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
    "client-metrics": "client-metrics",
    "group": "groups",
}
DEFAULTS = {
    "client-defaults": "clients",
    "user-defaults": "users",
    "broker-defaults": "brokers",
    "ip-defaults": "ips",
}
BROKER_DEFAULT = ""

# A comma or equals sign that is not inside brackets.
_OUTSIDE = r"(?=[^\]]*(?:\[|$))"


class Misuse(ValueError):
    """Printed without a usage text, as kafka-configs.sh does."""


@tool("configs")
@bootstrap_option
@click.option("--bootstrap-controller", metavar="SERVERS", help="The controllers to connect to.")
@click.option("--command-config", metavar="FILE", help="Property file with settings of the client.")
@click.option("--alter", is_flag=True, help="Change settings.")
@click.option("--describe", is_flag=True, help="Show settings.")
@click.option("--all", is_flag=True, help="Show all settings, static ones and defaults too.")
@click.option("--entity-type", multiple=True, metavar="TYPE", help="topics or brokers.")
@click.option("--entity-name", multiple=True, metavar="NAME", help="Topic name or broker id.")
@click.option("--entity-default", is_flag=True, help="The default of all brokers.")
@click.option("--add-config", metavar="K=V,K=[V,V]", help="Settings to put; brackets hold commas together.")
@click.option("--add-config-file", metavar="FILE", help="Property file with settings to put.")
@click.option("--delete-config", multiple=True, metavar="K,K", help="Settings to take away.")
@click.option("--topic", metavar="NAME", shell_complete=topic_names, help="As --entity-type topics --entity-name NAME.")
@click.option("--broker", metavar="ID", help="As --entity-type brokers --entity-name ID.")
@click.option("--broker-defaults", is_flag=True, help="As --entity-type brokers --entity-default.")
@click.option("--broker-logger", metavar="ID", hidden=True)
@click.option("--client", metavar="ID", hidden=True)
@click.option("--client-defaults", is_flag=True, hidden=True)
@click.option("--user", metavar="NAME", hidden=True)
@click.option("--user-defaults", is_flag=True, hidden=True)
@click.option("--ip", metavar="IP", hidden=True)
@click.option("--ip-defaults", is_flag=True, hidden=True)
@click.option("--group", metavar="ID", hidden=True)
@click.option("--client-metrics", metavar="NAME", hidden=True)
@output_option
def command(context: click.Context, **options: object) -> None:
    """Describe or change the settings of topics and brokers."""
    try:
        kind, name = _entity(context)
        with _client(context) as client:
            if context.params["alter"]:
                _alter(Admin(client), kind, name or BROKER_DEFAULT, context)
            else:
                _describe(Admin(client), kind, name, context)
    except Misuse as error:
        fail(str(error))
    except (KafkaError, ClientFailure, ValueError) as error:
        arguments = " ".join(sys.argv[2:])
        fail(f"Error while executing config command with args '{arguments}'\n{error}")


def _client(context: click.Context) -> Client:
    path = context.params["command_config"]
    return open_client(
        context.params["bootstrap_server"], load_properties(path) if path else {}, client_id="adminclient-1"
    )


def _entity(context: click.Context) -> tuple[str, str | None]:
    """The entity of the options. Its name is "" for the default of brokers, and None for all entities."""
    if sum(given(context, action) for action in ("alter", "describe")) != 1:
        misuse(context, "Command must include exactly one action: --describe, --alter")
    exclude(context, "describe", "add-config", "delete-config")
    exclude(context, "output", "alter")
    types, names = _named(context)
    _check_types(context, types)
    if len(names) > 1:
        raise Misuse("Only one entity name may be given")
    name = names[0] if names else None
    if types[0] == "brokers" and name and not re.fullmatch(r"-?\d{1,10}", name):
        raise Misuse(f"The entity name for brokers must be a valid integer broker id, but it is: {name}")
    if types[0] == "topics" and given(context, "describe") and given(context, "entity-default"):
        raise Misuse("--entity-default must not be specified with --describe of topics")
    if given(context, "alter"):
        _check_alter(context, types[0], name)
    return types[0], name


def _named(context: click.Context) -> tuple[list[str], list[str]]:
    flags = {flag: kind for flag, kind in (*SHORTHANDS.items(), *DEFAULTS.items()) if given(context, flag)}
    if flags and any(given(context, option) for option in ("entity-type", "entity-name", "entity-default")):
        raise Misuse("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    types = [*context.params["entity_type"], *flags.values()]
    names = list(context.params["entity_name"])
    if given(context, "entity-default"):
        names.append(BROKER_DEFAULT)
    names += [context.params[flag.replace("-", "_")] if flag in SHORTHANDS else BROKER_DEFAULT for flag in flags]
    return types, names


def _check_types(context: click.Context, types: Sequence[str]) -> None:
    if not given(context, "bootstrap-controller"):
        require_cluster(context.params["bootstrap_server"])
    for kind in types:
        if kind not in ENTITY_TYPES:
            raise Misuse(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(ENTITY_TYPES)} with a "
                "--bootstrap-server or --bootstrap-controller argument"
            )
    if not types:
        raise Misuse("At least one entity type must be specified")
    for kind in types:
        if kind not in SUPPORTED:
            raise Misuse(f"Entity type {kind} is not supported yet; supported are {', '.join(SUPPORTED)}")
    if len(types) > 1:
        raise Misuse("Only 'users' and 'clients' entity types may be specified together")
    if given(context, "bootstrap-controller"):
        raise Misuse("--bootstrap-controller is not supported yet; use --bootstrap-server")


def _check_alter(context: click.Context, kind: str, name: str | None) -> None:
    if kind == "brokers" and name is None:
        raise Misuse(
            "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
        )
    if kind == "topics" and not name:
        raise Misuse("An entity name must be specified with --alter of topics")
    if given(context, "add-config") and given(context, "add-config-file"):
        raise Misuse("Only one of --add-config or --add-config-file must be specified")
    if not any(given(context, option) for option in ("add-config", "add-config-file", "delete-config")):
        raise Misuse(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )


def _alter(admin: Admin, kind: str, name: str, context: click.Context) -> None:
    options = context.params
    put = load_properties(options["add_config_file"]) if options["add_config_file"] else {}
    if options["add_config"] is not None:
        put = parse_additions(options["add_config"])
    for key in put:
        if not re.fullmatch(r"[$a-zA-Z0-9._-]*", key):
            raise Misuse(f"Invalid character found for config key: {key}")
    delete = [key.strip() for text in options["delete_config"] for key in text.split(",")]
    if kind == "brokers":
        # A broker takes any name, as Kafka's does: it may be a setting of a plugin.
        suggest_setting((key for key in put if not is_unsupported(key)), SETTINGS, LIKELY)
    try:
        admin.alter_configs(_resource(kind), name, put=put, delete=delete)
    except KafkaError as error:
        if error.code == Code.INVALID_CONFIG and kind == "topics":
            suggest_setting([*put, *delete], TOPIC_SETTINGS)
        raise
    if name:
        click.echo(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        click.echo(f"Completed updating default config for {kind} in the cluster.")


def parse_additions(text: str) -> dict[str, str]:
    """`k1=v1,k2=[a,b]`. Raises Misuse."""
    additions = {}
    for pair in re.split("," + _OUTSIDE, text):
        parts = re.split(r"\s*=\s*" + _OUTSIDE, pair)
        if len(parts) != 2:
            raise Misuse(
                'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val" or '
                ' "key=[val1,val2]" to group values which contain commas.'
            )
        additions[parts[0].strip()] = re.sub(r"[\[\]]", "", parts[1]).strip()
    return additions


def _describe(admin: Admin, kind: str, name: str | None, context: click.Context) -> None:
    """The settings of one entity, or of all entities of its kind; only dynamic ones unless --all is given."""
    everything, is_json = context.params["all"], context.params["output"] == "json"
    if name and not everything and name not in _entities(admin, kind):
        suggest(name, _entities(admin, kind))
        missing = f"The {kind[:-1]} '{name}' doesn't exist and doesn't have dynamic config."
        print_json([]) if is_json else click.echo(missing)
        return
    found = []
    for entity in _entities(admin, kind) if name is None else [name]:
        entries = admin.describe_configs(_resource(kind), [entity], synonyms=True)[entity]
        shown = [
            entry
            for entry in sorted(entries, key=lambda entry: entry.name)
            if everything or entry.config_source == _changed_source(kind, entity)
        ]
        if is_json:
            found.append({"type": kind, "name": entity or None, "configs": [_setting_json(entry) for entry in shown]})
            continue
        if entity == BROKER_DEFAULT:
            click.echo(f"Default configs for {kind} in the cluster are:")
        else:
            click.echo(f"{'All' if everything else 'Dynamic'} configs for {kind[:-1]} {entity} are:")
        for entry in shown:
            click.echo(_setting_line(entry))
    if is_json:
        print_json(found)


def _entities(admin: Admin, kind: str) -> list[str]:
    if kind == "topics":
        return hash_map_order(admin.list_topics(), string_hash)
    return [*(str(broker.id) for broker in admin.describe_cluster().brokers), BROKER_DEFAULT]


def _resource(kind: str) -> ResourceType:
    return ResourceType.TOPIC if kind == "topics" else ResourceType.BROKER


def _changed_source(kind: str, entity: str) -> ConfigSource:
    if kind == "topics":
        return ConfigSource.DYNAMIC_TOPIC_CONFIG
    return ConfigSource.DYNAMIC_BROKER_CONFIG if entity else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG


def _setting_line(entry: DescribeConfigsResourceResult) -> str:
    synonyms = ", ".join(
        f"{ConfigSource(synonym.source).name}:{synonym.name}={_text(synonym.value)}" for synonym in entry.synonyms
    )
    sensitive = str(entry.is_sensitive).lower()
    return f"  {entry.name}={_text(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _setting_json(entry: DescribeConfigsResourceResult) -> dict[str, object]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": ConfigSource(entry.config_source).name,
        "sensitive": entry.is_sensitive,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": ConfigSource(each.source).name}
            for each in entry.synonyms
        ],
    }


def _text(value: str | None) -> str:
    return "null" if value is None else value
