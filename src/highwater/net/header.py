"""Kafka's request header, read in front of every request."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

from highwater.wire.codec import FlexibleReader, Malformed

_FIXED: Final = Struct(">hhih")
_unpack = _FIXED.unpack_from
_MOST_TAGS: Final = 100


class HeaderReader:
    """One per connection: its client id hardly ever changes, so it is decoded once."""

    __slots__ = ("_raw", "client_id")

    def __init__(self) -> None:
        self._raw = b""
        self.client_id: str | None = ""

    def read(self, frame: memoryview) -> tuple[int, int, int, int]:
        """(API key, version, correlation id, where the client id ends); raises Malformed."""
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
    """Where the body begins in a flexible version; unknown tags are passed over. Raises Malformed."""
    if at < len(frame) and frame[at] == 0:
        return at + 1
    reader = FlexibleReader(frame[at:], 0, _MOST_TAGS)
    reader.skip_tags()
    return at + reader.pos
