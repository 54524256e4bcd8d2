"""Ports that stay reserved between two starts of a node."""

from __future__ import annotations

import contextlib
import socket
from random import SystemRandom

from highwater.cluster.holder import holder_of_port, named

HOST = "127.0.0.1"
OWN_PORTS = range(15_000, 32_000)
"""Below the ephemeral ports, which the system gives to outgoing connections. Such a port could be taken while its node
is down, and a connection attempt to it could connect to itself."""


class ReservedPort:
    """A socket that is bound and never listens. The node binds beside it, and connections are refused while the node is
    down. Without it, the port of a dead node could be given to another process, or to an outgoing connection to that
    very port, which would then connect to itself."""

    def __init__(self, port: int) -> None:
        self._bind(port, shared=True)

    @classmethod
    def drawn(cls) -> ReservedPort:
        """A port that no process has bound, not even as a reservation of another cluster."""
        random = SystemRandom()
        while True:
            drawn = cls.__new__(cls)
            with contextlib.suppress(OSError):
                drawn._bind(random.choice(OWN_PORTS), shared=False)
                return drawn

    def _bind(self, port: int, shared: bool) -> None:
        self.number = port
        self._socket = socket.socket()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, shared)
            self._socket.bind((HOST, port))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
        except OSError as failed:
            self._socket.close()
            raise OSError(failed.errno, failed.strerror) from None

    def release(self) -> None:
        self._socket.close()


def taken(port: int, what: str, remedy: str) -> str:
    """The message if this port is taken."""
    holder = holder_of_port(port)
    by = "by another process" if holder is None else f"by {named(holder)}"
    return f"{HOST}:{port}, {what}, is taken {by}: {remedy}"


def free_ports(count: int) -> int:
    """The first of `count` consecutive ports that are free now."""
    random = SystemRandom()
    while True:
        first = random.choice(OWN_PORTS)
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind((HOST, port))
            return first
