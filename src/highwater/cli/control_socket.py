"""DIR/control.sock: the socket on which `up` takes orders for its nodes, from its own user only.

One order is one line of JSON, and one line answers it. The file has mode 0600, and either side also asks the system for
the other one's user: in a directory that others may write to, a foreign process could put its own socket there.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

NAME: Final = "control.sock"
MOST_BYTES: Final = 64 * 1024
ORDER_SECONDS: Final = 10.0
"""A connection that has not sent its order by then is closed."""
MOST_CONNECTIONS: Final = 16
ANSWER_SECONDS: Final = 60.0
"""Longer than a node may take to obey. `down` waits for as long as it takes."""

Obey = Callable[[dict[str, Any]], str]
"""Carries an order out, and returns the line that says so. Raises Refused."""


class Refused(Exception):
    """The order cannot be carried out. The text says why, and what to do."""


class ControlSocket:
    """Nothing blocks: `serve` takes what has arrived, once in a turn of the caller's loop."""

    def __init__(self, directory: Path) -> None:
        """The caller holds the lock of the directory, so a socket that is there is left from an `up` that was
        killed."""
        self.path = directory / NAME
        self.path.unlink(missing_ok=True)
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            with _short(self.path) as name:
                self._listening.bind(name)
        finally:
            os.umask(before)
        self._listening.listen(MOST_CONNECTIONS)
        self._listening.setblocking(False)
        self._open: dict[socket.socket, tuple[float, bytearray]] = {}
        self._leaving: list[socket.socket] = []
        self.is_to_end = False
        """`highwater down` was called. Its connections are answered by `close`."""

    def serve(self, obey: Obey) -> None:
        ready = select.select([self._listening, *self._open], [], [], 0)[0]
        for each in ready:
            if each is self._listening:
                self._accept()
            else:
                self._read(each, obey)
        for each, (since, _) in list(self._open.items()):
            if time.monotonic() - since > ORDER_SECONDS:
                self._drop(each)

    def release(self) -> None:
        """In a fork: a node that keeps the socket open would let clients wait for an `up` that has ended."""
        for each in (self._listening, *self._open, *self._leaving):
            each.close()

    def close(self, answer: str) -> None:
        """Answers `highwater down`, after the last node has ended."""
        self.path.unlink(missing_ok=True)
        for each in self._leaving:
            _answer(each, {"done": answer})
        self.release()

    def _accept(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except (BlockingIOError, ConnectionError):
            return
        connection.setblocking(False)
        if not _is_trusted(connection) or len(self._open) >= MOST_CONNECTIONS:
            connection.close()
        else:
            self._open[connection] = (time.monotonic(), bytearray())

    def _drop(self, connection: socket.socket) -> None:
        del self._open[connection]
        connection.close()

    def _read(self, connection: socket.socket, obey: Obey) -> None:
        heard = self._open[connection][1]
        try:
            data = connection.recv(MOST_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        heard += data
        if not data or len(heard) > MOST_BYTES:
            self._drop(connection)
            return
        line, newline, _ = bytes(heard).partition(b"\n")
        if not newline:
            return
        try:
            order = json.loads(line)
            if not isinstance(order, dict):
                raise Refused("an order is a JSON object")
            if order.get("verb") == "down":
                self.is_to_end = True
                del self._open[connection]
                self._leaving.append(connection)
                return
            answer = {"done": obey(order)}
        except (Refused, ValueError) as refused:
            answer = {"refused": str(refused)}
        _answer(connection, answer)
        self._drop(connection)


def order(directory: Path, seconds: float | None = ANSWER_SECONDS, **fields: Any) -> str:
    """Gives one order to the `up` of this directory, and returns its answer. Raises Refused."""
    path = directory / NAME
    if not directory.is_dir():
        raise Refused(f"there is no directory {directory}: name the one of `highwater up` with --data-dir")
    absent = f"no `highwater up` runs on {directory}: start it, or name another directory with --data-dir"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(seconds)
        try:
            with _short(path) as name:
                connection.connect(name)
        except (FileNotFoundError, ConnectionRefusedError) as none:
            raise Refused(absent) from none
        except PermissionError as foreign:
            raise Refused(f"{path} belongs to another user: only that user may give orders to its cluster") from foreign
        except OSError as failed:
            raise Refused(f"{path} cannot be reached: {failed.strerror or failed}") from failed
        if not _is_trusted(connection):
            raise Refused(f"{path} is served by another user's process: it is not trusted")
        try:
            connection.sendall(json.dumps(fields).encode() + b"\n")
            answer = json.loads(_whole(connection) or b"{}")
        except TimeoutError as late:
            raise Refused(f"`highwater up` on {directory} has not answered within {seconds:g} s") from late
        except ConnectionError:
            answer = {}
    if "done" in answer:
        return str(answer["done"])
    raise Refused(str(answer.get("refused", f"`highwater up` on {directory} ended before it answered")))


def _whole(connection: socket.socket) -> bytes:
    heard = b""
    while data := connection.recv(MOST_BYTES):
        heard += data
    return heard


def _answer(connection: socket.socket, answer: dict[str, str]) -> None:
    with contextlib.suppress(OSError):  # the client is gone; the order was carried out all the same
        connection.send(json.dumps(answer).encode() + b"\n")


def _is_trusted(connection: socket.socket) -> bool:
    """Whether the peer runs as this user, or as root."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", peer)
    return user in (0, os.geteuid())


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """A name for the socket that fits: an address of this kind has 108 bytes, and a path may be longer."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
