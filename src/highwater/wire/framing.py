"""Divides a byte stream into Kafka's frames: an int32 size, and that many bytes. Memory grows with the bytes that
arrived, not with the size that was announced, and a whole frame is never copied."""

from __future__ import annotations

from struct import Struct
from typing import Final, cast

MAX_FRAME: Final = 100 * 1024 * 1024
"""The default of socket.request.max.bytes."""
CHUNK: Final = 64 * 1024
"""The most bytes of one read, unless a frame is known to be larger."""

_MOVED: Final = CHUNK // 2
"""A remainder of up to this size is copied to a buffer of its exact size, so a stalled peer takes no more memory than
it sent."""
_TRUSTED: Final = 2 * 1024 * 1024
"""After a whole frame of some size, the buffer for the peer's next frame has the same size at once, up to this
limit."""
_SPARE_CHUNKS: Final = 4
_PREFIX: Final = Struct(">i")
_NO_BUFFER: Final = bytearray()
_NO_VIEW: Final = memoryview(_NO_BUFFER)


class FrameFault(ValueError):
    """A frame has a forbidden size: the following bytes cannot be read."""


class ChunkPool:
    """Read buffers that the connections of a loop share: a connection owns one only while it has bytes in it. All
    connections read into the same chunk, `lent`, until bytes arrive there. A read without bytes takes no chunk of its
    own, for example when thousands of peers close at once."""

    __slots__ = ("_spare", "lent")

    def __init__(self) -> None:
        self._spare: list[bytearray] = []
        self.lent: memoryview | None = None
        """The chunk for the next read. The reader that receives bytes in it sets this to None, and owns the chunk."""

    def take(self) -> bytearray:
        while self._spare:
            chunk = self._spare.pop()
            try:
                chunk.pop()
            except BufferError:
                continue  # a frame cut from it is still in use; the chunk dies with that frame
            chunk.append(0)
            return chunk
        return bytearray(CHUNK)

    def give(self, chunk: bytearray) -> None:
        if len(self._spare) < _SPARE_CHUNKS:
            self._spare.append(chunk)


class FrameReader:
    """Makes frames of reads, for asyncio's BufferedProtocol. One round is `space()`, `received(n)`, `next()` until None
    (or as long as the reader wants frames), `settle()`. A frame is a writable view. Its bytes are not used again while
    any view of them exists. A small frame shares its chunk with its neighbours, so a view that is kept for long should
    be copied."""

    __slots__ = ("_buffer", "_end", "_max", "_need", "_pool", "_rest", "_start", "_trusted", "_view")

    def __init__(self, pool: ChunkPool, max_frame: int = MAX_FRAME) -> None:
        self._pool = pool
        self._max = max_frame
        self._rest = b""
        self._need = 0
        self._trusted = 0
        self._start = self._end = 0
        self._buffer = _NO_BUFFER
        self._view = _NO_VIEW

    @property
    def held(self) -> int:
        """The memory of bytes that were not returned as frames yet."""
        return len(self._buffer) or len(self._rest)

    @property
    def claim(self) -> int:
        """What `held` will be while the next bytes are read."""
        return self._enlarged() if self._buffer and self._end == len(self._buffer) else len(self._buffer) or CHUNK

    @property
    def has_one(self) -> bool:
        """Whether a whole frame is there, or a forbidden size."""
        have = self._end - self._start or len(self._rest)
        if have < 4:
            return False
        size: int = _PREFIX.unpack_from(self._rest or self._buffer, 0 if self._rest else self._start)[0]
        return size + 4 <= have

    @property
    def announced(self) -> int:
        """The size of the frame that is arriving; 0 if none has begun."""
        return self._need - 4 if self._need else 0

    @property
    def begun(self) -> memoryview:
        """The part of the arriving frame that is there."""
        return memoryview(self._rest)[4:] if self._rest else self._view[self._start + 4 : self._end]

    def space(self) -> memoryview:
        """The buffer for the next read; never empty. `received` must follow at once, before another reader of the pool
        asks for a buffer: otherwise the bytes are lost."""
        if self._buffer is _NO_BUFFER:
            pool = self._pool
            if pool.lent is None:
                pool.lent = memoryview(pool.take())
            return pool.lent[len(self._rest) :] if self._rest else pool.lent
        if self._end == len(self._buffer):
            self._move()
        return self._view[self._end :]

    def received(self, count: int) -> None:
        if self._buffer is _NO_BUFFER:
            view = self._pool.lent
            assert view is not None, "nothing was lent"
            self._pool.lent = None
            self._view = view
            self._buffer = cast("bytearray", view.obj)
            if self._rest:
                self._restore()
        self._end += count

    def next(self) -> memoryview | None:
        """The next whole frame without its size, or None. Raises FrameFault."""
        if self._rest:
            self._load()
        start = self._start
        end = self._end
        if end - start < 4:
            return None
        size: int = _PREFIX.unpack_from(self._buffer, start)[0]
        if not 0 < size <= self._max:
            raise FrameFault(f"a frame of {size} bytes")
        stop = start + 4 + size
        if stop > end:
            self._need = 4 + size
            return None
        self._start = stop
        self._need = 0
        if size > CHUNK:
            self._trusted = min(4 + size, _TRUSTED)
        return self._view[start + 4 : stop]

    def settle(self) -> None:
        """Frees the memory that the remaining bytes do not need."""
        have = self._end - self._start
        if self._rest:
            return
        if have == 0:
            self._drop()
        elif len(self._buffer) <= CHUNK and have <= _MOVED:
            self._rest = bytes(self._view[self._start : self._end])
            need = self._need
            self._drop()
            self._need = need

    def clear(self) -> None:
        self._rest = b""
        self._need = 0
        self._drop()

    def _load(self) -> None:
        self._buffer = self._pool.take()
        self._view = memoryview(self._buffer)
        self._restore()

    def _restore(self) -> None:
        """Puts the remainder before the bytes that were read."""
        self._end = len(self._rest)
        self._view[: self._end] = self._rest
        self._rest = b""

    def _drop(self) -> None:
        buffer = self._buffer
        self._buffer = _NO_BUFFER
        self._view = _NO_VIEW
        self._start = self._end = self._need = 0
        if len(buffer) == CHUNK:
            self._pool.give(buffer)

    def _move(self) -> None:
        """Moves the bytes into a buffer of their own, up to twice as large. Views of the old buffer keep it alive."""
        arrived = self._view[self._start : self._end]
        have = len(arrived)
        self._buffer = bytearray(self._enlarged())
        self._view = memoryview(self._buffer)
        self._view[:have] = arrived
        self._start = 0
        self._end = have

    def _enlarged(self) -> int:
        have = self._end - self._start
        wanted = self._need if self._need > have else 2 * have
        return max(CHUNK, min(wanted, max(2 * have, self._trusted)))
