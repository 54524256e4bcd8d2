"""Writes Kafka's primitive encodings."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from struct import Struct as Layout
from struct import pack
from typing import Final, Protocol

from highwater.model import Uuid
from highwater.wire.reader import MAX_STRING, Tag

_int8, _int16, _int32, _int64 = Layout(">b"), Layout(">h"), Layout(">i"), Layout(">q")
_uint16, _uint32, _float64 = Layout(">H"), Layout(">I"), Layout(">d")
_CODES: Final = {1: "b", 2: "h", 4: "i", 8: "q"}


class Writable(Protocol):
    def write(self, w: Writer, version: int) -> None: ...


class Writer:
    """Appends the classic encodings to `buffer`."""

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer = bytearray()

    def int8(self, value: int) -> None:
        self.buffer += _int8.pack(value)

    def boolean(self, value: bool) -> None:
        self.buffer.append(1 if value else 0)

    def int16(self, value: int) -> None:
        self.buffer += _int16.pack(value)

    def int32(self, value: int) -> None:
        self.buffer += _int32.pack(value)

    def int64(self, value: int) -> None:
        self.buffer += _int64.pack(value)

    def uint16(self, value: int) -> None:
        self.buffer += _uint16.pack(value)

    def uint32(self, value: int) -> None:
        self.buffer += _uint32.pack(value)

    def float64(self, value: float) -> None:
        self.buffer += _float64.pack(value)

    def uuid(self, value: Uuid) -> None:
        if len(value) != 16:
            raise ValueError(f"an id of {len(value)} bytes")
        self.buffer += value

    def uvarint(self, value: int) -> None:
        buffer = self.buffer
        while value > 0x7F:
            buffer.append(value & 0x7F | 0x80)
            value >>= 7
        buffer.append(value)

    def string(self, value: str) -> None:
        raw = _utf8(value)
        self.string_length(len(raw))
        self.buffer += raw

    def nullable_string(self, value: str | None) -> None:
        if value is None:
            self.string_length(-1)
        else:
            self.string(value)

    def classic_nullable_string(self, value: str | None) -> None:
        raw = None if value is None else _utf8(value)
        self.buffer += _int16.pack(-1 if raw is None else len(raw)) + (raw or b"")

    def blob(self, value: bytes | bytearray | memoryview) -> None:
        self.count(len(value))
        self.buffer += value

    def nullable_blob(self, value: bytes | bytearray | memoryview | None) -> None:
        if value is None:
            self.count(-1)
        else:
            self.blob(value)

    def integers(self, values: Sequence[int], size: int) -> None:
        """An array of signed integers of `size` bytes."""
        self.count(len(values))
        self.buffer += pack(f">{len(values)}{_CODES[size]}", *values)

    def strings(self, values: Sequence[str]) -> None:
        self.count(len(values))
        for value in values:
            self.string(value)

    def uuids(self, values: Sequence[Uuid]) -> None:
        self.count(len(values))
        for value in values:
            self.uuid(value)

    def structs(self, values: Sequence[Writable], version: int) -> None:
        self.count(len(values))
        for value in values:
            value.write(self, version)

    def present(self, value: bool) -> None:
        self.int8(1 if value else -1)

    def present_tagged(self, value: bool) -> None:
        self.uvarint(1 if value else 0)

    def count(self, length: int) -> None:
        """The length of an array or of bytes; -1 for null."""
        self.buffer += _int32.pack(length)

    def tags(self, unknown: tuple[Tag, ...], known: Sequence[tuple[int, Writer]] = ()) -> None:
        if unknown:
            raise ValueError("tagged fields in a version that has none")

    def string_length(self, length: int) -> None:
        self.buffer += _int16.pack(length)


def _utf8(value: str) -> bytes:
    raw = value.encode()
    if len(raw) > MAX_STRING:
        raise ValueError(f"a string of {len(raw)} bytes")
    return raw


class FlexibleWriter(Writer):
    """Appends the compact encodings and tag sections of flexible versions."""

    __slots__ = ()

    def count(self, length: int) -> None:
        self.uvarint(length + 1)

    def tags(self, unknown: tuple[Tag, ...], known: Sequence[tuple[int, Writer]] = ()) -> None:
        if not unknown and not known:
            self.buffer.append(0)
            return
        fields: list[tuple[int, bytes | bytearray]] = [(tag, writer.buffer) for tag, writer in known]
        fields += unknown  # one that came twice is passed on twice
        self.uvarint(len(fields))
        for tag, value in sorted(fields, key=itemgetter(0)):
            self.uvarint(tag)
            self.uvarint(len(value))
            self.buffer += value

    def string_length(self, length: int) -> None:
        self.uvarint(length + 1)
