"""Reads Kafka's request header."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

from highwater.wire.codec import FlexibleReader, Malformed

_FIXED: Final = Struct(">hhih")
_unpack = _FIXED.unpack_from
_MOST_TAGS: Final = 100


class HeaderReader:
    """Each connection has one. The client id hardly ever changes, so it is decoded once."""

    __slots__ = ("_raw", "client_id")

    def __init__(self) -> None:
        self._raw = b""
        self.client_id: str | None = ""

    def read(self, frame: memoryview) -> tuple[int, int, int, int]:
        """Returns (API key, version, correlation id, end of the client id). Raises Malformed."""
        try:
            key, version, correlation, length = _unpack(frame)
        except StructError:
            raise Malformed("a truncated request header") from None
        end: int = 10
        if length >= 0:
            end += length
            if end > len(frame):
                raise Malformed("the client id is longer than the request")
            raw = frame[10:end].tobytes()
            if raw != self._raw or self.client_id is None:
                self._decode(raw)
        elif length == -1:
            self.client_id = None
        else:
            raise Malformed(f"a client id of {length} bytes")
        return key, version, correlation, end

    def _decode(self, raw: bytes) -> None:
        try:
            self.client_id = raw.decode()
        except UnicodeDecodeError:
            raise Malformed("a client id that is not UTF-8") from None
        self._raw = raw


def after_tags(frame: memoryview, at: int) -> int:
    """The start of the body in a flexible version. Unknown tags are skipped. Raises Malformed."""
    if at < len(frame) and frame[at] == 0:
        return at + 1
    reader = FlexibleReader(frame[at:], 0, _MOST_TAGS)
    reader.skip_tags()
    return at + reader.pos
