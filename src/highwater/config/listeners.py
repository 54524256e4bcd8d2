"""Addresses in settings: listeners, voters and bootstrap controllers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from highwater.config.kinds import ConfigError
from highwater.model import Endpoint, NodeId

_LISTENER = re.compile(r"([^:/]*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_HOST_PORT = re.compile(r"\[?([0-9a-zA-Z\-%._:]+?)\]?:([0-9]+)")


class Listener(NamedTuple):
    name: str
    protocol: str
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    endpoint: Endpoint
    """An empty host means every interface, and port 0 a free port."""


class Voter(NamedTuple):
    id: NodeId
    endpoint: Endpoint


def parse_listeners(key: str, entries: tuple[str, ...], protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    """Raises ConfigError. Names are upper-cased, as Kafka does."""
    found = []
    for entry in entries:
        match = _LISTENER.fullmatch(entry)
        if match is None or not 0 <= int(match[3]) <= 65535:
            raise ConfigError(f"{key}: cannot read {entry!r}; expected NAME://host:port, e.g. PLAINTEXT://:9092")
        name = match[1].upper()
        if name not in protocols:
            raise ConfigError(
                f"{key}: no security protocol is defined for listener {name}; add it to listener.security.protocol.map"
            )
        found.append(Listener(name, protocols[name], Endpoint(match[2], int(match[3]))))
    if len({listener.name for listener in found}) != len(found):
        raise ConfigError(f"{key}: each listener must have a different name, found {','.join(entries)}")
    return tuple(found)


def parse_protocol_map(key: str, text: str) -> dict[str, str]:
    protocols = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in pair.partition(":"))
        if not colon or protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
            raise ConfigError(
                f"{key}: cannot read {pair!r}; expected NAME:PROTOCOL with PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
            )
        protocols[name.upper()] = protocol
    return protocols


def parse_endpoint(key: str, text: str, form: str = "host:port") -> Endpoint:
    match = _HOST_PORT.fullmatch(text)
    if match is None or int(match[2]) > 65535:
        raise ConfigError(f"{key}: cannot read {text!r}; each entry should be in the form {form}")
    return Endpoint(match[1], int(match[2]))


def parse_voters(key: str, entries: tuple[str, ...]) -> tuple[Voter, ...]:
    form = "{id}@{host}:{port}"
    voters = []
    for entry in entries:
        number, at, address = entry.partition("@")
        if not at or not re.fullmatch(r"[0-9]{1,10}", number):
            raise ConfigError(f"{key}: cannot read {entry!r}; each entry should be in the form {form}")
        voters.append(Voter(NodeId(int(number)), parse_endpoint(key, address, form)))
    return tuple(voters)


def parse_connection_counts(key: str, text: str) -> dict[str, int]:
    counts = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = pair.rpartition(":")
        if not host.strip() or not re.fullmatch(r"[0-9]{1,10}", count.strip()):
            raise ConfigError(f"{key}: cannot read {pair!r}; each entry should be in the form host:count")
        counts[host.strip()] = int(count)
    return counts


class Voters:
    def check(self, name: str, value: tuple[str, ...], /) -> None:
        parse_voters(name, value)

    def __str__(self) -> str:
        return "non-empty list"


class BootstrapServers:
    def check(self, name: str, value: tuple[str, ...], /) -> None:
        for entry in value:
            parse_endpoint(name, entry)

    def __str__(self) -> str:
        return "non-empty list"
