"""The identities everything else is made of: small values that cannot be swapped for each other."""

from __future__ import annotations

import base64
from enum import IntEnum
from typing import NamedTuple, NewType

SOFTWARE_VERSION = "0.1.0"
"""Of this package, as nodes and clients tell it."""

NodeId = NewType("NodeId", int)
Uuid = NewType("Uuid", bytes)
"""Sixteen raw bytes: a topic id, a directory id, an incarnation id or a cluster id."""

Offset = int
Epoch = int

NO_NODE = NodeId(-1)
ZERO_UUID = Uuid(bytes(16))
METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = Uuid(bytes(15) + b"\x01")


class ResourceType(IntEnum):
    """What can have settings, by its number in records and requests."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Endpoint(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def uuid_text(uuid: Uuid) -> str:
    """Kafka's 22-character url-safe base64 form."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> Uuid:
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"not a 16-byte id in base64: {text!r}")
    return Uuid(raw)
