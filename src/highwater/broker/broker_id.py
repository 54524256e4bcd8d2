"""The broker that a client names as a resource."""

from __future__ import annotations

import re

from highwater.errors import Code, KafkaError

_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")


def broker_id(name: str, kind: str) -> int:
    """As Java reads an integer, or INVALID_REQUEST in Kafka's words; `kind` is what it calls the id there."""
    if not _INTEGER.fullmatch(name):
        raise KafkaError(Code.INVALID_REQUEST, f"{kind} id must be an integer, but it is: {name}")
    return int(name)
