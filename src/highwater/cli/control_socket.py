"""DIR/control.sock: the socket on which `up` takes orders for its nodes, from its own user only.

One order is one line of JSON, and one line answers it, also an order that cannot be read or that does not come. The
file has mode 0600, and either side also asks the system for the other one's user: in a directory that others may write
to, a foreign process could put its own socket there.
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
"""A connection that has not sent its order by then is refused."""
MOST_CONNECTIONS: Final = 16
"""Beyond it the connection is refused that has waited longest without an order."""
_QUOTED: Final = 200
"""The most characters of a refusal, which may quote what was sent."""
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
        self._accept()
        for each in select.select(list(self._open), [], [], 0)[0]:
            self._read(each, obey)
        for each, (since, _) in list(self._open.items()):
            if time.monotonic() - since > ORDER_SECONDS:
                self._refuse(each, f"no order came within {ORDER_SECONDS:g} s")

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
        for _ in range(MOST_CONNECTIONS):
            try:
                connection, _ = self._listening.accept()
            except OSError:  # there is no other, or it is gone, or no descriptor is free
                return
            connection.setblocking(False)
            if not _is_trusted(connection):
                connection.close()
                continue
            if len(self._open) >= MOST_CONNECTIONS:
                self._refuse(next(iter(self._open)), "too many connections wait, and this one sent no order")
            self._open[connection] = (time.monotonic(), bytearray())

    def _refuse(self, connection: socket.socket, why: str) -> None:
        _answer(connection, {"refused": why if len(why) <= _QUOTED else f"{why[:_QUOTED]} ..."})
        self._drop(connection)

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
            self._drop(connection)
            return
        heard += data
        line, newline, _ = bytes(heard).partition(b"\n")
        if newline:
            self._carry_out(connection, line, obey)
        elif not data:
            self._refuse(connection, "the order does not end: it is one line")
        elif len(heard) > MOST_BYTES:
            self._refuse(connection, f"an order has at most {MOST_BYTES} bytes")

    def _carry_out(self, connection: socket.socket, line: bytes, obey: Obey) -> None:
        try:
            order = _order_of(line)
            if order["verb"] == "down":
                self.is_to_end = True
                del self._open[connection]
                self._leaving.append(connection)
                return
            done = obey(order)
        except Refused as refused:
            self._refuse(connection, str(refused))
        except Exception as failed:  # noqa: BLE001 the boundary between one order and the whole cluster
            self._refuse(connection, f"the order failed: {failed or type(failed).__name__}")
        else:
            _answer(connection, {"done": done})
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
            answer = _answer_of(_whole(connection))
        except TimeoutError as late:
            raise Refused(f"`highwater up` on {directory} has not answered within {seconds:g} s") from late
        except ConnectionError:
            answer = {}
    if "done" in answer:
        return str(answer["done"])
    raise Refused(str(answer.get("refused", f"`highwater up` on {directory} ended before it answered")))


def _order_of(line: bytes) -> dict[str, Any]:
    """Raises Refused."""
    try:
        order = json.loads(line.decode())
    except (ValueError, RecursionError) as wrong:
        raise Refused(f"an order is one line of JSON in UTF-8: {wrong}") from wrong
    if not isinstance(order, dict) or not isinstance(order.get("verb"), str):
        raise Refused('an order is a JSON object with a "verb", which is a string')
    return order


def _whole(connection: socket.socket) -> bytes:
    heard = b""
    while data := connection.recv(MOST_BYTES):
        heard += data
    return heard


def _answer_of(line: bytes) -> dict[str, Any]:
    """Empty if `up` ended before it had answered."""
    try:
        answer = json.loads(line)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


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
