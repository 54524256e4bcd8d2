"""Ports that stay ours between two starts of a node."""

from __future__ import annotations

import socket

HOST = "127.0.0.1"


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
        except OSError:
            self._socket.close()
            raise
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        self._socket.close()
