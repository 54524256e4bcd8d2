"""The socket of the console, and the address that is printed for it."""

from __future__ import annotations

import errno
import socket
from typing import Final

DEFAULT_PORT: Final = 8080
TRIED: Final = 50
"""The ports after the default one that are tried when it is taken."""


class PortTaken(Exception):
    """The text names the port, and what to do."""


def listening(host: str, port: int | None) -> socket.socket:
    """A socket on the port that was asked for, or else on the first free one from the default on. Raises PortTaken, or
    OSError for a host that is not one of this machine."""
    if port is not None:
        try:
            return _bound(host, port)
        except OSError as taken:
            if taken.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            why = "is taken" if taken.errno == errno.EADDRINUSE else "needs root"
            raise PortTaken(f"port {port} {why}: choose another one for the console") from taken
    for each in range(DEFAULT_PORT, DEFAULT_PORT + TRIED):
        try:
            return _bound(host, each)
        except OSError as taken:
            if taken.errno != errno.EADDRINUSE:
                raise
    return _bound(host, 0)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(128)
    except BaseException:
        found.close()
        raise
    return found


def address(host: str, port: int, base_path: str, token: str) -> str:
    """What is printed. An address that stands for all of them is named as the machine itself sees it."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}{base_path}/?token={token}"
