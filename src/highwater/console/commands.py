"""The command line that does what the page did. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, Final

SEPARATORS: Final = (":", "|", "=", "::", "=>", "|||")
"""Between key and value: the first one that the key does not have."""
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
