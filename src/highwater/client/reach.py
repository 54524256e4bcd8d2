"""Whether an address can be reached from this machine, and if not, why: in plain words, and in the time that a caller
grants."""

from __future__ import annotations

import errno
import socket
from enum import Enum
from typing import NamedTuple

from highwater.client.client import Client
from highwater.client.connection import Connection
from highwater.client.failures import AuthenticationFailed, BadAnswer, ClientFailure, RequestTimeout
from highwater.errors import KafkaError
from highwater.model import Endpoint

_NO_ROUTE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.EADDRNOTAVAIL})


class Obstacle(Enum):
    """What keeps a client from an address."""

    NAME = "the name is not known here"
    REFUSED = "the connection is refused: nothing listens there"
    NO_ROUTE = "there is no route to it"
    TIME_OUT = "no answer to the attempt to connect"
    SILENT = "it accepts connections and does not answer"
    SECURITY = "it does not let this client in"
    OTHER = "it is no broker"


class Reached(NamedTuple):
    """One attempt to reach an address. The caller closes the connection."""

    endpoint: Endpoint
    connection: Connection | None
    obstacle: Obstacle | None = None
    detail: str = ""
    """What the obstacle's own words leave out."""

    @property
    def why_not(self) -> str:
        if self.obstacle is None:
            return ""
        return f"{self.obstacle.value}{f' ({self.detail})' if self.detail else ''}"


def reach(client: Client, endpoint: Endpoint, seconds: float) -> Reached:
    """Looks the name up, connects, and asks in Kafka's protocol. `seconds` bounds each of the last two."""
    obstacle, detail = knock(endpoint, seconds)
    if obstacle is not None:
        return Reached(endpoint, None, obstacle, detail)
    try:
        return Reached(endpoint, client.dial(endpoint, dial_timeout=seconds))
    except AuthenticationFailed as failed:
        return Reached(endpoint, None, Obstacle.SECURITY, str(failed))
    except RequestTimeout:
        return Reached(endpoint, None, Obstacle.SILENT, f"within {seconds:g} s")
    except (BadAnswer, ClientFailure, KafkaError) as failed:
        return Reached(endpoint, None, Obstacle.OTHER, str(failed))


def knock(endpoint: Endpoint, seconds: float) -> tuple[Obstacle | None, str]:
    """Connects by TCP and closes again. Each address of the name is tried for so long; the first obstacle counts."""
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return Obstacle.NAME, ""
    first: tuple[Obstacle, str] | None = None
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as sock:
            sock.settimeout(seconds)
            try:
                sock.connect(address)
                return None, ""
            except OSError as failed:
                first = first or _named(failed, seconds)
    return first or (Obstacle.NAME, "it has no address")


def _named(failed: OSError, seconds: float) -> tuple[Obstacle, str]:
    if isinstance(failed, ConnectionRefusedError):
        return Obstacle.REFUSED, ""
    if isinstance(failed, TimeoutError):
        return Obstacle.TIME_OUT, f"within {seconds:g} s"
    if failed.errno in _NO_ROUTE:
        return Obstacle.NO_ROUTE, failed.strerror or ""
    return Obstacle.OTHER, failed.strerror or str(failed)
