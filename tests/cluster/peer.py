"""A peer that speaks raw bytes to a node, ours or Apache Kafka's, and reads what comes back to the end."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from types import TracebackType
from typing import Self, TypeVar

from highwater.wire.codec import FlexibleReader, Message

M = TypeVar("M", bound=Message)
PATIENCE = 60.0
"""Seconds without an answer or an end after which a node counts as hung: much longer than a busy machine takes."""


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def request(key: int, version: int, correlation: int, body: bytes, flexible: bool, client: bytes = b"peer") -> bytes:
    """A frame with a well-formed header before whatever `body` is."""
    head = struct.pack(">hhih", key, version, correlation, len(client)) + client
    return framed(head + (b"\x00" if flexible else b"") + body)


def asked(message: Message, version: int, correlation: int = 1) -> bytes:
    return request(message.API_KEY, version, correlation, message.encode(version), version >= message.FLEXIBLE)


class Hung(AssertionError):
    """Neither an answer nor an end came in time."""


class Peer:
    def __init__(self, port: int, patience: float = PATIENCE, receive_buffer: int = 0) -> None:
        self._socket = socket.socket()
        if receive_buffer:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(patience)
        self._socket.connect(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, *frames: bytes) -> None:
        """A node that has already closed is no fault: the next read shows it."""
        try:
            self._socket.sendall(b"".join(frames))
        except (ConnectionResetError, BrokenPipeError):
            return

    def send_at_most(self, data: bytes) -> int:
        """As much of it as the node takes without being waited for."""
        patience = self._socket.gettimeout()
        self._socket.setblocking(False)
        sent = 0
        try:
            while sent < len(data):
                sent += self._socket.send(data[sent : sent + 65_536])
        except (BlockingIOError, ConnectionResetError, BrokenPipeError):
            return sent
        finally:
            self._socket.settimeout(patience)
        return sent

    def end(self) -> None:
        """Nothing more will be sent; answers are still taken."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def answer(self) -> bytes | None:
        """The next answer with its header; None once the node has closed."""
        while len(self._received) < 4 or len(self._received) < 4 + self._size():
            try:
                data = self._socket.recv(1 << 18)
            except TimeoutError:
                raise Hung(f"no answer; {len(self._received)} bytes of one came") from None
            except ConnectionResetError:
                data = b""
            if not data:
                assert not self._received, f"the node closed within an answer: {self._received[:64].hex()}"
                return None
            self._received += data
        size = self._size()
        payload = bytes(self._received[4 : 4 + size])
        del self._received[: 4 + size]
        return payload

    def answers(self) -> list[bytes]:
        """All that come until the node closes."""
        return list(iter(self.answer, None))

    def ask(self, message: Message, version: int, response: type[M], correlation: int = 1) -> M:
        self.send(asked(message, version, correlation))
        payload = self.answer()
        assert payload is not None, "closed without an answer"
        return decoded(payload, response, version, correlation)

    def _size(self) -> int:
        return int(struct.unpack_from(">i", self._received)[0])


def converse(port: int, frames: Iterable[bytes], patience: float = PATIENCE) -> list[bytes]:
    """Send all, half-close, and take the answers up to the node's end."""
    with Peer(port, patience) as peer:
        peer.send(*frames)
        peer.end()
        return peer.answers()


def decoded(payload: bytes, response: type[M], version: int, correlation: int) -> M:
    """A whole answer, which has nothing behind it."""
    assert struct.unpack_from(">i", payload)[0] == correlation
    body = memoryview(payload)[4:]
    if version >= response.FLEXIBLE and response.API_KEY != 18:
        reader = FlexibleReader(body)
        reader.tags()
        body = body[reader.pos :]
    message = response.decode(body, version)
    assert len(message.encode(version)) == len(body), "bytes behind the answer"
    return message
