"""Protocols for both ends of a connection, as the tests of both worlds use them."""

from __future__ import annotations

import asyncio
from typing import cast

from highwater.world import World


class End(asyncio.BufferedProtocol):
    """Writes down what happens to it."""

    def __init__(self, room: int = 4096) -> None:
        self._buffer = bytearray(room)
        self._changed = asyncio.Event()
        self.transport: asyncio.Transport
        self.got = bytearray()
        self.pieces: list[int] = []
        self.calls: list[str] = []
        self.error: BaseException | None = None
        self.keep_open_at_eof = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A transport of uvloop has the methods of asyncio.Transport and not its type.
        self.transport = cast(asyncio.Transport, transport)
        self._note("made")

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        assert "lost" not in self.calls, "bytes after the end"
        self.got += self._buffer[:nbytes]
        self.pieces.append(nbytes)
        self._changed.set()

    def eof_received(self) -> bool:
        self._note("eof")
        return self.keep_open_at_eof

    def connection_lost(self, exc: BaseException | None) -> None:
        self.error = exc
        self._note("lost")

    def pause_writing(self) -> None:
        self._note("pause")

    def resume_writing(self) -> None:
        self._note("resume")

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self._changed.set()

    @property
    def lost(self) -> bool:
        return "lost" in self.calls

    async def received(self, size: int) -> bytes:
        while len(self.got) < size:
            self._changed.clear()
            await self._changed.wait()
        return bytes(self.got)

    async def called(self, call: str) -> None:
        while call not in self.calls:
            self._changed.clear()
            await self._changed.wait()


class Echo(End):
    def buffer_updated(self, nbytes: int) -> None:
        super().buffer_updated(nbytes)
        self.transport.write(bytes(self._buffer[:nbytes]))


async def settle(world: World, seconds: float = 0.05) -> None:
    """Let time go by on the node's own clock."""
    passed = asyncio.get_running_loop().create_future()
    world.clock.call_later(seconds, passed.set_result, None)
    await passed
