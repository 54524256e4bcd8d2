"""Checks batches when they are sent: a disk may return other bytes than were written (CORDS, FAST '17).

A slice is read in pieces that do not end at batches, so the check takes one piece after the other.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import PurePath
from struct import Struct
from typing import Final

from crc32c import crc32c

from highwater.log.scan import BadBatch
from highwater.model import Offset
from highwater.wire.records.header import ATTRIBUTES_AT, HEADER_SIZE, LENGTH_PREFIX, MAGIC
from highwater.world import Buffer

FRESH_SECONDS: Final = 5.0
"""For at least this long, and at most twice as long, bytes count as just written: they come from memory."""


_FIELDS: Final = Struct(">qi4xbI2xi")
"""Base offset, length, magic, checksum and last offset delta: the fields that are checked in each batch."""


class Damaged(OSError):
    """Bytes of a log differ from those that were written."""

    def __init__(self, bad: BadBatch) -> None:
        super().__init__(errno.EIO, f"damaged {bad}", str(bad.path))
        self.position = bad.position


class Freshness:
    """Knows where the bytes that were just written begin. Each write may set a mark, so no timer is needed."""

    __slots__ = ("_before", "_mark", "_marked_at")

    def __init__(self) -> None:
        self._before = self._mark = (-1, -1)
        self._marked_at = float("-inf")

    def written(self, segment: Offset, position: int, now: float) -> None:
        if now - self._marked_at > FRESH_SECONDS:
            stale = now - self._marked_at > 2 * FRESH_SECONDS
            self._before = (segment, position) if stale else self._mark
            self._mark, self._marked_at = (segment, position), now

    def holds(self, segment: Offset, position: int, now: float) -> bool:
        return now - self._marked_at <= 2 * FRESH_SECONDS and (segment, position) >= self._before


class BatchCheck:
    """Takes the bytes of a file, from the beginning of a batch on. Returns False from the first bad batch on, and
    reports that batch.

    A batch that is cut off at the end of the slice is not checked: its reader cannot use it either.
    """

    __slots__ = ("_bad", "_begin", "_crc", "_expected", "_head", "_high", "_left", "_next", "_path", "_size")

    def __init__(
        self, path: PurePath, position: int, low: Offset, high: Offset, bad: Callable[[BadBatch], None]
    ) -> None:
        """Offsets must rise from `low` on and stay below `high`: a batch at a wrong position can have a good
        checksum."""
        self._path = path
        self._begin = position
        self._next = low
        self._high = high
        self._bad = bad
        self._head = b""
        self._left = self._size = 0
        self._crc = 0
        self._expected = 0

    def passes(self, data: Buffer) -> bool:
        view = memoryview(data)
        size = len(view)
        try:
            at = self._go_on(view) if self._head or self._left else 0
            while size - at >= HEADER_SIZE:
                end = at + self._enter(view, at)
                self._crc = crc32c(view[at + ATTRIBUTES_AT : end])
                self._left = max(end - size, 0)
                if self._left:
                    return True
                self._judge()
                at = end
        except BadBatch as bad:
            self._bad(bad)
            return False
        self._head += bytes(view[at:])
        return True

    def _go_on(self, view: memoryview) -> int:
        """Continues the batch in which the last piece ended. Returns how many bytes of this piece belong to it."""
        at = 0
        if self._head:
            at = HEADER_SIZE - len(self._head)
            if len(view) < at:
                return 0
            head, self._head = memoryview(self._head + bytes(view[:at])), b""
            self._left = self._enter(head, 0) - HEADER_SIZE
            self._crc = crc32c(head[ATTRIBUTES_AT:])
        end = at + self._left
        self._crc = crc32c(view[at:end], self._crc)
        self._left = max(end - len(view), 0)
        if self._left:
            return len(view)
        self._judge()
        return end

    def _enter(self, view: memoryview, at: int) -> int:
        """Begins a batch at this position, and returns its size."""
        base_offset, length, magic, self._expected, delta = _FIELDS.unpack_from(view, at)
        size: int = LENGTH_PREFIX + length
        if magic != MAGIC or size < HEADER_SIZE or delta < 0:
            raise BadBatch(self._path, self._begin, f"length {length}, magic {magic}, last offset delta {delta}")
        if base_offset < self._next or base_offset + delta >= self._high:
            found = f"offsets {base_offset} to {base_offset + delta}"
            raise BadBatch(self._path, self._begin, f"{found} where {self._next} to {self._high - 1} are due")
        self._next = base_offset + delta + 1
        self._size = size
        return size

    def _judge(self) -> None:
        if self._crc != self._expected:
            raise BadBatch(self._path, self._begin, "its checksum is wrong")
        self._begin += self._size
