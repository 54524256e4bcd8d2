"""The status pages of Highwater's nodes, with the time that each node's clock shows. Apache Kafka has none."""

from __future__ import annotations

import contextlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from typing import Any, Final, NamedTuple

from highwater.cli.doctor.addresses import MOST_AT_ONCE, SeenBroker
from highwater.console.discovery import LISTENER, endpoint
from highwater.model import Endpoint, NodeId

_MOST_BYTES: Final = 4 << 20


class StatusPage(NamedTuple):
    """The answer of a node, and when it was asked and answered by this machine's clock, in milliseconds."""

    node: NodeId
    at: Endpoint
    status: dict[str, Any] | None
    """None if the page was not had."""
    asked_ms: float
    answered_ms: float


def is_highwater(broker: SeenBroker) -> bool:
    return LISTENER in broker.settings


def page_of(broker: SeenBroker) -> Endpoint | None:
    """Where the broker serves its status; None if it does not."""
    return endpoint(broker.settings.get(LISTENER), broker.endpoint.host)


def ask_pages(pages: dict[NodeId, Endpoint], seconds: float) -> list[StatusPage]:
    """All at once."""
    with ThreadPoolExecutor(min(MOST_AT_ONCE, max(1, len(pages)))) as pool:
        return list(pool.map(lambda item: _ask(item[0], item[1], seconds), pages.items()))


def _ask(node: NodeId, at: Endpoint, seconds: float) -> StatusPage:
    asked = time.time() * 1000
    status: dict[str, Any] | None = None
    connection = HTTPConnection(at.host, at.port, timeout=seconds)
    with contextlib.suppress(OSError, HTTPException, ValueError), contextlib.closing(connection):
        connection.request("GET", "/status?summary")
        asked = time.time() * 1000
        found = json.loads(connection.getresponse().read(_MOST_BYTES))
        status = found if isinstance(found, dict) else None
    return StatusPage(node, at, status, asked, time.time() * 1000)
