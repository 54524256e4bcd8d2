"""One end of a simulated connection: the transport in the process, and what the kernel keeps of it after a crash."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

from highwater.model import Endpoint
from highwater.sim.loop import SimLoop
from highwater.sim.process import Process
from highwater.sim.stream import Stream, StreamEnd

HIGH_WATER = 64 * 1024
READ_HINT = 64 * 1024


class SimTransport(asyncio.Transport):
    """asyncio's transport contract, as the socket transport of the selector loop keeps it."""

    def __init__(
        self,
        loop: SimLoop,
        process: Process,
        is_powered: Callable[[], bool],
        out: Stream,
        into: Stream,
        local: Endpoint,
        peer: Endpoint,
    ) -> None:
        super().__init__({"sockname": tuple(local), "peername": tuple(peer)})
        self._loop = loop
        self._process = process
        self._out = out
        self._into = into
        self._route = f"{local} -> {peer}"
        self._is_powered = is_powered
        self.on_gone: Callable[[], None] = lambda: None
        self._protocol: asyncio.BufferedProtocol | None = None
        self._arrived: deque[memoryview] = deque()
        self._fin_arrived = False
        self._reading = True
        self._read_scheduled = False
        self._closing = False
        self._gone = False
        self._error: OSError | None = None
        self._wrote_eof = False
        self._writing_paused = False
        self._high = HIGH_WATER
        self._low = HIGH_WATER // 4

    @property
    def process(self) -> Process:
        return self._process

    def start(self, protocol: asyncio.BufferedProtocol) -> None:
        """Gives the connection to its protocol. Runs as the process."""
        self._protocol = protocol
        protocol.connection_made(self)
        if self._gone:
            self._loop.call_soon(self._lost, self._error, context=self._process.context())
        else:
            self._read_soon()

    # For the protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        self._process.check()
        assert self._protocol is not None
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._process.check()
        if not isinstance(protocol, asyncio.BufferedProtocol):
            raise TypeError("the simulated network speaks to a BufferedProtocol")
        self._protocol = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        self._process.check()
        return super().get_extra_info(name, default)

    def is_closing(self) -> bool:
        self._process.check()
        return self._closing

    def is_reading(self) -> bool:
        self._process.check()
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._process.check()
        self._reading = False

    def resume_reading(self) -> None:
        self._process.check()
        if not self._reading:
            self._reading = True
            self._read_soon()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._send(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self._send(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._process.emit("eof", self._route)
        if not self._closing and not self._wrote_eof:
            self._wrote_eof = True
            self._out.finish()

    def get_write_buffer_size(self) -> int:
        self._process.check()
        return self._out.unsent_size

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._process.check()
        if high is None:
            high = HIGH_WATER if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high, self._low = high, low
        self._pause_writing_if_full()

    def close(self) -> None:
        self._process.emit("close", self._route)
        if not self._closing:
            self._closing = True
            if not self._out.unsent:
                self._hang_up()
                self._leave(None)

    def abort(self) -> None:
        self._process.emit("abort", self._route)
        if not self._gone:
            self._out.forget_unsent()
            self._hang_up()
            self._leave(None)

    def _send(self, data: bytes) -> None:
        self._process.emit("send", self._route, f"{len(data)} {crc32(data):08x}")
        if self._wrote_eof:
            raise RuntimeError("Cannot call write() after write_eof()")
        if data and not self._closing:
            self._out.send(data)
            self._pause_writing_if_full()
        self._process.happened("send", self._route)

    def _pause_writing_if_full(self) -> None:
        if self._out.unsent_size > self._high and not self._writing_paused and self._protocol is not None:
            self._writing_paused = True
            self._protocol.pause_writing()

    # Callbacks of the kernel

    def is_gone(self) -> bool:
        return self._gone

    def is_powered(self) -> bool:
        return self._is_powered()

    def is_open(self) -> bool:
        return not self._gone

    def receive(self, piece: bytes | StreamEnd) -> None:
        if piece is StreamEnd.RST:
            self.fail(ConnectionResetError(104, "Connection reset by peer"))
        elif isinstance(piece, bytes):
            self._arrived.append(memoryview(piece))
            self._read_soon()
        else:
            self._fin_arrived = True
            self._read_soon()

    def drained(self) -> None:
        if self._process.alive and not self._gone:
            self._loop.call_soon(self._after_drain, context=self._process.context())

    def fail(self, error: OSError) -> None:
        """The connection broke: bytes that had arrived and were not read are lost."""
        if not self._gone:
            self._out.drop()
            self._arrived.clear()
            self._leave(error)

    def orphan(self) -> None:
        """The process was killed: its kernel closes the connection as if it had been aborted."""
        if not self._gone:
            self._out.forget_unsent()
            self._hang_up()
            self._leave(None)

    def lose_power(self) -> None:
        self._out.lose_power()
        self._leave(None)

    # The process's side of the kernel

    def _hang_up(self) -> None:
        """If bytes are unread when the connection is closed, a reset is sent and no FIN, as in TCP."""
        unread, self._arrived = bool(self._arrived), deque()
        if unread:
            self._out.void()
        elif not self._wrote_eof:
            self._out.finish()

    def _leave(self, error: OSError | None) -> None:
        self._gone = self._closing = True
        self._error = error
        if self._process.alive:
            self._loop.call_soon(self._lost, error, context=self._process.context())
        self.on_gone()

    def _lost(self, error: OSError | None) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            self._process.emit("lost", self._route, type(error).__name__)
            protocol.connection_lost(error)

    def _after_drain(self) -> None:
        if self._gone:
            return
        if self._closing and not self._out.unsent:
            self._hang_up()
            self._leave(None)
        elif self._writing_paused and self._out.unsent_size <= self._low and self._protocol is not None:
            self._writing_paused = False
            self._protocol.resume_writing()

    def _read_soon(self) -> None:
        ready = self._reading and self._protocol is not None and (self._arrived or self._fin_arrived)
        if ready and not self._read_scheduled and self._process.alive:
            self._read_scheduled = True
            self._loop.call_soon(self._read, context=self._process.context())

    def _read(self) -> None:
        self._read_scheduled = False
        if self._closing or not self._reading or self._protocol is None:
            return
        try:
            if self._arrived:
                self._deliver(self._protocol)
                self._read_soon()
            else:
                self._fin_arrived = False
                self._process.emit("fin", self._route)
                if not self._protocol.eof_received():
                    self.close()
        except Exception as error:  # noqa: BLE001 - the boundary between a loop and a protocol, as in asyncio
            self._break(error)

    def _deliver(self, protocol: asyncio.BufferedProtocol) -> None:
        buffer = memoryview(protocol.get_buffer(READ_HINT)).cast("B")
        if not len(buffer):
            raise RuntimeError("get_buffer() returned an empty buffer")
        filled = 0
        while self._arrived and filled < len(buffer):
            piece = self._arrived.popleft()
            room = len(buffer) - filled
            if len(piece) > room:
                self._arrived.appendleft(piece[room:])
                piece = piece[:room]
            buffer[filled : filled + len(piece)] = piece
            filled += len(piece)
        self._process.emit("receive", self._route, str(filled))
        self._into.consumed(filled)
        protocol.buffer_updated(filled)

    def _break(self, error: Exception) -> None:
        self._loop.call_exception_handler(
            {"message": "protocol failed", "exception": error, "transport": self, "protocol": self._protocol}
        )
        if not self._gone:
            self._out.forget_unsent()
            self._hang_up()
            self._leave(OSError(str(error)))
