"""Two watchers, each a process of its own, until SIGTERM: one asks a node, one only notes when it was not run.

`python watch.py ask HOST:PORT FILE` sends ApiVersions every 10 ms over one connection, whether or not the last one is
answered, and writes when each was sent and answered. `python watch.py spin FILE` reads the clock in a loop and writes
every gap: what the machine itself withheld. Both write pairs of 64-bit nanoseconds of the same monotonic clock.
"""

from __future__ import annotations

import select
import signal
import socket
import sys
import time
from array import array
from pathlib import Path
from struct import Struct

EVERY = 10_000_000
GAP = 500_000
_REQUEST = b"\x00\x00\x00\x0a" + b"\x00\x12\x00\x00\x00\x00\x00\x07\xff\xff"
"""ApiVersions v0 with no client id: answered by every broker, also while it recovers."""
_SIZE = Struct(">i")


class Ended(Exception):
    pass


def end(number: int, frame: object) -> None:
    raise Ended


def ask(host: str, port: int, pairs: array[int]) -> None:
    """Dialling goes on until the listener is there; the first pair's first half is when it was."""
    connection = dial(host, port)
    waiting: list[int] = []
    unread = bytearray()
    due = time.monotonic_ns()
    try:
        while True:
            now = time.monotonic_ns()
            if now >= due:
                connection.sendall(_REQUEST)
                waiting.append(now)
                due = max(due + EVERY, now)
            readable, _, _ = select.select([connection], [], [], max(due - time.monotonic_ns(), 0) / 1e9)
            if readable:
                data = connection.recv(1 << 16)
                if not data:
                    return
                unread += data
                now = time.monotonic_ns()
                while len(unread) >= 4 and len(unread) >= (size := 4 + _SIZE.unpack_from(unread)[0]):
                    del unread[:size]
                    pairs.extend((waiting.pop(0), now))
    finally:
        now = time.monotonic_ns()
        for sent in waiting:
            pairs.extend((sent, now))


def dial(host: str, port: int) -> socket.socket:
    while True:
        try:
            connection = socket.create_connection((host, port), 5)
        except OSError:
            time.sleep(0.002)
            continue
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def spin(pairs: array[int]) -> None:
    clock = time.monotonic_ns
    last = clock()
    while True:
        now = clock()
        if now - last > GAP:
            pairs.extend((last, now))
        last = now


def main(what: str, *arguments: str) -> None:
    signal.signal(signal.SIGTERM, end)
    pairs: array[int] = array("q")
    try:
        if what == "ask":
            host, _, port = arguments[0].rpartition(":")
            ask(host, int(port), pairs)
        else:
            spin(pairs)
    except (Ended, ConnectionError):
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(arguments[-1]).write_bytes(pairs.tobytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
