"""Parses a broker id that a client sends as a resource name."""

from __future__ import annotations

import re

from highwater.errors import Code, KafkaError

_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")


def broker_id(name: str, kind: str) -> int:
    """Parses the id as Java does. Raises INVALID_REQUEST with Kafka's message; `kind` is Kafka's word for the id."""
    if not _INTEGER.fullmatch(name):
        raise KafkaError(Code.INVALID_REQUEST, f"{kind} id must be an integer, but it is: {name}")
    return int(name)
