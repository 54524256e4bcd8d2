"""Requests damaged on purpose: structured, seeded, the same for the same seed.

A message's own reader shows where its fields lie, so that damage goes where decoders decide: lengths, counts, varints,
tag sections, field ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from struct import Struct as Layout
from typing import Any, NamedTuple

from highwater.wire.codec import FlexibleReader, Malformed, Message, Reader, Tag

INT32_EXTREMES = (-(2**31), -2, -1, 0, 1, 255, 65_536, 2**24, 2**31 - 2, 2**31 - 1)
VARINTS = (
    b"\x00",
    b"\x01",
    b"\x02",
    b"\x7f",
    b"\xff\xff\x03",
    b"\xff\xff\xff\xff\x07",  # 2^31 - 1
    b"\x80\x80\x80\x80\x08",  # 2^31
    b"\xff\xff\xff\xff\x0f",  # 2^32 - 1
    b"\xff\xff\xff\xff\x1f",  # a bit beyond
    b"\x80\x00",  # zero, longer than it need be
    b"\x80\x80\x80\x80\x00",
    b"\x80\x80\x80\x80\x80",  # five bytes and no end
    b"\xff" * 9 + b"\x01",
    b"\x80",
)


class Field(NamedTuple):
    """Where one value lies, and how it is written: an integer of a size, a varint, or plain bytes."""

    start: int
    end: int
    kind: str


class _Chart(Reader):
    """Notes every value that passes through it."""

    __slots__ = ("fields",)

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.fields: list[Field] = []

    def _note(self, start: int, kind: str) -> None:
        self.fields.append(Field(start, self.pos, kind))

    def int8(self) -> int:
        return int(self._noted(super().int8, "int"))

    def int16(self) -> int:
        return int(self._noted(super().int16, "int"))

    def int32(self) -> int:
        return int(self._noted(super().int32, "int"))

    def int64(self) -> int:
        return int(self._noted(super().int64, "int"))

    def uvarint(self) -> int:
        return int(self._noted(super().uvarint, "varint"))

    def unpack(self, layout: Layout) -> tuple[Any, ...]:
        start = self.pos
        values = super().unpack(layout)
        at = start
        for code in layout.format.lstrip(">"):
            size = {"b": 1, "h": 2, "i": 4, "q": 8}[code]
            self.fields.append(Field(at, at + size, "int"))
            at += size
        return values

    def view(self, length: int) -> memoryview:
        start = self.pos
        data = super().view(length)
        self._note(start, "bytes")
        return data

    def text(self, length: int) -> str:
        start = self.pos
        value = super().text(length)
        self._note(start, "bytes")
        return value

    def _noted(self, read: Callable[[], int], kind: str) -> int:
        start = self.pos
        value = read()
        self._note(start, kind)
        return value


class _FlexibleChart(_Chart):
    __slots__ = ()

    MIN_STRING = 1
    string_length = FlexibleReader.string_length
    length = FlexibleReader.length
    skip_tags = FlexibleReader.skip_tags

    def tag_count(self) -> int:
        start = self.pos
        count = FlexibleReader.tag_count(self)  # type: ignore[arg-type]
        self.fields[-1] = Field(start, self.fields[-1].end, "tags")
        return count

    def tags(self) -> tuple[Tag, ...]:
        return tuple([(self.uvarint(), self.raw(self.uvarint())) for _ in range(self.tag_count())])


def fields_of(message: type[Message], body: bytes, version: int) -> list[Field]:
    """Every value of a well-formed body, in order."""
    chart = _FlexibleChart(body) if version >= message.FLEXIBLE else _Chart(body)
    message.read(chart, version)
    return chart.fields


@dataclass
class Sample:
    """A well-formed body and where its fields lie."""

    body: bytes
    fields: list[Field] = field(default_factory=list)

    @classmethod
    def of(cls, message: Message, version: int) -> Sample:
        body = message.encode(version)
        return cls(body, fields_of(type(message), body, version))


def mutated(random: Random, sample: Sample, others: list[Sample]) -> bytes:
    """One to three kinds of damage; every twelfth is left whole."""
    if random.randrange(12) == 0:
        return sample.body
    data = bytearray(sample.body)
    whole = sample.fields
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        random.choice(_DAMAGES)(random, data, whole, random.choice(others).body)
        whole = [each for each in whole if each.end <= len(data)]
    return bytes(data)


def _place(random: Random, data: bytearray) -> int:
    return random.randrange(len(data) + 1)


def _flip(random: Random, data: bytearray, fields: list[Field], other: bytes) -> None:
    for _ in range(random.choice((1, 1, 2, 8)) if data else 0):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _overwrite(random: Random, data: bytearray, fields: list[Field], other: bytes) -> None:
    at, size = _place(random, data), random.choice((1, 2, 4, 8))
    data[at : at + size] = random.choice((b"\xff" * size, b"\x00" * size, b"\x7f" * size, random.randbytes(size)))


def _insert(random: Random, data: bytearray, fields: list[Field], other: bytes) -> None:
    at = _place(random, data)
    data[at:at] = random.randbytes(random.choice((1, 1, 2, 4, 30)))


def _delete(random: Random, data: bytearray, fields: list[Field], other: bytes) -> None:
    at = _place(random, data)
    del data[at : at + random.choice((1, 1, 2, 4, 30))]


def _repeat(random: Random, data: bytearray, fields: list[Field], other: bytes) -> None:
    at = _place(random, data)
    data[at:at] = data[at : at + random.choice((1, 4, 16, 60))] * random.choice((1, 1, 3, 40))


def _extreme(random: Random, data: bytearray, fields: list[Field], other: bytes) -> None:
    numbers = [each for each in fields if each.kind != "bytes"]
    if not numbers:
        return
    start, end, kind = random.choice(numbers)
    if kind == "int":
        size = end - start
        top = 1 << 8 * size - 1
        value = random.choice((-top, -2, -1, 0, 1, top - 2, top - 1, *(v for v in INT32_EXTREMES if -top <= v < top)))
        data[start:end] = value.to_bytes(size, "big", signed=True)
    else:
        data[start:end] = random.choice(VARINTS)


def _nudge(random: Random, data: bytearray, fields: list[Field], other: bytes) -> None:
    """A number a little off: the length that overlaps its neighbour, the count one too many."""
    numbers = [each for each in fields if each.kind != "bytes"]
    if numbers:
        start, end, _ = random.choice(numbers)
        last = end - 1
        data[last] = (data[last] + random.choice((-3, -1, 1, 2, 100))) & (0x7F if end - start == 1 else 0xFF)


def _cut(random: Random, data: bytearray, fields: list[Field], other: bytes) -> None:
    if fields:
        start, end, _ = random.choice(fields)
        del data[random.choice((start, end, (start + end) // 2)) :]


def _tags(random: Random, data: bytearray, fields: list[Field], other: bytes) -> None:
    """Unknown, doubled and disordered tags, and counts and sizes that lie."""
    sections = [each for each in fields if each.kind == "tags"]
    if not sections:
        return _insert(random, data, fields, other)
    start, end, _ = random.choice(sections)
    size = random.choice((0, 1, 4, 100))
    content = random.randbytes(size)
    one, two = (bytes([number, size]) + content for number in (random.randrange(6), random.choice((0, 1, 7, 127))))
    data[start:end] = random.choice(
        (
            b"\x01" + one,
            b"\x02" + one + one,
            b"\x02" + max(one, two) + min(one, two),
            b"\x02" + one,
            b"\x01" + one[:1] + random.choice(VARINTS) + content,
            b"\x01" + random.choice(VARINTS) + b"\x00",
            random.choice(VARINTS),
        )
    )
    return None


def _splice(random: Random, data: bytearray, fields: list[Field], other: bytes) -> None:
    """The end of another message, of this version or of another one."""
    at = random.choice(fields).start if fields else 0
    data[at:] = other[min(at, _place(random, bytearray(other))) :]


def _swap(random: Random, data: bytearray, fields: list[Field], other: bytes) -> None:
    """The body of another version under this version's name."""
    data[:] = other


def _trail(random: Random, data: bytearray, fields: list[Field], other: bytes) -> None:
    data += random.choice((b"\x00", random.randbytes(5), bytes(100), other))


_DAMAGES = (
    _flip, _overwrite, _insert, _delete, _repeat, _extreme, _extreme, _extreme, _nudge, _nudge, _cut, _tags, _tags,
    _splice, _swap, _trail,
)  # fmt: skip


def refused(decode: Callable[[memoryview, int], object], body: bytes, version: int) -> bool:
    """Whether a decoder calls the bytes malformed."""
    try:
        decode(memoryview(body), version)
    except Malformed:
        return True
    return False
