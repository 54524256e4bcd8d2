"""The command line that does what the page did. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, Final

from highwater.client.throttles import BROKER_THROTTLES, TOPIC_THROTTLES

SEPARATORS: Final = (":", "|", "=", "::", "=>", "|||")
"""Between key and value: the first one that the key does not have."""
MOST_COMMANDS: Final = 20
"""Of one kind."""
NO_VALUE: Final = "<null>"


def produce_command(
    bootstrap: str, topic: str, key: str | None, value: str | None, headers: Sequence[tuple[str, bytes]]
) -> str:
    """The tool chooses the partition itself, and takes a value of one line."""
    properties, line = [], NO_VALUE if value is None else value
    if value is None:
        properties.append(f"null.marker={NO_VALUE}")
    if key is not None:
        separator = next((each for each in SEPARATORS if each not in key), SEPARATORS[0])
        properties += ["parse.key=true", f"key.separator={separator}"]
        line = f"{key}{separator}{line}"
    if headers:
        properties.append("parse.headers=true")
        named = ",".join(f"{name}:{content.decode(errors='replace')}" for name, content in headers)
        line = f"{named}\t{line}"
    given = "".join(f" --reader-property {quote(each)}" for each in properties)
    tool = f"highwater console-producer --bootstrap-server {bootstrap} --topic {quote(topic)}{given}"
    return f"printf '%s\\n' {quote(line)} | {tool}"


def setting_command(bootstrap: str, topic: str, name: str, value: str | None) -> str:
    """Without a value, the topic's own setting is deleted. The tool takes a comma for the end of a value that is not in
    brackets."""
    if value is None:
        return _configs(bootstrap, "topics", topic, f"--delete-config {quote(name)}")
    addition = f"{name}=[{value}]" if "," in value else f"{name}={value}"
    return _configs(bootstrap, "topics", topic, f"--add-config {quote(addition)}")


def unthrottle_commands(bootstrap: str, brokers: Sequence[int], topics: Sequence[str]) -> str:
    """One for each broker and for each topic."""
    return "\n".join(
        _configs(bootstrap, kind, str(name), f"--delete-config {','.join(settings)}")
        for kind, names, settings in (("brokers", brokers, BROKER_THROTTLES), ("topics", topics, TOPIC_THROTTLES))
        for name in names[:MOST_COMMANDS]
    )


def _configs(bootstrap: str, kind: str, name: str, what: str) -> str:
    entity = f"--entity-type {kind} --entity-name {quote(name)}"
    return f"highwater configs --bootstrap-server {bootstrap} --alter {entity} {what}"


def fault_command(order: Mapping[str, Any], directory: Path | None) -> str:
    nodes = "".join(f" {each}" for each in order.get("nodes") or [])
    verb = order.get("verb")
    options = ""
    if verb == "cut" and order.get("one_way"):
        options = " --one-way"
    elif verb == "slow":
        options = f" --ms {order.get('ms')}"
    where = "" if directory is None else f" --data-dir {quote(str(directory))}"
    return f"highwater {verb}{'' if verb == 'heal' else nodes}{options}{where}"
