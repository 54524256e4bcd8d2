"""The ports of a node of this machine: who has them, and whether the node can have them."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator

from highwater.cli.doctor.finding import PORTS, Finding
from highwater.cli.doctor.local_nodes import LocalNode
from highwater.cluster.holder import holder_of_port, named
from highwater.model import Endpoint


def examine_ports(node: LocalNode) -> Iterator[Finding]:
    for name, at in node.listeners():
        what = f"{at.host or '*'}:{at.port}, {name} of node {node.id}"
        if at.port == 0:
            yield PORTS.well(f"{what}: the system gives a free port")
        elif node.pid is not None:
            yield _of_running(what, at, node.pid)
        else:
            yield _of_stopped(what, at)


def _of_running(what: str, at: Endpoint, pid: int) -> Finding:
    holder = holder_of_port(at.port)
    if holder == pid:
        return PORTS.well(f"{what}, is its own (pid {pid})")
    if holder is None:
        return PORTS.wrong(
            f"{what}: nothing listens there, though the node runs (pid {pid})",
            "It may still be starting, or run with other settings than its file now has: look into its log.",
        )
    return _taken(what, holder)


def _of_stopped(what: str, at: Endpoint) -> Finding:
    """By trying: the port is bound for a moment, and nothing listens."""
    try:
        found = socket.getaddrinfo(at.host or None, at.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        return PORTS.wrong(
            f"{what}: the name {at.host} is not known here",
            "Correct it in listeners, or leave the host out to listen on every address of this machine.",
        )
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
                sock.bind(address)
                sock.listen(1)
        except OSError as failed:
            if failed.errno == errno.EAFNOSUPPORT:
                continue
            return _unbound(what, at, failed)
    return PORTS.well(f"{what}, is free")


def _unbound(what: str, at: Endpoint, failed: OSError) -> Finding:
    if failed.errno == errno.EADDRINUSE:
        return _taken(what, holder_of_port(at.port))
    if failed.errno == errno.EADDRNOTAVAIL:
        return PORTS.wrong(
            f"{what}: this machine has no address {at.host}",
            "Correct it in listeners, or leave the host out to listen on every address of this machine.",
        )
    if failed.errno == errno.EACCES:
        return PORTS.wrong(f"{what}: this user may not have it", "Choose a port above 1023 in listeners.")
    return PORTS.wrong(f"{what}: {failed.strerror}", "Choose another one in listeners.")


def _taken(what: str, holder: int | None) -> Finding:
    by = "another process, of another user" if holder is None else named(holder)
    return PORTS.wrong(
        f"{what}, is taken by {by}",
        "End that process, or give the node another port (listeners; `up --port`).",
    )
