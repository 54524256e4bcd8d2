"""An outgoing connection with a lane for each direction, between its owner and the socket."""

from __future__ import annotations

from asyncio import BaseTransport, BufferedProtocol, Transport
from collections.abc import Iterable
from enum import Enum
from typing import Any, cast

from highwater.faults.lane import Lane
from highwater.world import Buffer, Clock

BUFFER_BYTES = 64 * 1024


class StreamEnd(Enum):
    """What ends a stream: everything was sent, the owner gave up, or the socket is gone."""

    EOF = "eof"
    CLOSE = "close"
    ABORT = "abort"
    LOST = "lost"


class Tap(BufferedProtocol):
    """The protocol of the socket. It gives the owner its own transport.

    The end of a stream travels in its lane as bytes do. So over a cut link neither side learns that the other one
    closed.
    """

    def __init__(
        self, clock: Clock, owner: BufferedProtocol, outgoing_held: bool, incoming_held: bool, delay: float
    ) -> None:
        self._clock = clock
        self._owner = owner
        self._outgoing: Lane[bytes | StreamEnd] = Lane(clock, self._send, outgoing_held, delay)
        self._incoming: Lane[bytes | StreamEnd] = Lane(clock, self._feed, incoming_held, delay)
        self._socket: Transport | None = None
        self._direct = False
        self._buffer = bytearray()
        self._ended = False
        self._owner_gone = False
        self._lost: Exception | None = None
        self.transport = TapTransport(self)

    def change(self, outgoing_held: bool, incoming_held: bool, delay: float) -> None:
        self._outgoing.change(outgoing_held, delay)
        self._incoming.change(incoming_held, delay)

    # --- the owner's side

    @property
    def is_closing(self) -> bool:
        return self._ended or self._owner_gone or self._socket is None or self._socket.is_closing()

    @property
    def socket(self) -> Transport | None:
        return self._socket

    def write(self, data: bytes) -> None:
        if not self._ended:
            self._outgoing.push(data)

    def end(self, how: StreamEnd) -> None:
        """The owner learns at once that the connection is over; the peer learns it when the link lets it through."""
        if not self._ended:
            self._ended = True
            self._incoming.drop()
            self._clock.call_soon(self._lose_owner, None)
            self._outgoing.push(how)

    def _lose_owner(self, cause: Exception | None) -> None:
        if not self._owner_gone:
            self._owner_gone = self._ended = True
            self._incoming.drop()
            self._owner.connection_lost(cause)

    def _send(self, item: bytes | StreamEnd) -> None:
        if self._socket is None:
            return
        if item is StreamEnd.ABORT:
            self._socket.abort()
        elif isinstance(item, StreamEnd):
            self._socket.close()
        else:
            self._socket.write(item)

    # --- the socket's side

    def connection_made(self, transport: BaseTransport) -> None:
        self._socket = cast(Transport, transport)
        self._owner.connection_made(self.transport)

    def get_buffer(self, sizehint: int) -> Any:
        self._direct = not self._ended and self._incoming.is_clear
        if self._direct:
            return self._owner.get_buffer(sizehint)
        self._buffer = self._buffer or bytearray(BUFFER_BYTES)
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        if self._direct:
            self._owner.buffer_updated(nbytes)
        elif not self._ended:
            self._incoming.push(bytes(memoryview(self._buffer)[:nbytes]))

    def eof_received(self) -> bool:
        if self._ended:
            return False
        if self._incoming.is_clear:
            return bool(self._owner.eof_received())
        self._incoming.push(StreamEnd.EOF)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._outgoing.drop()
        self._lost = exc
        if not self._ended:
            self._incoming.push(StreamEnd.LOST)

    def pause_writing(self) -> None:
        if not self._ended:
            self._owner.pause_writing()

    def resume_writing(self) -> None:
        if not self._ended:
            self._owner.resume_writing()

    def _feed(self, item: bytes | StreamEnd) -> None:
        if item is StreamEnd.LOST:
            self._lose_owner(self._lost)
        elif item is StreamEnd.EOF:
            if not self._owner.eof_received() and self._socket is not None:
                self._socket.close()
        elif isinstance(item, bytes):
            rest = memoryview(item)
            while rest and not self._ended:
                space = cast(memoryview, self._owner.get_buffer(len(rest)))
                size = min(len(space), len(rest))
                space[:size] = rest[:size]
                rest = rest[size:]
                self._owner.buffer_updated(size)


class TapTransport(Transport):
    """The transport that the owner sees."""

    def __init__(self, tap: Tap) -> None:
        super().__init__()
        self._tap = tap

    def write(self, data: Buffer) -> None:
        self._tap.write(bytes(data))

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self._tap.write(b"".join(list_of_data))

    def close(self) -> None:
        self._tap.end(StreamEnd.CLOSE)

    def abort(self) -> None:
        self._tap.end(StreamEnd.ABORT)

    def is_closing(self) -> bool:
        return self._tap.is_closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        socket = self._tap.socket
        return default if socket is None else socket.get_extra_info(name, default)

    def pause_reading(self) -> None:
        if self._tap.socket is not None:
            self._tap.socket.pause_reading()

    def resume_reading(self) -> None:
        if self._tap.socket is not None:
            self._tap.socket.resume_reading()
