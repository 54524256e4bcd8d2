"""A small synchronous client of any Kafka: connections, metadata, administration, producing and fetching.

The package may use only the wire formats, the kernel, `config`, `errors` and `model`, and nothing of a broker. Start
with `client`: `Client` finds brokers and leaders, and `Admin`, `Producer` and `Consumer` use one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from highwater.client.admin import Admin, ConfigSource, NewTopic, ResourceType
    from highwater.client.client import Client
    from highwater.client.connection import Connection
    from highwater.client.consumer import Consumer, FetchLimits
    from highwater.client.descriptions import describe_topic_ids, describe_topics
    from highwater.client.failures import (
        AuthenticationFailed,
        BadAnswer,
        ClientFailure,
        Disconnected,
        RequestTimeout,
        Unreachable,
        UnsupportedApi,
    )
    from highwater.client.fetched import Fetched
    from highwater.client.offsets import delete_records, list_offsets
    from highwater.client.producer import Producer
    from highwater.client.security import Security

_HOMES = {
    "admin": ("Admin", "ConfigSource", "NewTopic", "ResourceType"),
    "client": ("Client",),
    "connection": ("Connection",),
    "consumer": ("Consumer", "FetchLimits"),
    "descriptions": ("describe_topic_ids", "describe_topics"),
    "failures": (
        "AuthenticationFailed",
        "BadAnswer",
        "ClientFailure",
        "Disconnected",
        "RequestTimeout",
        "Unreachable",
        "UnsupportedApi",
    ),
    "fetched": ("Fetched",),
    "offsets": ("delete_records", "list_offsets"),
    "producer": ("Producer",),
    "security": ("Security",),
}

__all__ = [
    "Admin",
    "AuthenticationFailed",
    "BadAnswer",
    "Client",
    "ClientFailure",
    "ConfigSource",
    "Connection",
    "Consumer",
    "Disconnected",
    "FetchLimits",
    "Fetched",
    "NewTopic",
    "Producer",
    "RequestTimeout",
    "ResourceType",
    "Security",
    "Unreachable",
    "UnsupportedApi",
    "delete_records",
    "describe_topic_ids",
    "describe_topics",
    "list_offsets",
]


def __getattr__(name: str) -> Any:
    """Loaded on first use: a tool that only lists topics has no need of the record kernel."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
