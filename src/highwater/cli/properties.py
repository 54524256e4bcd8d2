"""Client settings from files and key=value options, and the client with these settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from highwater.cli.complaints import Complaints
from highwater.cli.tool import fail
from highwater.client.client import Client
from highwater.client.security import Security, is_of_security
from highwater.config.properties import parse_properties

UNDERSTOOD = frozenset({"bootstrap.servers", "client.id", "request.timeout.ms", "default.api.timeout.ms"})


def load_properties(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read())
    except (OSError, ValueError) as error:
        fail(f"{path}: {error}")


def pairs(arguments: Iterable[str]) -> dict[str, str]:
    """`key=value` options; a missing value is empty, as in Kafka's tools."""
    found = {}
    for argument in arguments:
        key, _, value = argument.partition("=")
        found[key] = value
    return found


def number(properties: Mapping[str, str], key: str, default: int) -> int:
    """The value of a whole-number setting. Raises ValueError."""
    text = properties.get(key)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"Invalid value {text} for configuration {key}: Not a number of type INT") from None


def open_client(
    bootstrap_server: str,
    properties: Mapping[str, str],
    *,
    client_id: str,
    also_understood: Iterable[str] = (),
    what: str | None = "Still waiting",
) -> Client:
    """A client with these properties. It prints on stderr what it waits for if that lasts: `what`, and the cause.
    Raises ValueError for values that have no meaning here, and for a setting of security that is not acted on."""
    security = Security.of(properties)
    understood = UNDERSTOOD.union(also_understood)
    for key in properties:
        if key not in understood and not is_of_security(key):
            click.echo(f"The configuration '{key}' was supplied but isn't a known config.", err=True)
    client = Client(
        bootstrap_server,
        client_id=properties.get("client.id", client_id),
        timeout=number(properties, "default.api.timeout.ms", 60_000) / 1000,
        request_timeout=number(properties, "request.timeout.ms", 30_000) / 1000,
        security=security,
    )
    if what is not None:
        Complaints(client, what)
    return client
