"""Asks nodes of Highwater for /status and /metrics. Apache Kafka serves neither."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import quote

from highwater.model import Endpoint

SECONDS: Final = 0.9
"""A node that does not answer by then is shown as silent. A page that stands still would be worse."""
MOST_BYTES: Final = 64 << 20
MOST_AT_ONCE: Final = 16

Status = dict[str, Any]


class NodeStatus:
    """All nodes are asked at once, each over a connection of its own."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(MOST_AT_ONCE, "console-status")

    def summaries(self, nodes: Mapping[int, Endpoint], topics: frozenset[str]) -> dict[int, Status | None]:
        """One question to each node, with the partitions of these topics; None for a node that does not answer."""
        if not topics:
            path = "/status?summary"
        elif len(topics) == 1:
            path = f"/status?topic={quote(next(iter(topics)), safe='')}"
        else:
            path = "/status"
        return self._each(nodes, path)

    def partition(self, nodes: Mapping[int, Endpoint], topic: str, index: int) -> dict[int, Status | None]:
        return self._each(nodes, f"/status?topic={quote(topic, safe='')}&partition={index}")

    def metrics(self, nodes: Mapping[int, Endpoint]) -> dict[int, str | None]:
        answers = self._pool.map(lambda at: _get(at, "/metrics", 5 * SECONDS), nodes.values())
        return {
            node: None if text is None else text.decode(errors="replace")
            for node, text in zip(nodes, answers, strict=True)
        }

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _each(self, nodes: Mapping[int, Endpoint], path: str) -> dict[int, Status | None]:
        answers = self._pool.map(lambda at: _status(at, path), nodes.values())
        return dict(zip(nodes, answers, strict=True))


def _status(at: Endpoint, path: str) -> Status | None:
    text = _get(at, path, SECONDS)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _get(at: Endpoint, path: str, seconds: float) -> bytes | None:
    try:
        with contextlib.closing(HTTPConnection(at.host, at.port, timeout=seconds)) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            text = response.read(MOST_BYTES + 1)
            return text if response.status == 200 and len(text) <= MOST_BYTES else None
    except (OSError, HTTPException):
        return None
