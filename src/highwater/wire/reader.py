"""Reads Kafka's primitive encodings from bytes that may be hostile."""

from __future__ import annotations

from struct import Struct as Layout
from struct import error as LayoutError
from struct import unpack_from
from typing import Any, ClassVar, Final

from highwater.model import Uuid

Tag = tuple[int, bytes]
"""A tagged field that the reader does not know: its number and its bytes."""

MAX_STRING: Final = 0x7FFF
_FREE_OBJECTS: Final = 10_000
_BYTES_PER_OBJECT: Final = 8
"""The bytes of a message for each object that it may become. An array element or an unknown tag takes 60 to 200 bytes
of memory, but perhaps only one or two bytes on the wire. So a message may become one object for eight bytes, and
`_FREE_OBJECTS` more, which small messages never reach. It then takes at most a small multiple of its size in memory. No
larger real request is that dense."""

_int8, _int16, _int32, _int64, _float64 = Layout(">b"), Layout(">h"), Layout(">i"), Layout(">q"), Layout(">d")
_CODES: Final = {1: "b", 2: "h", 4: "i", 8: "q"}


MOST_OBJECTS: Final = 1 << 62
NUMBERS_PER_OBJECT: Final = 4
"""This many integers of an array count as one element: they are quick to read, but each may name a partition, which is
looked up and gets a row of the response."""


def object_budget(size: int, most: int = MOST_OBJECTS) -> int:
    """The limit on array elements, views and unknown tags of a message with `size` bytes; never more than `most`."""
    return min(_FREE_OBJECTS + size // _BYTES_PER_OBJECT, most)


class Malformed(ValueError):
    """The bytes are not a message of the claimed kind and version."""


class TooMany(Malformed):
    """The message has more elements than its limit."""

    def __init__(self) -> None:
        super().__init__("more elements than a message of this size may hold")


class Reader:
    """Reads the classic encodings. Every read is checked against the remaining bytes, and every element against a
    budget."""

    __slots__ = ("budget", "data", "end", "pos")

    MIN_STRING: ClassVar[int] = 2

    def __init__(self, data: memoryview | bytes | bytearray, pos: int = 0, most: int = MOST_OBJECTS) -> None:
        self.data = memoryview(data)
        self.end = len(self.data)
        self.pos = pos
        self.budget = object_budget(self.end, most)

    def int8(self) -> int:
        pos = self.pos
        try:
            value: int = _int8.unpack_from(self.data, pos)[0]
        except LayoutError:
            raise Malformed("the message ends within a value") from None
        self.pos = pos + 1
        return value

    def boolean(self) -> bool:
        return self.int8() != 0

    def int16(self) -> int:
        pos = self.pos
        try:
            value: int = _int16.unpack_from(self.data, pos)[0]
        except LayoutError:
            raise Malformed("the message ends within a value") from None
        self.pos = pos + 2
        return value

    def int32(self) -> int:
        pos = self.pos
        try:
            value: int = _int32.unpack_from(self.data, pos)[0]
        except LayoutError:
            raise Malformed("the message ends within a value") from None
        self.pos = pos + 4
        return value

    def int64(self) -> int:
        pos = self.pos
        try:
            value: int = _int64.unpack_from(self.data, pos)[0]
        except LayoutError:
            raise Malformed("the message ends within a value") from None
        self.pos = pos + 8
        return value

    def uint16(self) -> int:
        return self.int16() & 0xFFFF

    def uint32(self) -> int:
        return self.int32() & 0xFFFFFFFF

    def float64(self) -> float:
        value: float = _float64.unpack(self.raw(8))[0]
        return value

    def uuid(self) -> Uuid:
        return Uuid(self.raw(16))

    def uvarint(self) -> int:
        """An unsigned 32-bit value of at most five bytes."""
        data, pos = self.data, self.pos
        if pos < self.end and (value := data[pos]) < 0x80:
            self.pos = pos + 1
            return value
        value = 0
        for shift, byte in zip((0, 7, 14, 21, 28), data[pos : pos + 5], strict=False):
            value |= (byte & 0x7F) << shift
            pos += 1
            if byte < 0x80 and value <= 0xFFFFFFFF:
                self.pos = pos
                return value
        raise Malformed("a varint that is cut short or has more than 32 bits")

    def unpack(self, layout: Layout) -> tuple[Any, ...]:
        """Reads several numbers in one step."""
        pos = self.pos
        try:
            values = layout.unpack_from(self.data, pos)
        except LayoutError:
            raise Malformed("the message ends within a value") from None
        self.pos = pos + layout.size
        return values

    def view(self, length: int) -> memoryview:
        """The next `length` bytes, not copied."""
        pos = self.pos
        end = pos + length
        if length < 0 or end > self.end:
            raise Malformed(f"{length} bytes announced, {self.end - pos} remain")
        self.pos = end
        return self.data[pos:end]

    def raw(self, length: int) -> bytes:
        return bytes(self.view(length))

    def charge(self, objects: int) -> None:
        """Takes objects from the budget of this message."""
        self.budget -= objects
        if self.budget < 0:
            raise TooMany

    def string_length(self) -> int:
        """-1 for null."""
        return self.int16()

    def length(self) -> int:
        """The length of bytes or of an array; -1 for null."""
        return self.int32()

    def text(self, length: int) -> str:
        pos = self.pos
        end = pos + length
        if length > MAX_STRING or end > self.end:
            raise Malformed(f"a string of {length} bytes, {self.end - pos} remain")
        self.pos = end
        try:
            return str(self.data[pos:end], "utf-8")
        except UnicodeDecodeError:
            raise Malformed("a string that is not UTF-8") from None

    def string(self) -> str:
        length = self.string_length()
        if length < 0:
            raise Malformed("null where a string is required")
        return self.text(length)

    def nullable_string(self) -> str | None:
        length = self.string_length()
        return None if length < 0 else self.text(length)

    def classic_nullable_string(self) -> str | None:
        """The client id of a request header has this encoding in every version (KIP-511)."""
        length = self.int16()
        return None if length < 0 else self.text(length)

    def blob(self) -> bytes:
        return bytes(self.view(self.length()))

    def nullable_blob(self) -> bytes | None:
        length = self.length()
        return None if length < 0 else bytes(self.view(length))

    def records(self) -> memoryview:
        """A bytes field as a view, not copied."""
        self.charge(1)
        return self.view(self.length())

    def nullable_records(self) -> memoryview | None:
        self.charge(1)
        length = self.length()
        return None if length < 0 else self.view(length)

    def count(self, size: int, weight: int = 1) -> int:
        """The length of an array whose elements take at least `size` bytes, charged `weight` each."""
        count = self.length()
        if count < 0:
            raise Malformed("null where an array is required")
        if count * size > self.end - self.pos:
            raise Malformed(f"{count} elements announced, {self.end - self.pos} bytes remain")
        self.budget -= count * weight
        if self.budget < 0:
            raise TooMany
        return count

    def nullable_count(self, size: int, weight: int = 1) -> int:
        """As `count`; -1 for null."""
        start = self.pos
        if self.length() < 0:
            return -1
        self.pos = start
        return self.count(size, weight)

    def present(self) -> bool:
        """Whether a nullable struct follows (KIP-893)."""
        return self.int8() >= 0

    def present_tagged(self) -> bool:
        """As `present`, for a struct that is a tagged field: Kafka marks those by a varint."""
        return self.uvarint() > 0

    def integers(self, count: int, size: int) -> list[int]:
        """Reads `count` signed integers of `size` bytes in one step. The budget has admitted them already."""
        self.charge(count // NUMBERS_PER_OBJECT)
        values = unpack_from(f">{count}{_CODES[size]}", self.view(count * size))
        return list(values)

    def tags(self) -> tuple[Tag, ...]:
        """Skips the tag section of a struct without known tags. Classic versions have no such section."""
        return ()

    def tag_count(self) -> int:
        return 0

    def skip_tags(self) -> None:
        """Skips a tag section."""


class FlexibleReader(Reader):
    """Reads the compact encodings and tag sections of flexible versions."""

    __slots__ = ()

    MIN_STRING = 1

    def tags(self) -> tuple[Tag, ...]:
        count = self.tag_count()
        return tuple([(self.uvarint(), self.raw(self.uvarint())) for _ in range(count)]) if count else ()

    def tag_count(self) -> int:
        count = self.uvarint()
        if count:
            if count * 2 > self.end - self.pos:
                raise Malformed(f"{count} elements announced, {self.end - self.pos} bytes remain")
            self.charge(count)
        return count

    def skip_tags(self) -> None:
        for _ in range(self.tag_count()):
            self.uvarint()
            self.view(self.uvarint())

    def string_length(self) -> int:
        return self.uvarint() - 1

    def length(self) -> int:
        return self.uvarint() - 1
