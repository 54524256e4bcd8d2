"""Ports that stay ours between two starts of a node."""

from __future__ import annotations

import contextlib
import socket
from random import SystemRandom

HOST = "127.0.0.1"
OWN_PORTS = range(15_000, 32_000)
"""Below those that the system gives to whoever dials: one of them could be taken while its node is down, and a dial to
it could meet itself."""


class ReservedPort:
    """Bound, never listening: the node binds beside it, and a dial while the node is down is refused.

    Without it the port of a dead node could be given to somebody else, or to a dial to that very port, which would
    then connect to itself.
    """

    def __init__(self, port: int = 0) -> None:
        self._socket = socket.socket()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((HOST, port))
        except OSError as failed:
            self._socket.close()
            raise OSError(failed.errno, f"{HOST}:{port}: {failed.strerror}") from None
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        self._socket.close()


def free_ports(count: int) -> int:
    """The first of so many in a row that are free now."""
    random = SystemRandom()
    while True:
        first = random.choice(OWN_PORTS)
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind((HOST, port))
            return first
